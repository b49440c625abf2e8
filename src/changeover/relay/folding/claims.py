"""What events mean for work that is served by claims: taken up again, fallen back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from changeover.handoffs.protocol import TRANSITIONS, Signal, advance
from changeover.relay.events import TicketLapsed, TicketTaken
from changeover.relay.run import Run

if TYPE_CHECKING:
    from changeover.relay.state import State


def take(state: State, run: Run, event: TicketTaken) -> None:
    _note(state, event.ticket, Signal.ACCEPT, Signal.START)


def lapse(state: State, run: Run, event: TicketLapsed) -> None:
    _note(state, event.ticket, Signal.LAPSE)
    if event.worn_out and run.ticket == event.ticket:
        run.worn_out = True


def _note(state: State, ticket: str, *signals: Signal) -> None:
    """Where the handoff stands that was claimed, if it was one and if it can."""
    for index in range(len(state.handoffs) - 1, -1, -1):
        record = state.handoffs[index]
        if record.id == ticket:
            if signals[0] in TRANSITIONS[record.state]:
                state.handoffs[index] = replace(record, state=advance(record.state, *signals))
            return
