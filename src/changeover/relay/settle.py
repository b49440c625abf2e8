"""Fold an outcome, then every decision that needs no effect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from changeover.agent.roster import Roster
from changeover.guards.guard import Tripped
from changeover.relay.commands import Command, Record
from changeover.relay.decide.decision import decide
from changeover.relay.events import CircuitFound, Event, HandoffOffered
from changeover.relay.ids import call_of
from changeover.relay.run import TURNING
from changeover.relay.state import State

NOBODY: Mapping[str, Tripped] = {}


def settle(
    state: State, roster: Roster, at: float, events: Iterable[Event], tripped: Mapping[str, Tripped] = NOBODY
) -> tuple[list[Event], Sequence[Command]]:
    """Return what to append, and what is left to perform. Of the handoffs that are `tripped`, by their calls, it was
    found that their receivers are left alone."""
    state.at = at
    batch = list(events)
    for event in batch:
        state.apply(event)
    # One decision at a time: each may change what the next one is.
    while isinstance(decision := decide(state, roster), Record):
        state.apply(decision.event)
        batch.append(decision.event)
        if tripped and type(offer := decision.event) is HandoffOffered and (found := tripped.get(offer.call)):
            # Right behind its offer: before it, the ids would not be those of which it was found.
            batch.append(verdict := CircuitFound(offer.call, offer.task, found.receiver, found.failures, found.until))
            state.apply(verdict)
    if decision and state.run is not None and isinstance(phase := state.run.phase, TURNING) and phase.turn:
        for command in decision:
            phase.turn.give_out(call_of(command.id))
    return batch, decision
