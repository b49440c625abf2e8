"""The core in memory, compared with the floor."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from statistics import median

from bench import floor
from bench.measure import Figure, interleaved
from bench.ring import ASKED
from bench.script import LEFT, Lenient, ring
from changeover import Team
from changeover.assembly import DEFAULT
from changeover.guards.breaker import CircuitBreaker

AT_ONCE, LATENCY = 1_000, 0.05
HELP = "from changeover.cli import app; app(['--help'], standalone_mode=False)"


async def handoffs() -> list[Figure]:
    """The cost of one handoff, and of each further one."""

    async def ours(count: int) -> None:
        LEFT.set([count])
        await team.run(ASKED)

    async def bare(count: int) -> None:
        LEFT.set([count])
        await floor.relay()

    team = ring()
    taken = await interleaved(
        {
            "floor 1": (lambda: bare(1), 500),
            "ours 1": (lambda: ours(1), 200),
            "floor 20": (lambda: bare(20), 60),
            "ours 20": (lambda: ours(20), 30),
        }
    )
    one, each = taken["ours 1"], (taken["ours 20"] - taken["ours 1"]) / 19
    bare_each = (taken["floor 20"] - taken["floor 1"]) / 19
    return [
        Figure("one handoff / floor", one / taken["floor 1"], 7, f"{one * 1e6:.0f} µs a run"),
        Figure("each further handoff / floor", each / bare_each, 4, f"{each * 1e6:.0f} µs a handoff"),
    ]


async def guards() -> list[Figure]:
    """The cost that the default guards add to a handoff."""

    def plays(team: Team) -> Callable[[], Awaitable[object]]:
        async def play() -> None:
            LEFT.set([10])
            await team.run(ASKED)

        return play

    # A breaker is recognised by its class, so it cannot be wrapped; no receiver fails here.
    asked = [guard if isinstance(guard, CircuitBreaker) else Lenient(guard) for guard in DEFAULT]
    teams = {"without": ring(), "with": ring(guards=asked)}
    taken = await interleaved({name: (plays(team), 60) for name, team in teams.items()})
    more = (taken["with"] - taken["without"]) / 10
    return [Figure("a handoff with guards / without", taken["with"] / taken["without"], 1.15, f"{more * 1e6:.1f} µs")]


async def long_conversation() -> list[Figure]:
    """The cost of a turn as the conversation grows: plain turns, and turns with a handoff each."""
    figures = []
    for name, hops in (("plain turn", 0), ("turn with a handoff", 1)):
        ratios = []
        for _ in range(3):
            team, took = ring(), []
            for _ in range(5_010):
                LEFT.set([hops])
                begun = time.perf_counter()
                await team.run(ASKED, conversation="long")
                took.append(time.perf_counter() - begun)
            ratios.append(median(took[-100:]) / median(took[10:110]))
        figures.append(Figure(f"{name} 5,000 / turn 10", median(ratios), 1.2))
    return figures


async def many_at_once() -> list[Figure]:
    """A thousand concurrent conversations with a slow model."""

    async def one() -> None:
        LEFT.set([1])
        await team.run(ASKED)

    walls = []
    for _ in range(5):
        team = ring(LATENCY)
        begun = time.perf_counter()
        await asyncio.gather(*(one() for _ in range(AT_ONCE)))
        walls.append(time.perf_counter() - begun)
    wall, least = median(walls), 2 * LATENCY
    return [Figure(f"{AT_ONCE:,} at once / {least:g} s", wall / least, 2, f"{wall:.3f} s")]


def imports() -> list[Figure]:
    """The time of imports, in fresh processes."""
    ours, names, help, peer = (
        _import_seconds(statement)
        for statement in (
            "import changeover",
            "from changeover import Agent, Team",
            HELP,
            "import pydantic_ai",
        )
    )
    return [
        Figure("changeover --help / import pydantic_ai", help / peer, 1 / 2, f"{help * 1e3:.0f} ms"),
        Figure("import changeover / import pydantic_ai", ours / peer, 1 / 3, f"{ours * 1e3:.0f} ms"),
        Figure("… import Agent, Team / import pydantic_ai", names / peer, 1 / 3, f"{names * 1e3:.0f} ms"),
    ]


def _import_seconds(statement: str) -> float:
    code = f"import time; t = time.process_time(); {statement}; print(time.process_time() - t)"
    taken = [float(subprocess.check_output([sys.executable, "-c", code]).split()[-1]) for _ in range(5)]
    return median(taken)
