"""Names that are typed of agents: a store does not know what code declares, only who has worked in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from changeover.cli.exits import tell
from changeover.cli.handoffs import at_store

if TYPE_CHECKING:
    from changeover.relay.ports import Log
    from changeover.stores.views import Views


def at_agent(store: str | None, agent: str, work: Callable[[Log], Awaitable[object]]) -> None:
    """Do something about an agent; if the store has never heard of it, that is said too."""
    if not at_store(store, lambda log, views: _done(log, views, agent, work)):
        tell(f"nobody called {agent!r} has worked in this store yet; mind the spelling")


async def _done(log: Log, views: Views, agent: str, work: Callable[[Log], Awaitable[object]]) -> bool:
    from changeover.stores.records import TaskRow

    described = any(each.id == agent for each in await log.agents.all())
    known = described or bool(await views.listed(TaskRow, {"agent": agent}, limit=1))
    await work(log)
    return known
