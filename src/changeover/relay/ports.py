"""What the core needs from outside, in the core's words."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from changeover.messages import Message, Reply
from changeover.relay.events import Entry, Event
from changeover.relay.stream import Recorded, TextDelta, ThinkingDelta
from changeover.tools.context import RunContext
from changeover.tools.definition import ToolDefinition


class Request(Struct, frozen=True, kw_only=True, gc=False):
    """One call of a model: what it is told, and where it stands in the conversation."""

    agent: str
    instructions: str
    messages: Sequence[Message]
    tools: tuple[ToolDefinition, ...]
    settings: Mapping[str, Any]
    conversation: str
    command: str
    attempt: int
    turn: int
    """How often this agent's model was called in this conversation before."""


class Model(Protocol):
    """Whatever can think."""

    async def reply(self, request: Request) -> Reply: ...

    def stream(self, request: Request) -> AsyncIterator[TextDelta | ThinkingDelta | Reply]:
        """The reply in pieces, then the same reply whole."""
        ...


class ToolOutcome(Struct, frozen=True):
    """What came of a call: a text for the model."""

    text: str
    ok: bool = True


class Toolkit(Protocol):
    """Whatever can carry out calls."""

    def definitions(self) -> Sequence[ToolDefinition]: ...

    def misfit(self, name: str, args: dict[str, Any], context: RunContext) -> str:
        """What is wrong with these arguments, in words for the model; nothing if they fit."""
        ...

    async def call(self, name: str, args: dict[str, Any], context: RunContext) -> ToolOutcome: ...


class Clock(Protocol):
    """Time, as tests may move it."""

    def now(self) -> float: ...

    async def sleep_until(self, at: float) -> None: ...


class Head(Struct, frozen=True, gc=False):
    """How a conversation stands after an entry, for those who look from outside."""

    status: Literal["running", "waiting", "completed", "failed", "cancelled"]
    agent: str
    working: bool
    """Whether this process goes on working on it: then it owns the conversation, else nobody does."""


class Log(Protocol):
    """Where events live: append-only, one row an append. A store that several processes share also says whose turn
    it is: a process owns the conversations it works on for as long as its lease is renewed."""

    async def read(self, conversation: str, after: int = 0) -> list[Entry]:
        """The entries from this position on."""
        ...

    async def append(self, entry: Entry, head: Head | None) -> None:
        """Store the entry, all of it or nothing, and fill in its seq.

        Raise Conflict if somebody was at its position before or its cause is recorded already, Owned if another live
        process works on the conversation, LeaseLost if this process may not write any more. Without a head it is an
        input to a conversation that somebody else works on: ownership is neither needed nor changed.
        """
        ...

    async def find(self, conversation: str, cause: str) -> int | None:
        """The position at which this cause was recorded."""
        ...

    async def unfinished(self) -> list[str]:
        """The root conversations in which something is outstanding and on which no live process works."""
        ...

    async def claim(self, conversation: str) -> bool:
        """Own this conversation from now on, unless another live process does: then False."""
        ...

    def may_begin(self) -> bool:
        """Whether this process may begin effects: False once its lease has run out."""
        ...

    @property
    def epoch(self) -> int:
        """How often this process took its lease: what it owned under another one may be somebody else's by now."""
        ...

    def changes(self, root: str, after_seq: int = 0) -> AsyncIterator[Entry]:
        """The entries of a root's tree whose seq is higher, in order, and then each new one as it is recorded."""
        ...

    async def close(self) -> None:
        """Write what is still to be written, give up what this process owns, and let go of the store."""
        ...


class Observer(Protocol):
    """Whoever is told of events after they are recorded."""

    async def noticed(self, recorded: Sequence[Recorded]) -> None: ...


Emit = Callable[[TextDelta | ThinkingDelta], None]
Intend = Callable[[Event], Awaitable[None]]
"""Commits an intent before an effect that must not happen twice."""
