"""Circuit breakers: which offers and endings an entry reports to the circuits of receivers."""

from __future__ import annotations

from collections.abc import Iterable

from changeover.agent.roster import Roster, Seat
from changeover.facts import State as HandoffState
from changeover.guards.breaker import CircuitBreaker, Ended
from changeover.ids import handoff_id
from changeover.relay.ports.log import Circuits
from changeover.relay.projection.changes import Change


def circuits_of(conversation: str, changes: Iterable[Change], roster: Roster, calm: bool) -> Circuits | None:
    """The report of an entry with these changes; None if it is empty. If circuits are `calm`, only failures count."""
    if calm and all(change.ok is not False for change in changes):
        return None
    offers: dict[str, tuple[str, str]] = {}
    accepted: set[str] = set()
    ended: list[Ended] = []
    for change in changes:
        id, breaker = handoff_id(conversation, change.call), _breaker(roster, change)
        if change.state is HandoffState.WORKING:
            accepted.add(change.call)
        elif not breaker or not change.counted:
            continue
        elif change.state is HandoffState.PENDING:
            offers[change.call] = (id, change.receiver)
        # An offer that is declined in the entry that makes it was not made.
        elif change.call in accepted or offers.pop(change.call, None) is None:
            ended.append(Ended(id, change.receiver, change.ok, change.since, breaker))
    return Circuits(tuple(offers.values()), tuple(ended)) if offers or ended else None


def _breaker(roster: Roster, change: Change) -> CircuitBreaker | None:
    """The breaker that counts a handoff: that of the sender's tool, else the team's. The function of a step has none:
    its step says how often it is tried again."""
    if change.receiver in roster.steps:
        return None
    if not roster.own_breakers:
        return roster.breaker
    seat = roster.seats.get(change.sender)
    return seat.breakers.get(change.tool, roster.breaker) if isinstance(seat, Seat) else roster.breaker
