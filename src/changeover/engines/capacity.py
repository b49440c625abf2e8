"""How much an agent has on its hands: where it works, or is about to, as far as the log and this process know."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING

from changeover.agent.roster import Seat
from changeover.engines.deadlines import delegated
from changeover.engines.local.conversation import Live

if TYPE_CHECKING:
    from changeover.engines.local.engine import LocalEngine


def capacity(engine: LocalEngine, agent: str) -> int | None:
    """How much it can do at once; None if that is nobody's concern."""
    seat = engine.world.roster.seats.get(agent)
    return seat.agent.max_concurrency if isinstance(seat, Seat) else None


async def room(engine: LocalEngine, agent: str, here: str = "") -> float:
    """How many more tasks an agent can take now, if what it does `here` does not count."""
    most = capacity(engine, agent)
    if most is None:
        return inf
    return max(0, most - len(await at_work(engine, agent) - {here}))


async def at_work(engine: LocalEngine, agent: str) -> set[str]:
    """Where an agent works now, or is about to."""
    claimed = {place for place in await engine.log.at_work(agent) if await _is_claimed(engine, place)}
    return {*claimed, *_promised(engine, agent)}


async def _is_claimed(engine: LocalEngine, place: str) -> bool:
    """Whether somebody works there: where an agent is served by claims, whoever had it may be gone."""
    run = (await engine.lives.get(place)).state.run
    if run is None or not run.ticket:
        return True
    return any(queued.owner for queued in await engine.log.queue.tickets(run.ticket))


def _promised(engine: LocalEngine, receiver: str) -> set[str]:
    """Where the receiver works or is about to, as far as this process knows: the log may not have it yet."""
    places = {place for live in engine.lives for place in _working(engine, live, receiver)}
    for live in engine.lives:
        places.update(place for who, place in live.promised.values() if who == receiver)
    return places


def _working(engine: LocalEngine, live: Live, receiver: str) -> Iterator[str]:
    """The conversations in which the receiver works, of this one and those that it has just delegated to."""
    run = live.state.run
    if run is None or live.asleep:
        return
    if live.state.agent == receiver and (not run.ticket or engine.holdings.claim_for(live.state)):
        yield live.state.id
    for offer in delegated(run):
        child = engine.lives.here(f"{live.state.id}/{offer.call}")
        if offer.receiver == receiver and not offer.queued and (child is None or not child.state.position):
            yield f"{live.state.id}/{offer.call}"
