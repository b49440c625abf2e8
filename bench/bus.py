"""From the publication of an event to the start of its subscriber, on both databases."""

from __future__ import annotations

import asyncio
import time
from statistics import quantiles

from bench.durable import folder
from bench.measure import Figure
from bench.queue import on_a_server
from changeover import Agent, Team
from changeover.bus import BusEvent, Subscription
from changeover.testing import ScriptedModel

ONE_BY_ONE = 300
AT_ONCE, CROWD = 20, 50


async def publish_to_start() -> list[Figure]:
    """One event at a time, and many at once, to three subscribers."""
    with folder() as here:
        figures = await _figures("SQLite", f"sqlite:///{here}/bus.db")
    with on_a_server() as url:
        return figures + await _figures("PostgreSQL", url)


async def _figures(name: str, store: str) -> list[Figure]:
    begun: dict[str, float] = {}
    waits: list[float] = []
    heard = asyncio.Event()

    async def first(event: BusEvent) -> None:
        waits.append(time.perf_counter() - begun[event.data["key"]])
        heard.set()

    async def other(event: BusEvent) -> None:
        pass

    to = [Subscription("tick", to=first, name="first"), *(Subscription("tick", to=other, name=n) for n in "ab")]
    async with Team([Agent("a")], model=ScriptedModel({}), store=store, subscriptions=to) as team:

        async def publish(key: str) -> None:
            begun[key] = time.perf_counter()
            await team.bus.publish("tick", {"key": key})

        for number in range(ONE_BY_ONE + 20):
            heard.clear()
            await publish(f"one-{number}")
            await heard.wait()
        alone = waits[20:]
        waits.clear()
        for round in range(CROWD):
            await asyncio.gather(*(publish(f"{round}-{number}") for number in range(AT_ONCE)))
            while len(waits) < AT_ONCE * (round + 1):
                heard.clear()
                await heard.wait()
        crowd = list(waits)
    return [*_spread(f"publish to start on {name}", alone), *_spread(f"the same, {AT_ONCE} at once", crowd)]


def _spread(name: str, waits: list[float]) -> list[Figure]:
    cuts = quantiles(waits, n=20)
    return [
        Figure(f"{name}, p50", cuts[9] * 1e3, unit=" ms"),
        Figure(f"{name}, p95", cuts[18] * 1e3, unit=" ms"),
    ]
