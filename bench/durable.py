"""The log on disk compared with the floor's journal; PostgreSQL compared with SQLite."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import floor
from bench.core import growth, run
from bench.measure import Figure, alternated, ratio
from bench.script import LEFT, ring
from changeover.relay.state import State
from tests.postgres import server

AT_ONCE, LATENCY = 1_000, 0.05
MEMORY = Path("/dev/shm")
"""Where files are kept in memory, if the system has such a place: a sync costs nothing there."""


@contextmanager
def folder(memory: bool = False) -> Iterator[Path]:
    """A temporary folder; in `memory`, so that no disk is measured."""
    within = MEMORY if memory and MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="changeover-bench-", dir=within) as name:
        yield Path(name)


def crowd(play: Callable[[], Awaitable[object]], count: int) -> Callable[[], Awaitable[object]]:
    """The same work many times at once."""

    async def all_of_them() -> None:
        await asyncio.gather(*(asyncio.ensure_future(play()) for _ in range(count)))

    return all_of_them


async def journalled(journal: floor.Journal, latency: float = 0.0) -> None:
    LEFT.set([1])
    await journal.relay(latency)


async def one_after_the_other() -> list[Figure]:
    """Runs of one handoff, sequential and a hundred at once: their CPU time where a sync costs nothing, and the rate
    on disk."""
    with folder(memory=True) as here:
        journal, team = floor.Journal(here / "floor.db"), ring(store=f"sqlite:///{here}/ours.db")
        found = await alternated({"floor": (lambda: journalled(journal), 60), "ours": (lambda: run(team, 1), 60)}, 11)
        await team.close()
        journal.close()
    with folder() as here:
        team = ring(store=f"sqlite:///{here}/ours.db")
        works = {"ours": (lambda: run(team, 1), 60), "hundred": (crowd(lambda: run(team, 1), 100), 2)}
        wall = await alternated(works, 7, time.perf_counter)
        await team.close()
    each = wall["hundred"].least / 100
    return [
        ratio("durable run / floor", found["ours"], found["floor"], 4.5, f"{found['ours'].least * 1e6:.0f} µs a run"),
        Figure("rate of 100 at once / one by one", wall["ours"].least / each, 6, f"{1 / each:,.0f} runs/s", least=True),
    ]


async def many_at_once() -> list[Figure]:
    """A thousand concurrent durable conversations with a slow model, on the wall."""
    with folder(memory=True) as here:
        journal, team = floor.Journal(here / "floor.db"), ring(LATENCY, store=f"sqlite:///{here}/ours.db")
        works = {
            "floor": (crowd(lambda: journalled(journal, LATENCY), AT_ONCE), 1),
            "ours": (crowd(lambda: run(team, 1), AT_ONCE), 1),
        }
        found = await alternated(works, 7, time.perf_counter)
        await team.close()
        journal.close()
    note = f"{found['ours'].least:.3f} s, the floor {found['floor'].least:.3f} s"
    return [ratio(f"{AT_ONCE:,} durable at once / floor, wall", found["ours"], found["floor"], 4, note)]


async def bytes_written() -> list[Figure]:
    """The bytes that a run of one handoff writes to the log and the read models, checkpoints included."""
    figures = []
    for name, count, times, bound in (("one by one", 1, 1_000, 80), (f"{AT_ONCE:,} at once", AT_ONCE, 3, 9)):
        with folder(memory=True) as here:
            team = ring(store=f"sqlite:///{here}/ours.db")
            work = crowd(lambda team=team: run(team, 1), count)  # type: ignore[misc]
            await work()
            before = _written()
            for _ in range(times):
                await work()
            each = (_written() - before) / count / times / 1024
            await team.close()
        figures.append(Figure(f"bytes written a run, {name}", each, bound, unit=" KB"))
    return figures


def _written() -> int:
    """The bytes that this process has written to files so far."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["wchar"])


async def long_conversation() -> list[Figure]:
    """The cost of a durable turn as the conversation grows, and of loading it cold."""
    with folder(memory=True) as here:
        store = f"sqlite:///{here}/ours.db"
        team = ring(store=store)
        grown = await growth(team, 0)
        await team.close()
        load, events = await _cold_load(store)
        halves = _halves(here / "ours.db")
    team = ring(store=server())
    grown_there = await growth(team, 0)
    await team.close()
    return [
        Figure("log, turns 2,501 to 5,000 / 1 to 2,500", halves, 1.05),
        Figure("turn 5,000 / turn 10 on SQLite", grown, 1.1),
        Figure("turn 5,000 / turn 10 on PostgreSQL", grown_there, 1.1),
        Figure("cold load, an event", load / events * 1e6, 5, f"{events:,} events", unit=" µs"),
    ]


LENGTHS = """SELECT length(body) FROM entries
 WHERE conversation = (SELECT number FROM conversations WHERE id = 'long') ORDER BY position LIMIT 10000"""


def _halves(path: Path) -> float:
    """The size of the second half of a conversation's log relative to the first, with equally many entries."""
    with sqlite3.connect(path) as db:
        lengths = [length for (length,) in db.execute(LENGTHS)]
    half = len(lengths) // 2
    return float(sum(lengths[half:]) / sum(lengths[:half]))


async def _cold_load(store: str) -> tuple[float, int]:
    found = []
    events = 0
    for _ in range(3):
        team = ring(store=store)
        await run(team, 1)  # opens the store
        begun = time.process_time()
        log = team.log
        events = State("long").fold(await log.read("long")).position
        found.append(time.process_time() - begun)
        await team.close()
    return min(found), events


async def bytes_on_disk() -> list[Figure]:
    """The bytes that each further run of one handoff adds: to the log, and with the tables of the read models."""
    few, many = 500, 1_500
    with folder() as here:
        path = here / "ours.db"
        sizes = []
        for runs in (few, many - few):
            team = ring(store=f"sqlite:///{path}")
            for _ in range(runs // 100):
                await crowd(lambda team=team: run(team, 1), 100)()  # type: ignore[misc]
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
        found = await alternated(
            {
                "sqlite": (lambda: run(lite, 1), 40),
                "postgresql": (lambda: run(big, 1), 40),
                "100 sqlite": (crowd(lambda: run(lite, 1), 100), 2),
                "100 postgresql": (crowd(lambda: run(big, 1), 100), 2),
            },
            7,
            time.perf_counter,
        )
        await lite.close()
        await big.close()
    row, many = found["postgresql"], found["100 postgresql"]
    return [
        ratio("PostgreSQL / SQLite, one by one", row, found["sqlite"], note=f"{1 / row.least:,.0f} runs/s"),
        ratio("PostgreSQL / SQLite, 100 at once", many, found["100 sqlite"], note=f"{100 / many.least:,.0f} runs/s"),
    ]


def _size(path: Path) -> int:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("VACUUM")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return path.stat().st_size
