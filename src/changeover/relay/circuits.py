"""Circuit breakers: which offers and endings an entry reports to the circuits of receivers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from changeover.agent.roster import Roster, Seat
from changeover.errors import CircuitsOpen, Exhausted
from changeover.facts import HandoffRecord, Mode
from changeover.faults import Fault, FunctionFault, LimitFault, ModelFault, ReceiverFault, ResultFault, WorkerFault
from changeover.guards.breaker import CircuitBreaker, Ended
from changeover.guards.guard import Tripped
from changeover.ids import call_of, handoff_id, split_handoff
from changeover.relay.budget import heeding
from changeover.relay.decide.decision import NOBODY
from changeover.relay.events import (
    Event,
    HandoffAccepted,
    HandoffConditional,
    HandoffExpired,
    HandoffOffered,
    HandoffRejected,
    HandoffReturned,
    HandoffRolledBack,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunStarted,
)
from changeover.relay.fold.calls import find
from changeover.relay.ports import Circuits
from changeover.relay.run import TURNING
from changeover.relay.state import State
from changeover.relay.turn import Delegated

BLAMED = (ModelFault, FunctionFault, WorkerFault, ResultFault, ReceiverFault)
"""What a receiver itself got wrong; a limit of the whole run, or a no, is nobody's failure."""

BACK = (HandoffReturned, HandoffExpired)

Hands = tuple[HandoffRecord | None, HandoffRecord | None]
"""Two handoffs in work: that of the active agent, and that of a delegate who comes back."""


def in_hand(state: State, events: Sequence[Event]) -> Hands:
    """What may be over once these events are folded."""
    leg = state.handoffs[state.leg] if state.leg >= 0 else None
    if state.run is None or not events or not isinstance(event := events[0], BACK):
        return leg, None
    found = find(state.run, event.call, Delegated)
    return leg, state.handoffs[found[1].phase.index] if found and isinstance(found[1].phase, Delegated) else None


def circuits_of(before: Hands, state: State, roster: Roster, batch: Sequence[Event], calm: bool) -> Circuits | None:
    """What these events, which led to this state, mean for circuits; None if they mean nothing. `before` is what was
    in hand then; where it is `calm`, only a failure means anything."""
    if calm and FAILING.isdisjoint(map(type, batch)):
        return None
    reading: Reading | None = None
    for event in batch:
        if (read := READ.get(type(event))) is not None:
            reading = reading or Reading(before, state, roster, len(batch))
            read(reading, event)
    if reading is None or not (reading.offers or reading.ended):
        return None
    return Circuits(tuple(reading.offers.values()), tuple(reading.ended))


def heeded(
    events: Sequence[Event], tripped: Mapping[str, Tripped], refusal: Exhausted | CircuitsOpen
) -> tuple[Sequence[Event], Mapping[str, Tripped]]:
    """What is to be settled instead, since the log refuses what followed from these events: with them goes what they
    have to heed, and with the calls of handoffs what was found of their receivers."""
    if isinstance(refusal, Exhausted):
        return heeding(events, refusal), NOBODY  # by which other ids may follow: whoever is found then is found anew
    found = {_call(handoff): Tripped(who, failures, until) for handoff, who, failures, until in refusal.offers}
    return events, {**tripped, **found}


class Reading:
    """The events of an entry, read in their order."""

    __slots__ = ("_before", "_events", "_leg", "_roster", "_state", "_team", "ended", "offers")

    def __init__(self, before: Hands, state: State, roster: Roster, events: int) -> None:
        self._before, self._state, self._roster, self._events = before, state, roster, events
        self._leg: HandoffRecord | str | None = before[0]
        """The handoff under which the active agent works; if it was only just accepted, its call."""
        self._team = roster.breaker
        self.offers: dict[str, tuple[str, str]] = {}
        self.ended: list[Ended] = []

    def offer(self, event: HandoffOffered) -> None:
        if self._breaker(event.sender, event.call):
            self.offers[event.call] = (handoff_id(self._state.id, event.call), event.receiver)

    def decline(self, event: HandoffRejected) -> None:
        # Who declines at once, or is left alone, was offered nothing.
        if self.offers.pop(event.call, None) is None:
            self._end(event.call, event.receiver, None)

    def condition(self, event: HandoffConditional) -> None:
        if (event.needs_context or event.put_off) and self.offers.pop(event.call, None) is None:
            self._end(event.call, event.receiver, None)

    def expire(self, event: HandoffExpired) -> None:
        if self.offers.pop(event.call, None) is None:
            self._end(event.call, event.receiver, False)

    def accept(self, event: HandoffAccepted) -> None:
        if event.mode is Mode.TRANSFER:
            self._end_leg(True)
            self._leg = event.call

    def come_back(self, event: HandoffReturned) -> None:
        if not event.declined:
            failed = False if not event.cancelled and _blames(event.fault) else None
            self._end(event.call, event.receiver, event.success or failed)

    def begin(self, event: RunStarted) -> None:
        self._leg = None

    def complete(self, event: RunCompleted) -> None:
        self._end_leg(True)

    def fail(self, event: RunFailed) -> None:
        self._end_leg(False if _blames(event.fault) else None)

    def let_go(self, event: RunCancelled | HandoffRolledBack) -> None:
        self._end_leg(None)

    def _end_leg(self, ok: bool | None) -> None:
        leg, self._leg = self._leg, None
        record = self._record(leg) if isinstance(leg, str) else leg
        if record is not None and (breaker := self._breaker(record.sender, _call(record.id))):
            self.ended.append(Ended(record.id, record.receiver, ok, record.at, breaker))

    def _end(self, call: str, receiver: str, ok: bool | None) -> None:
        record = self._record(call)
        sender, began = (record.sender, record.at) if record else (self._state.agent, self._state.at)
        if breaker := self._breaker(sender, call):
            self.ended.append(Ended(handoff_id(self._state.id, call), receiver, ok, began, breaker))

    def _breaker(self, sender: str, call: str) -> CircuitBreaker | None:
        """What counts the failures of whom this member hands over to by this call: its own, else the team's."""
        if not self._roster.own_breakers:
            return self._team
        seat = self._roster.seats.get(sender)
        return seat.breakers.get(self._tool(call), self._team) if isinstance(seat, Seat) else self._team

    def _tool(self, call: str) -> str:
        phase = self._state.run.phase if self._state.run else None
        turn = phase.turn if isinstance(phase, TURNING) else None
        if turn and (found := turn.calls.get(call_of(call))):
            return found.call.name
        record = self._record(call)
        return record.tool if record else ""

    def _record(self, call: str) -> HandoffRecord | None:
        """The record of a handoff: it was in hand before, or is one of the last, which these events made."""
        id = handoff_id(self._state.id, call)
        for record in (*self._before, *self._state.handoffs[-self._events :]):
            if record is not None and record.id == id:
                return record
        return None


def _call(handoff: str) -> str:
    return split_handoff(handoff)[1]


def _blames(fault: Fault | None) -> bool:
    """Whether it is the receiver that failed; without a fault its result was not what was expected."""
    if isinstance(fault, LimitFault):
        return fault.limit == "max_iterations"
    return fault is None or isinstance(fault, BLAMED)


READ: dict[type[Any], Callable[[Reading, Any], None]] = {
    HandoffOffered: Reading.offer,
    HandoffRejected: Reading.decline,
    HandoffConditional: Reading.condition,
    HandoffExpired: Reading.expire,
    HandoffAccepted: Reading.accept,
    HandoffReturned: Reading.come_back,
    HandoffRolledBack: Reading.let_go,
    RunStarted: Reading.begin,
    RunCompleted: Reading.complete,
    RunFailed: Reading.fail,
    RunCancelled: Reading.let_go,
}
"""What each event means for circuits; any other means nothing."""

FAILING = frozenset({HandoffExpired, HandoffReturned, RunFailed})
