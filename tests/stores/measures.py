"""Metrics counted in a store, and in a log in memory with the same entries."""

from math import inf

from changeover.relay.ports.lists import ConversationRow
from changeover.relay.ports.log import Log
from changeover.relay.ports.tables import Course, Measures, Refused
from changeover.stores.memory.lists import MemoryLists, Snapshot


async def courses(measures: Measures, since: float = -inf, until: float = inf) -> list[Course]:
    return [course async for page in measures.courses(since, until) for course in page]


async def counted(measures: Measures) -> tuple[list[Course], list[Refused]]:
    """How handoffs went, and what was refused."""
    refused = await measures.refused(-inf, inf)
    return await courses(measures), sorted(refused, key=lambda each: (each.sender, each.receiver, each.deadlock))


async def in_memory(log: Log, *roots: str) -> MemoryLists:
    """The lists of a log in memory that holds these trees, and on which engines work as on this log."""
    trees = [await log.tree(root) for root in roots]
    statuses = {row.id: row.status for row in await log.lists.listed(ConversationRow, limit=10_000)}
    left = frozenset(id for id, status in statuses.items() if status == "interrupted")
    running = left.union(id for id, status in statuses.items() if status == "running")
    return MemoryLists(lambda: Snapshot(trees, running=running, left=left), log.tree, log.trials)
