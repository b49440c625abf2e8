"""Stream items: text deltas, recorded events, changes of the active agent, and the final result, for readers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from msgspec import Struct

from changeover.facts import HandoffRecord, RunResult
from changeover.ids import event_id
from changeover.relay.events import Event, ModelReplied, Unreadable


class TextDelta(Struct, frozen=True, gc=False):
    """A piece of an answer while the model writes it. A higher attempt starts the text again."""

    text: str
    agent: str = ""
    conversation: str = ""
    command: str = ""
    attempt: int = 1


class ThinkingDelta(Struct, frozen=True, gc=False):
    """A piece of a model's thinking while it writes it."""

    text: str
    agent: str = ""
    conversation: str = ""
    command: str = ""
    attempt: int = 1


class Recorded(Struct, frozen=True, gc=False):
    """One event of the log; `seq` counts over the root's tree, `agent` is the agent that was active."""

    seq: int
    at: float
    conversation: str
    agent: str
    event: Event | Unreadable
    position: int
    handoff: HandoffRecord | None = None
    """The handoff that the event is about, as it stands after the event; None if it is about none."""

    @property
    def id(self) -> str:
        """The id of the event, the same for every reader."""
        return event_id(self.conversation, self.position)


class AgentChanged(Struct, frozen=True, gc=False):
    """The active agent of a conversation changed; at the beginning of a conversation, `previous` is empty."""

    agent: str
    previous: str
    conversation: str


class RunFinished(Struct, frozen=True, gc=False):
    """The end of a stream."""

    result: RunResult


Delta = TextDelta | ThinkingDelta
StreamItem = Delta | Recorded | AgentChanged | RunFinished


class Deltas(Protocol):
    """Carries deltas from models to the readers of a store. It is no part of the log: a delta may be lost or come late,
    and the recorded reply holds the whole text."""

    def wanted(self, root: str) -> bool:
        """True if a reader of this tree listens, in this process or, where the store reaches them, in another one."""
        ...

    def send(self, root: str, delta: Delta) -> None:
        """Pass a delta of a conversation in this tree to its readers; never blocks."""
        ...

    def listening(self, root: str, hear: Callable[[Delta], None]) -> AbstractContextManager[None]:
        """Call `hear` with each delta of this tree from now on, in any thread; it must not block."""
        ...


class Replies:
    """Knows which replies are recorded, and so which deltas came late."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def note(self, item: Recorded) -> None:
        """Take in the next event of a tree."""
        if isinstance(item.event, ModelReplied):
            self._last[item.conversation] = item.position

    def has(self, delta: Delta) -> bool:
        """True if the reply that this is a piece of is recorded. The id of a model call is a position before it."""
        due = int(delta.command) if delta.command.isdecimal() else 0
        return due < self._last.get(delta.conversation, 0)
