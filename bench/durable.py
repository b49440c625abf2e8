"""The log on disk compared with the floor's journal; PostgreSQL compared with SQLite."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from bench import floor
from bench.measure import Figure, interleaved
from bench.ring import ASKED
from bench.script import LEFT, ring
from changeover import Team
from changeover.relay.state import State
from tests.postgres import server

AT_ONCE, LATENCY = 1_000, 0.05


async def one(team: Team, hops: int = 1, conversation: str | None = None) -> None:
    LEFT.set([hops])
    await team.run(ASKED, conversation=conversation)


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="changeover-bench-") as name:
        yield Path(name)


async def one_after_the_other() -> list[Figure]:
    """Runs of one handoff, sequential and a hundred at once, with every step synced to disk."""
    with folder() as here:
        journal, team = floor.Journal(here / "floor.db"), ring(store=f"sqlite:///{here}/ours.db")

        async def bare() -> None:
            LEFT.set([1])
            await journal.relay()

        async def hundred() -> None:
            await asyncio.gather(*(one(team) for _ in range(100)))

        taken = await interleaved(
            {"floor": (bare, 60), "ours": (lambda: one(team), 60), "hundred": (hundred, 2)}, repetitions=9
        )
        await team.close()
        journal.close()
    each = taken["hundred"] / 100
    return [
        Figure("durable run / floor", taken["ours"] / taken["floor"], 1.5, f"{taken['ours'] * 1e6:.0f} µs a run"),
        Figure("rate of 100 at once / one by one", taken["ours"] / each, 6, f"{1 / each:,.0f} runs/s", least=True),
    ]


async def many_at_once() -> list[Figure]:
    """A thousand concurrent durable conversations with a slow model."""
    walls = []
    for _ in range(5):
        with folder() as here:
            team = ring(LATENCY, store=f"sqlite:///{here}/ours.db")
            await one(team)
            begun = time.perf_counter()
            await asyncio.gather(*(one(team) for _ in range(AT_ONCE)))
            walls.append(time.perf_counter() - begun)
            await team.close()
    wall, least = median(walls), 2 * LATENCY
    return [Figure(f"{AT_ONCE:,} durable at once / {least:g} s", wall / least, 3, f"{wall:.3f} s")]


async def long_conversation() -> list[Figure]:
    """The cost of a durable turn as the conversation grows, and of loading it cold."""
    with folder() as here:
        store, took = f"sqlite:///{here}/ours.db", []
        team = ring(store=store)
        for _ in range(5_010):
            begun = time.perf_counter()
            await one(team, 0, "long")
            took.append(time.perf_counter() - begun)
        await team.close()
        grown = median(took[-200:]) / median(took[10:210])
        load, events = await _cold_load(store)
        halves = _halves(here / "ours.db")
    return [
        Figure("log, turns 2,501 to 5,000 / 1 to 2,500", halves, 1.05),
        Figure("durable turn 5,000 / turn 10", grown, 1.2),
        Figure("cold load, an event", load / events * 1e6, 5, f"{events:,} events", unit=" µs"),
    ]


def _halves(path: Path) -> float:
    """The size of the second half of a conversation's log relative to the first, with equally many entries."""
    with sqlite3.connect(path) as db:
        lengths = [length for (length,) in db.execute("SELECT length(body) FROM entries ORDER BY seq LIMIT 10000")]
    half = len(lengths) // 2
    return float(sum(lengths[half:]) / sum(lengths[:half]))


async def _cold_load(store: str) -> tuple[float, int]:
    taken = []
    events = 0
    for _ in range(3):
        team = ring(store=store)
        await one(team)  # opens the store
        begun = time.perf_counter()
        log = team.log
        events = State("long").fold(await log.read("long")).position
        taken.append(time.perf_counter() - begun)
        await team.close()
    return min(taken), events


async def bytes_on_disk() -> list[Figure]:
    """The bytes that each further run of one handoff adds: to the log, and with the tables of the read models."""
    few, many = 500, 1_500
    with folder() as here:
        path = here / "ours.db"
        sizes = []
        for runs in (few, many - few):
            team = ring(store=f"sqlite:///{path}")
            for _ in range(runs // 100):
                await asyncio.gather(*(one(team) for _ in range(100)))
            await team.close()
            whole = _size(path)
            kept = here / f"{runs}.db"
            shutil.copy(path, kept)
            with sqlite3.connect(kept) as db:
                for table in ("tasks", "messages", "handoffs", "approvals", "ledgers"):
                    db.execute(f"DELETE FROM {table}")
            sizes.append((_size(kept), whole))
    # The difference: the size of an empty store is not a cost of a run.
    log, whole = ((later - first) / (many - few) / 1024 for first, later in zip(*sizes, strict=True))
    return [
        Figure("log, a run", log, 1.2, unit=" KB"),
        Figure("log and read models, a run", whole, 3.5, unit=" KB"),
    ]


async def postgresql_beside_sqlite() -> list[Figure]:
    """The same runs on both databases, synced to disk: sequential, and a hundred at once."""
    with folder() as here:
        lite = ring(store=f"sqlite:///{here}/ours.db")
        big = ring(store=server(synced=True))

        async def hundred(team: Team) -> None:
            await asyncio.gather(*(one(team) for _ in range(100)))

        await one(big)
        taken = await interleaved(
            {
                "sqlite": (lambda: one(lite), 40),
                "postgresql": (lambda: one(big), 40),
                "100 sqlite": (lambda: hundred(lite), 2),
                "100 postgresql": (lambda: hundred(big), 2),
            },
            repetitions=7,
        )
        await lite.close()
        await big.close()
    row, crowd = taken["postgresql"], taken["100 postgresql"]
    return [
        Figure("PostgreSQL / SQLite, one by one", row / taken["sqlite"], note=f"{1 / row:,.0f} runs/s"),
        Figure("PostgreSQL / SQLite, 100 at once", crowd / taken["100 sqlite"], note=f"{100 / crowd:,.0f} runs/s"),
    ]


def _size(path: Path) -> int:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("VACUUM")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return path.stat().st_size
