"""Fold an outcome, then every decision that needs no effect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from changeover.agent.roster import Roster
from changeover.relay.commands import Command, Record
from changeover.relay.decide import decide
from changeover.relay.events import Event
from changeover.relay.naming import call_of
from changeover.relay.run import TURNING
from changeover.relay.state import State


def settle(state: State, roster: Roster, at: float, events: Iterable[Event]) -> tuple[list[Event], Sequence[Command]]:
    """Return what to append, and what is left to perform."""
    state.at = at
    batch = list(events)
    for event in batch:
        state.apply(event)
    # One decision at a time: each may change what the next one is.
    while isinstance(decision := decide(state, roster), Record):
        state.apply(decision.event)
        batch.append(decision.event)
    if decision and state.run is not None and isinstance(phase := state.run.phase, TURNING) and phase.turn:
        for command in decision:
            phase.turn.give_out(call_of(command.id))
    return batch, decision
