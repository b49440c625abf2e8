"""What the core needs from outside, in the core's words."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

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
    """What came of a call: a text for the model; `fits` is False if the arguments never did."""

    text: str
    ok: bool = True
    fits: bool = True


class Toolkit(Protocol):
    """Whatever can carry out calls."""

    def definitions(self) -> Sequence[ToolDefinition]: ...

    async def call(self, name: str, args: dict[str, Any], context: RunContext) -> ToolOutcome: ...


class Clock(Protocol):
    """Time, as tests may move it."""

    def now(self) -> float: ...

    async def sleep_until(self, at: float) -> None: ...


class Log(Protocol):
    """Where events live: append-only, one row an append."""

    async def read(self, conversation: str) -> list[Entry]: ...

    async def append(self, entry: Entry) -> None:
        """Store the entry and fill in its seq; raise Conflict if somebody was there before."""
        ...

    async def find(self, conversation: str, cause: str) -> int | None:
        """The position at which this cause was recorded."""
        ...

    async def unfinished(self) -> list[str]:
        """The root conversations in which something is outstanding."""
        ...

    async def close(self) -> None: ...


class Observer(Protocol):
    """Whoever is told of events after they are recorded."""

    async def noticed(self, recorded: Sequence[Recorded]) -> None: ...


Emit = Callable[[TextDelta | ThinkingDelta], None]
Intend = Callable[[Event], Awaitable[None]]
"""Commits an intent before an effect that must not happen twice."""
