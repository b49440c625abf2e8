"""Tickets compared with a plain table of jobs, both served by several processes; latency; growth."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from statistics import median, quantiles

import psycopg

from bench import jobs
from bench.durable import folder
from bench.measure import Figure
from changeover import Agent, Team, Worker
from changeover.protocol import HandoffPackage, Metadata, Mode, Task
from changeover.relay.inputs.claims import GiveBack
from changeover.relay.ports.engine import Engine
from changeover.testing import Reply, ScriptedModel, says
from changeover.worker import News
from tests.postgres import server

PROCESSES, TICKETS, AT_ONCE = 8, 5_000, 8
LATENCIES = 200
FEW, MANY = 1_000, 100_000
AGENT = "clerk"


def desk(store: str | None) -> Team:
    return Team([Agent("front"), Agent(AGENT, pull=True)], model=ScriptedModel(_reply), store=store)


async def _reply(*asked: object) -> Reply:
    return says("done")


def package(number: int) -> HandoffPackage:
    return HandoffPackage(Task(f"job {number}"), metadata=Metadata(receiver=AGENT, mode=Mode.TRANSFER))


async def submit(team: Team, count: int) -> None:
    for at in range(0, count, 500):
        await asyncio.gather(*(team.submit(package(number)) for number in range(at, min(at + 500, count))))


async def _serve(url: str, ready: Callable[[], object]) -> None:
    """Claim and complete until nothing is left, by Team.claim."""
    team = desk(url)
    await team.claim("front")  # connects, and imports everything
    ready()
    while claimed := await team.claim(AGENT, limit=AT_ONCE):
        await asyncio.gather(*(claim.complete("done") for claim in claimed))
    await team.close()


def _tickets(url: str, gate: jobs.Gate) -> None:
    asyncio.run(_serve(url, gate.wait))


async def beside_a_bare_table() -> list[Figure]:
    """Eight processes drain a queue; a job does nothing, but all its events are recorded."""
    figures = []
    for name, stored in (("SQLite", in_a_file), ("PostgreSQL", on_a_server)):
        ours, bare = [], []
        for _ in range(3):
            with stored() as url:
                jobs.fill(url, TICKETS)
                bare.append(await _emptied(jobs.serve, url))
                await _filled(url)
                ours.append(await _emptied(_tickets, url))
        rate, beside = TICKETS / median(ours), median(bare) / median(ours)
        note = f"{rate:,.0f} tickets/s, a bare table {TICKETS / median(bare):,.0f}"
        figures.append(Figure(f"tickets on {name} / bare table", beside, 0.3, note, least=True))
    return figures


async def _filled(url: str) -> None:
    team = desk(url)
    await submit(team, TICKETS)
    await team.close()


async def _emptied(serve: Callable[[str, jobs.Gate], None], url: str) -> float:
    """The seconds that the processes take, after all of them are ready."""
    context = multiprocessing.get_context("spawn")
    gate = jobs.Gate(context, PROCESSES)
    processes = [context.Process(target=serve, args=(url, gate), daemon=True) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    await asyncio.to_thread(gate.wait)
    begun = time.perf_counter()
    for process in processes:
        await asyncio.to_thread(process.join)
    return time.perf_counter() - begun


@contextmanager
def in_a_file() -> Iterator[str]:
    with folder() as here:
        yield f"sqlite:///{here}/store.db"


@contextmanager
def on_a_server() -> Iterator[str]:
    """A new database on a server that syncs to disk, as the file does."""
    url, name = server(synced=True), f"bench_{os.urandom(4).hex()}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
        yield f"{url}&options=-csearch_path%3D{name}"
        connection.execute(f"DROP SCHEMA {name} CASCADE")


async def latency() -> list[Figure]:
    """The latency from submit to the start of work in a second team on the same file."""
    figures = []
    for name, stored in (("SQLite", in_a_file), ("PostgreSQL", on_a_server)):
        with stored() as url:
            taken = sorted(await _latencies(url))
        p50, p95 = median(taken), quantiles(taken, n=20)[-1]
        figures.append(Figure(f"submit to start on {name}, p50", p50 * 1e3, None, f"p95 {p95 * 1e3:.1f} ms", " ms"))
    return figures


async def _latencies(url: str) -> list[float]:
    begun: dict[str, float] = {}
    front, back = desk(url), desk(url)

    def noted(news: News) -> None:
        begun.setdefault(news.ticket.id, time.perf_counter())

    worker = Worker(back, [AGENT], news=noted)
    working = asyncio.ensure_future(worker.run())
    taken = []
    for number in range(LATENCIES):
        await asyncio.sleep(0.01)
        at = time.perf_counter()
        ticket = await front.submit(package(number))
        await front.result(ticket, timeout=10)
        taken.append(begun[ticket.id] - at)
    worker.stop()
    await working
    await back.close()
    await front.close()
    return taken


async def flat() -> list[Figure]:
    """The cost of a claim as the queue grows."""
    figures = []
    for name, stored in (("memory", None), ("SQLite", in_a_file), ("PostgreSQL", on_a_server)):
        if stored is None:
            few, many = await _claims("")
        else:
            with stored() as url:
                few, many = await _claims(url)
        note = f"{many * 1e6:.0f} µs a claim of {MANY:,}"
        figures.append(Figure(f"claim of {MANY:,} / of {FEW:,}, {name}", many / few, 1.5, note))
    return figures


async def _claims(url: str) -> tuple[float, float]:
    team = desk(url or None)
    await submit(team, FEW)
    few = await _one_claim(team.engine)
    if url:
        await asyncio.to_thread(_pile_up, url, MANY - FEW)
    else:
        await submit(team, MANY - FEW)
    many = await _one_claim(team.engine)
    await team.close()
    return few, many


def _pile_up(url: str, count: int) -> None:
    """Insert more tickets behind the existing ones with SQL: submitting them would take minutes."""
    numbers = f"WITH RECURSIVE more(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM more WHERE n < {count})"
    where = "agent, conversation, place, root, priority, deadline, at"
    like = f"id || '-' || n, {where}, turn + n, owner, until, attempts, rests"
    insert = f"{numbers} INSERT INTO tickets SELECT {like} FROM more, (SELECT * FROM tickets LIMIT 1) AS one"
    if url.startswith("sqlite:"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30)
        connection.execute(insert)
        connection.commit()
        connection.close()
    else:
        with psycopg.connect(url) as server:
            server.execute(insert.encode())


async def _one_claim(engine: Engine) -> float:
    """The median seconds of a claim and its release, which leaves the queue unchanged."""
    taken = []
    for _ in range(100):
        begun = time.perf_counter()
        [mine] = await engine.claim([AGENT], "bench", 60, 1)
        await engine.put(GiveBack(mine, "bench"))
        taken.append(time.perf_counter() - begun)
    return median(taken)


BENCHES: dict[str, Callable[[], Awaitable[list[Figure]]]] = {
    "queue": beside_a_bare_table,
    "queue-latency": latency,
    "queue-flat": flat,
}
