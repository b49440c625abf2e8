"""Stream items: the text deltas, recorded events and final result that a reader of a conversation receives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from changeover.facts import Mode, RunResult
from changeover.ids import event_id
from changeover.relay.events import Entry, Event, HandoffAccepted, HandoffRolledBack, RunStarted, Unreadable


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

    @property
    def id(self) -> str:
        """The id of the event, the same for every reader."""
        return event_id(self.conversation, self.position)


class RunFinished(Struct, frozen=True, gc=False):
    """The end of a stream."""

    result: RunResult


StreamItem = TextDelta | ThinkingDelta | Recorded | RunFinished


def recorded(entries: Iterable[Entry], agent: str = "") -> Iterator[Recorded]:
    """The events of these entries one by one; `agent` was active before the first."""
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
