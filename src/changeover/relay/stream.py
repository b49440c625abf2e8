"""Stream items: the text deltas, recorded events and final result that a reader of a conversation receives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from changeover.facts import Mode, RunResult
from changeover.ids import event_id
from changeover.relay.events import Entry, Event, HandoffAccepted, HandoffRolledBack, RunStarted, Unreadable


class TextDelta(Struct, frozen=True, gc=False):
    """A piece of an answer, as it is being written. A higher attempt begins the text anew."""

    text: str
    agent: str = ""
    conversation: str = ""
    command: str = ""
    attempt: int = 1


class ThinkingDelta(Struct, frozen=True, gc=False):
    """A piece of a model's thinking, as it is being written."""

    text: str
    agent: str = ""
    conversation: str = ""
    command: str = ""
    attempt: int = 1


class Recorded(Struct, frozen=True, gc=False):
    """One event of the log; `seq` counts over the whole tree of a root, `agent` is who was active then."""

    seq: int
    at: float
    conversation: str
    agent: str
    event: Event | Unreadable
    position: int

    @property
    def id(self) -> str:
        """The same whenever and wherever this event is read."""
        return event_id(self.conversation, self.position)


class RunFinished(Struct, frozen=True, gc=False):
    """The end of a stream."""

    result: RunResult


StreamItem = TextDelta | ThinkingDelta | Recorded | RunFinished


def recorded(entries: Iterable[Entry], agent: str = "") -> Iterator[Recorded]:
    """The events of these entries one by one; `agent` is who was active before the first of them."""
    active: dict[str, str] = {}
    for entry in entries:
        who = active.get(entry.conversation, "" if active else agent)
        for index, event in enumerate(entry.events):
            if isinstance(event, RunStarted) and not event.code:
                who = event.agent
            yield Recorded(entry.seq + index, entry.at, entry.conversation, who, event, entry.position + index)
            if isinstance(event, HandoffAccepted) and event.mode is Mode.TRANSFER:
                who = event.receiver
            elif isinstance(event, HandoffRolledBack):
                who = event.agent
        active[entry.conversation] = who
