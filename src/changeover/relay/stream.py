"""Stream items: text deltas, recorded events, changes of the active agent, and the final result, for readers."""

from __future__ import annotations

from msgspec import Struct

from changeover.facts import HandoffRecord, RunResult
from changeover.ids import event_id
from changeover.relay.events import Event, Unreadable


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


StreamItem = TextDelta | ThinkingDelta | Recorded | AgentChanged | RunFinished
