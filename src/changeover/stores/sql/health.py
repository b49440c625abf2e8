"""Health of a database: what it holds, how large it is, and which processes work on it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import perf_counter

import sqlalchemy as sa

from changeover.relay.ports.health import LiveProcess, StoreHealth
from changeover.stores.sql.compiler import ZERO, Compiler, now
from changeover.stores.sql.database import Call, Row
from changeover.stores.sql.schema import VERSION, conversations, processes

SIZES = {
    "sqlite": "SELECT sqlite_version(), page_count * page_size FROM pragma_page_count(), pragma_page_size()",
    "postgresql": "SELECT current_setting('server_version'), pg_database_size(current_database())",
}
"""The version of the database and its size in bytes."""
NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}

Ask = Callable[[Call], Awaitable[list[Row]]]


async def health(dialect: str, ask: Ask, unfinished: int) -> StoreHealth:
    """The health of a store, which has so many conversations that no process works on."""
    say, c, p = Compiler(dialect), conversations.c, processes.c
    begun = perf_counter()
    alive = sa.select(p.host, p.pid, p.started_at).where(p.until > now()).order_by(p.started_at)
    found = await ask(say(alive)())
    took = perf_counter() - begun
    counted = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(c.position), ZERO)).select_from(conversations)
    [[rows, events]] = await ask(say(counted)())
    [[version, size]] = await ask((SIZES[dialect], ()))
    return StoreHealth(
        database=f"{NAMES[dialect]} {str(version).partition(' ')[0]}",
        schema=VERSION,
        conversations=rows,
        events=int(events),
        size=int(size),
        read_time=took,
        unfinished=unfinished,
        processes=tuple(LiveProcess(*row) for row in found),
    )
