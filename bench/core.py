"""The core in memory, compared with the floor."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from statistics import median

from bench import floor
from bench.measure import Figure, alternated, ratio, spread
from bench.ring import ASKED, LINE
from bench.script import LEFT, line, ring
from changeover import Agent, Team, tool
from changeover.models.offline.model import OfflineModel
from changeover.tools.tool import Tool

AT_ONCE, LATENCY = 1_000, 0.05
HELP = "from changeover.cli.commands import app; app(['--help'], standalone_mode=False)"


async def run(team: Team, hops: int, conversation: str | None = None) -> None:
    LEFT.set([hops])
    await team.run(ASKED, conversation=conversation)


async def bare(hops: int, latency: float = 0.0) -> None:
    LEFT.set([hops])
    await floor.relay(latency, LINE[0])


async def handoffs() -> list[Figure]:
    """The cost of one handoff, of each further one, and of the default guards."""
    team, unguarded = line(), line(guards=())
    found = await alternated(
        {
            "floor 1": (lambda: bare(1), 1_000),
            "ours 1": (lambda: run(team, 1), 100),
            "floor 20": (lambda: bare(20), 100),
            "ours 20": (lambda: run(team, 20), 20),
            "unguarded 20": (lambda: run(unguarded, 20), 20),
        },
        repetitions=25,
    )
    one = found["ours 1"]
    each, bare_each = (found[f"{who} 20"].each(found[f"{who} 1"], 19) for who in ("ours", "floor"))
    more = found["ours 20"].each(found["unguarded 20"], 20)
    around = spread([seconds * 1e6 for seconds in more.rounds])
    return [
        ratio("one handoff / floor", one, found["floor 1"], 12, f"{one.least * 1e6:.0f} µs a run"),
        ratio("each further handoff / floor", each, bare_each, 5, f"{each.least * 1e6:.0f} µs a handoff"),
        Figure("default guards, a handoff", more.least * 1e6, 8, unit=" µs", spread=around),
    ]


async def long_conversation() -> list[Figure]:
    """The cost of a turn as the conversation grows: plain turns, and turns with a handoff each."""
    figures = []
    for name, hops in (("plain turn", 0), ("turn with a handoff", 1)):
        ratios = []
        for _ in range(3):
            team = ring()
            ratios.append(await growth(team, hops))
        figures.append(Figure(f"{name} 5,000 / turn 10", median(ratios), 1.1, spread=(min(ratios), max(ratios))))
    return figures


async def growth(team: Team, hops: int, turns: int = 5_000) -> float:
    """CPU time of a turn in a conversation of so many turns, relative to one in a conversation of ten. Both take turns
    with each other: the speed of a machine changes while a conversation grows."""
    for conversation, count in (("long", turns), ("short", 10)):
        for _ in range(count):
            await run(team, hops, conversation)
    took: dict[str, list[float]] = {"long": [], "short": []}
    for _ in range(200):
        for conversation, times in took.items():
            begun = time.process_time()
            await run(team, hops, conversation)
            times.append(time.process_time() - begun)
    return median(took["long"]) / median(took["short"])


async def many_at_once() -> list[Figure]:
    """A thousand concurrent conversations with a slow model."""
    team = ring(LATENCY)

    async def ours() -> None:
        await asyncio.gather(*(run(team, 1) for _ in range(AT_ONCE)))

    async def floors() -> None:
        await asyncio.gather(*(bare(1, LATENCY) for _ in range(AT_ONCE)))

    found = await alternated({"floor": (floors, 1), "ours": (ours, 1)}, repetitions=7)
    note = f"{found['ours'].least:.3f} s of CPU"
    return [ratio(f"{AT_ONCE:,} at once / floor", found["ours"], found["floor"], 4, note)]


def _tools(count: int) -> list[Tool]:
    """Functions with two arguments each, as tools."""

    def made(number: int) -> Tool:
        def look(order: str, days: int = 3) -> str:
            """Look up an order."""
            return f"{number}: {order}, {days}"

        return tool(name=f"look_{number}")(look)

    return [made(number) for number in range(count)]


async def teams() -> list[Figure]:
    """A second team with the same hundred tools."""
    tools, model = _tools(100), OfflineModel()

    async def build() -> None:
        Team([Agent("clerk", tools=tools)], model=model)

    found = await alternated({"again": (build, 1)}, repetitions=9)
    return [Figure("a second Team with the same 100 tools", found["again"].least * 1e3, 2, unit=" ms")]


def imports() -> list[Figure]:
    """The CPU time of imports, in fresh processes."""
    statements = ("import changeover", "from changeover import Agent, Team", HELP, "import pydantic_ai")
    rounds = [[_import_seconds(statement) for statement in statements] for _ in range(7)]
    ours, names, help, peer = (min(times) for times in zip(*rounds, strict=True))
    around = spread([each[1] * 1e3 for each in rounds])
    return [
        Figure("changeover --help / import pydantic_ai", help / peer, 1 / 2, f"{help * 1e3:.0f} ms"),
        Figure("import changeover / import pydantic_ai", ours / peer, 1 / 3, f"{ours * 1e3:.0f} ms"),
        Figure("from changeover import Agent, Team", names * 1e3, 90, unit=" ms", spread=around),
    ]


def _import_seconds(statement: str) -> float:
    code = f"import time; t = time.process_time(); {statement}; print(time.process_time() - t)"
    # With the bytecode that an installer leaves behind: else each process would compile all modules again.
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return float(subprocess.check_output([sys.executable, "-c", code], env=environ).split()[-1])
