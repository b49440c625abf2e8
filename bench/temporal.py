"""The Temporal engine beside the local one, on PostgreSQL: the time of a step, and conversations a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from statistics import median, quantiles
from typing import Any
from uuid import uuid4

import psycopg

from bench.measure import Figure
from bench.ring import ANSWER, ASKED, INSTRUCTIONS, NEXT, REASON, RING
from changeover import Agent, Limits, Store, Team, Temporal
from changeover.messages import Call, Reply
from changeover.relay.ports.world import Request
from changeover.stores.store import upgrade_store
from tests import postgres
from tests.temporal.server import server

AT_ONCE = (1, 50, 200)
FEW, MANY = 1, 11
"""Handoffs of the two kinds of runs whose difference is the time of a step."""
ROUNDS, SECONDS = 15, 5.0


class RingModel:
    """Hands over as often as was said for the conversation, then answers."""

    def __init__(self) -> None:
        self.left: dict[str, int] = {}

    async def reply(self, request: Request) -> Reply:
        if self.left[request.conversation] <= 0:
            return Reply(text=ANSWER)
        self.left[request.conversation] -= 1
        call = Call(f"call_{request.command}", "handoff", {"to": NEXT[request.agent], "message": REASON})
        return Reply(calls=(call,))

    async def stream(self, request: Request) -> AsyncIterator[Reply]:
        yield await self.reply(request)


class Ring:
    """A ring of agents on one engine."""

    def __init__(self, url: str, engine: Temporal | None) -> None:
        self._model = RingModel()
        members = [Agent(name, instructions=INSTRUCTIONS) for name in RING]
        limits = Limits(max_handoffs=1_000, max_turns=1_000)
        self.engine, store = engine, Store(url)
        self.team = Team(members, model=self._model, limits=limits, store=store, guards=(), engine=engine)

    async def run(self, hops: int) -> float:
        """The seconds of a new conversation with so many handoffs."""
        id = uuid4().hex
        self._model.left[id], begun = hops, time.perf_counter()
        await self.team.run(ASKED, conversation=id)
        return time.perf_counter() - begun

    async def rate(self, at_once: int, seconds: float = SECONDS) -> float:
        """Conversations of one handoff a second, if so many are always under way."""
        until, done = time.perf_counter() + seconds, 0

        async def one_after_the_other() -> None:
            nonlocal done
            while time.perf_counter() < until:
                await self.run(1)
                done += 1

        begun = time.perf_counter()
        await asyncio.gather(*(one_after_the_other() for _ in range(at_once)))
        return done / (time.perf_counter() - begun)


@asynccontextmanager
async def rings() -> AsyncIterator[tuple[str, Mapping[str, Ring]]]:
    """A ring on each engine, on a database that waits for the disk; with the address of the database."""
    database = postgres.Server(synced=True)
    url = await asyncio.to_thread(database.start)
    try:
        upgrade_store(Store(url))
        both = {"local": Ring(url, None), "Temporal": Ring(url, Temporal(server(), queue=uuid4().hex))}
        for ring in both.values():
            await ring.run(1)  # the first run imports, connects and fills caches
        yield url, both
        for ring in both.values():
            await ring.team.close()
    finally:
        await asyncio.to_thread(database.stop, keep=False)


async def figures() -> list[Figure]:
    """The time of a run and of a further handoff, one by one, and the rate of many at once."""
    found = []
    async with rings() as (_, both):
        for name, ring in both.items():
            few = [await ring.run(FEW) for _ in range(ROUNDS)]
            many = [await ring.run(MANY) for _ in range(ROUNDS)]
            step = [(more - less) / (MANY - FEW) for less, more in zip(few, many, strict=True)]
            found += [
                _milliseconds(f"{name}: a run of one handoff", few),
                _milliseconds(f"{name}: each further handoff", step),
            ]
        for at_once in AT_ONCE:
            for name, ring in both.items():
                rate = await ring.rate(at_once)
                found.append(Figure(f"{name}: {at_once} at once", rate, unit=" conversations/s"))
    return found


def _milliseconds(name: str, taken: list[float]) -> Figure:
    low, _, high = (each * 1_000 for each in quantiles(taken, n=4))
    return Figure(name, median(taken) * 1_000, unit=" ms", spread=(low, high))


def written(url: str) -> Callable[[], dict[str, float]]:
    """A function that says what was written to a database since this call: commits, rows and bytes of its journal."""
    query = (
        "SELECT xact_commit, tup_inserted + tup_updated + tup_deleted,"
        " pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0') FROM pg_stat_database WHERE datname = 'postgres'"
    )

    def look() -> list[float]:
        with psycopg.connect(url) as connection:
            row: Any = connection.execute(query).fetchone()
        return [float(each) for each in row]

    before = look()
    return lambda: dict(
        zip(("commits", "rows", "bytes"), (b - a for a, b in zip(before, look(), strict=True)), strict=True)
    )
