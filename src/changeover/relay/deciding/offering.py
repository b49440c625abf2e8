"""What every offer says beside its contents: until when it stands, and which one it follows."""

from __future__ import annotations

from msgspec.structs import replace

from changeover.agent.roster import Roster, Seat
from changeover.facts import Mode
from changeover.relay.events import HandoffOffered
from changeover.relay.run import Run
from changeover.relay.state import State


def until(state: State, offer: HandoffOffered, timeout: float | None, roster: Roster) -> HandoffOffered:
    """The offer with its deadline; a transfer has none if it is accepted in the moment in which it is offered."""
    if timeout is None:
        return offer
    if offer.mode is Mode.TRANSFER:
        seat = roster.seats.get(offer.receiver)
        if type(seat) is not Seat or not seat.asks:
            return offer
    return replace(offer, deadline=state.at + timeout)


def following(state: State, run: Run, offer: HandoffOffered) -> HandoffOffered:
    """The offer as the next one after a handoff of the same task that nobody took, if there was one."""
    before = run.declined
    if before is None or before.task != state.task:
        return offer
    return replace(offer, attempt=before.attempt + 1, retry_of=before.handoff, declined_by=before.by)
