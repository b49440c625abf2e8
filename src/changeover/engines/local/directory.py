"""Who can be found, how much each has to do, and how well it did, as this process knows it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from changeover.engines.capacity import at_work, capacity
from changeover.engines.lessons import Recollection
from changeover.relay.agents import KeptAgent
from changeover.relay.world import World
from changeover.routing.learning import Learned
from changeover.routing.load import Load
from changeover.routing.overlay import overruled, registry_over, roster_over

if TYPE_CHECKING:
    from changeover.engines.local.engine import LocalEngine

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
