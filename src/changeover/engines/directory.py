"""Who can be found, how much each has to do, and how well it did, as this process knows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from changeover.engines.capacity import at_work, capacity
from changeover.routing.learned import Learned
from changeover.routing.load import Load
from changeover.routing.registry import Registry

if TYPE_CHECKING:
    from changeover.engines.local import LocalEngine


class LiveDirectory:
    """What effects ask of an engine's store."""

    def __init__(self, engine: LocalEngine, registry: Registry) -> None:
        self._engine = engine
        self.registry = registry

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
        return Learned()
