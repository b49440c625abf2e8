"""History: the recorded events of logs for readers, each with the handoff that it is about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest

from changeover.facts import HandoffRecord, Mode
from changeover.ids import handoff_id
from changeover.relay.events import (
    AlternativeRefused,
    CircuitFound,
    ContextPacked,
    Entry,
    Event,
    FellBack,
    FollowUpDone,
    FollowUpFailed,
    HandoffAccepted,
    HandoffConditional,
    HandoffExpired,
    HandoffOffered,
    HandoffRejected,
    HandoffReturned,
    HandoffRolledBack,
    RollbackDone,
    RollbackFailed,
    RollbackRequested,
    RunStarted,
    TicketLapsed,
    TicketTaken,
    Unreadable,
)
from changeover.relay.result import handoff_in
from changeover.relay.state import State
from changeover.relay.stream import AgentChanged, Recorded

CALLS = (
    HandoffOffered,
    ContextPacked,
    HandoffAccepted,
    HandoffRejected,
    CircuitFound,
    AlternativeRefused,
    HandoffConditional,
    HandoffExpired,
    HandoffReturned,
    RollbackRequested,
    HandoffRolledBack,
    RollbackFailed,
    RollbackDone,
    FellBack,
    FollowUpFailed,
    FollowUpDone,
)
"""Events that name a handoff by its call."""
TICKETS = (TicketTaken, TicketLapsed)
"""Events that name a handoff by its ticket."""
ABOUT_HANDOFFS = frozenset((*CALLS, *TICKETS))
MOVES = frozenset((RunStarted, HandoffRolledBack, HandoffAccepted, FellBack))
"""Events that may change the active agent."""


class Witness:
    """Applies events to a state, and keeps for each the handoff that it is about."""

    __slots__ = ("_apply", "_handoffs", "_state")

    def __init__(self, state: State, apply: Callable[[Event | Unreadable], None] | None = None) -> None:
        self._state, self._apply = state, apply or state.apply
        self._handoffs: list[HandoffRecord | None] = []

    def apply(self, event: Event | Unreadable) -> None:
        self._apply(event)
        self._handoffs.append(handoff_after(self._state, event))

    def records(self, entry: Entry, agent: str) -> list[Recorded]:
        """The events of the entry that was applied; `agent` was active before it."""
        return records_of(entry, agent, self._handoffs)


def records_of(entry: Entry, agent: str, handoffs: Sequence[HandoffRecord | None] = ()) -> list[Recorded]:
    """The events of an entry for readers; `agent` was active before it, `handoffs` has the handoff of each event."""
    who, found = agent, []
    for index, (event, handoff) in enumerate(zip_longest(entry.events, handoffs)):
        before, who = who, agent_after(event, who)
        seq, position = entry.seq + index, entry.position + index
        active = who if isinstance(event, RunStarted) else before
        found.append(Recorded(seq, entry.at, entry.conversation, active, event, position, handoff))
    return found


def agent_after(event: Event | Unreadable, agent: str) -> str:
    """The agent that is active after an event; `agent` is the one before it."""
    if type(event) not in MOVES:
        return agent
    match event:
        case RunStarted(code=False) | HandoffRolledBack():
            return event.agent
        case HandoffAccepted(mode=Mode.TRANSFER):
            return event.receiver
        case FellBack():
            return event.agent or agent
        case _:
            return agent


class ActiveAgents:
    """The active agent of each conversation in a stream of recorded events."""

    __slots__ = ("_active",)

    def __init__(self) -> None:
        self._active: dict[str, str] = {}

    def change(self, item: Recorded) -> AgentChanged | None:
        """The change of the active agent that an event brings about; None if it brings about none."""
        first = "" if isinstance(item.event, RunStarted) else item.agent
        before = self._active.get(item.conversation, first)
        after = self._active[item.conversation] = agent_after(item.event, before)
        return None if after == before else AgentChanged(after, before, item.conversation)


def handoff_after(state: State, event: Event | Unreadable) -> HandoffRecord | None:
    """The handoff that an event is about, as it stands after the event."""
    if type(event) not in ABOUT_HANDOFFS:
        return None
    if isinstance(event, CALLS):
        return handoff_in(state, handoff_id(state.id, event.call))
    return handoff_in(state, event.ticket) if isinstance(event, TICKETS) else None


def late_witness(state: State, entry: Entry) -> Witness:
    """A witness of an entry that a state holds already: handoffs are as they stand after the whole entry."""
    witness = Witness(state, lambda event: None)
    for event in entry.events:
        witness.apply(event)
    return witness


def fold_recorded(state: State, entry: Entry) -> list[Recorded]:
    """Fold an entry, and return its events for readers."""
    witness, agent = Witness(state), state.agent
    state.at, state.seq = entry.at, entry.seq + len(entry.events) - 1
    for event in entry.events:
        witness.apply(event)
    return witness.records(entry, agent)


def recorded(entries: Iterable[Entry]) -> Iterator[Recorded]:
    """The events of these logs one by one; the entries of each log must begin with its first."""
    states: dict[str, State] = {}
    for entry in entries:
        yield from fold_recorded(states.setdefault(entry.conversation, State(entry.conversation)), entry)
