"""Metrics counted in a store, and in a log in memory with the same entries."""

from math import inf

from changeover.relay.ports import Log
from changeover.relay.tables import Course, Measures, Refused
from changeover.stores.memory.measures import Kept, memory_measures


async def courses(measures: Measures, since: float = -inf, until: float = inf) -> list[Course]:
    return [course async for page in measures.courses(since, until) for course in page]


async def counted(measures: Measures) -> tuple[list[Course], list[Refused]]:
    """How handoffs went, and what was refused."""
    refused = await measures.refused(-inf, inf)
    return await courses(measures), sorted(refused, key=lambda each: (each.sender, each.receiver, each.deadlock))


async def in_memory(log: Log, *roots: str) -> Measures:
    """What a log in memory would count if it held these trees."""
    trees = [await log.tree(root) for root in roots]
    return memory_measures(lambda: Kept(trees, [], []))
