"""The directory of agents for routing: declared profiles, the store's changes to them, load and capacity."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING

from msgspec.structs import replace

from changeover.agent.roster import Seat
from changeover.engines.lessons import Recollection
from changeover.engines.local.conversation import Live
from changeover.engines.local.deadlines import delegated
from changeover.relay.ports import World
from changeover.relay.tables import KeptAgent
from changeover.routing.experience import Learned
from changeover.routing.load import Load
from changeover.routing.registry import overruled, registry_over, roster_over

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


logger = logging.getLogger("changeover.engine")


class LiveDirectory:
    """What effects ask of an engine's store. What it says is laid over what was declared."""

    def __init__(self, engine: LocalEngine, world: World) -> None:
        self._engine = engine
        self._recollection = Recollection(engine)
        self._kept: list[KeptAgent] = []
        self._version = -1
        self.declare(world)

    @property
    def known(self) -> bool:
        """Whether the store was ever asked what it says of agents."""
        return self._version >= 0

    def declare(self, world: World) -> None:
        """From now on this is the team as it was declared."""
        there = [each for each in self._kept if not each.absent]
        said = {each.id: each.profile for each in there if each.profile is not None}
        absent = frozenset(each.id for each in self._kept if each.absent)
        self._declared = world
        self.registry = registry_over(world.registry, said, absent)
        roster = roster_over(world.roster, said, absent)
        self._engine.world = replace(world, roster=roster, contexts=self._engine.log.contexts, directory=self)

    async def look(self) -> World:
        """Hear what was said of agents since; the world as it is by that."""
        agents = self._engine.log.agents
        # The version first: what is said meanwhile is heard now, and once more.
        version = await agents.version()
        if version != self._version:
            kept = await agents.all() if version else []
            self._kept, self._version = kept, version
            self.declare(self._declared)
            self._warn()
        return self._engine.world

    def _warn(self) -> None:
        said = {each.id: each.profile for each in self._kept if each.profile is not None}
        for id, names in overruled(self._declared.registry, said).items():
            logger.warning("the store says another %s of %r than the code, which holds", " and ".join(names), id)

    async def loads(self, agents: Sequence[str]) -> Mapping[str, Load]:
        """How much these have to do now."""
        tickets = await self._engine.log.queue.tickets()
        waiting = Counter(each.ticket.agent for each in tickets if not each.owner)
        return {
            agent: Load(len(await at_work(self._engine, agent)), waiting[agent], capacity(self._engine, agent))
            for agent in agents
        }

    async def learned(self, capability: str) -> Learned:
        """What is known of those who did tasks that needed this."""
        return await self._recollection.learned(capability)
