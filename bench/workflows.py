"""The steps of workflows: what one costs beside a bare run of its agent, whatever their number."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from bench.durable import folder
from bench.measure import Figure, Taken, alternated, ratio
from bench.ring import ANSWER, ASKED, INSTRUCTIONS
from changeover import Agent, Limits, Team
from changeover.messages import Reply
from changeover.relay.ports.world import Request
from changeover.workflows import Workflow, WorkflowStep

ONE, SOME, MANY = 1, 21, 201
BOUND = 1.3
"""What a step may take, in times of a bare run whose model takes QUICK seconds: real ones take 30 times as long."""
QUICK = 0.01
CPU = {"step": (4.5, 3.5), "durable step": (3.0, BOUND)}
"""What a step in a row and one at once may take of the processor, beside a bare run whose model takes no time at all:
its delegate is such a run, and the workflow records when it begins and what it gave."""


class Answering:
    """A model that answers at once, or after some seconds."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds

    async def reply(self, request: Request) -> Reply:
        if self._seconds:
            await asyncio.sleep(self._seconds)
        return Reply(text=ANSWER)

    async def stream(self, request: Request) -> AsyncIterator[Reply]:
        yield await self.reply(request)


def _chain(length: int) -> Workflow:
    """Steps one after the other, each of which reads the output of the one before."""
    first = WorkflowStep("s0", agent="aide", input=ASKED)
    steps = (
        WorkflowStep(f"s{n}", agent="aide", after=[f"s{n - 1}"], input=f"{{steps.s{n - 1}.output}}")
        for n in range(1, length)
    )
    return Workflow(f"chain{length}", steps=[first, *steps])


def _spread(width: int) -> Workflow:
    """One step that runs for each item at once."""
    return Workflow(f"spread{width}", steps=[WorkflowStep("each", agent="aide", for_each="inputs.items")])


def _team(store: str | None = None, seconds: float = 0.0) -> Team:
    flows = [*(_chain(length) for length in (ONE, SOME)), *(_spread(width) for width in (ONE, SOME, MANY))]
    limits = Limits(max_turns=10_000)
    aide = Agent("aide", instructions=INSTRUCTIONS)
    return Team([aide], model=Answering(seconds), limits=limits, store=store, workflows=flows)


async def steps() -> list[Figure]:
    """Steps in a row and steps at once, in memory and on disk."""
    with folder() as here:
        return [
            await _waited("step", None),
            await _waited("durable step", f"sqlite:///{here}/waited.db"),
            *await _figures("step", None, 30),
            *await _figures("durable step", f"sqlite:///{here}/steps.db", 5),
        ]


async def _waited(name: str, store: str | None) -> Figure:
    """A step in a row beside a bare run, by the clock, with a model that takes a moment."""
    team = _team(store, QUICK)
    found = await alternated(
        {
            "bare": (lambda: _runs(team, SOME - ONE), 1),
            "short": (lambda: team.run_workflow("chain1"), 2),
            "chain": (lambda: team.run_workflow(f"chain{SOME}"), 1),
        },
        repetitions=5,
        clock=time.perf_counter,
    )
    await team.close()
    bare, step = _each(found["bare"], SOME - ONE), found["chain"].each(found["short"], SOME - ONE)
    note = f"{step.least * 1e3:.1f} ms each, a bare run {bare.least * 1e3:.1f} ms"
    return ratio(f"{name} / bare run with a model of {QUICK * 1e3:.0f} ms", step, bare, BOUND, note)


async def _figures(name: str, store: str | None, times: int) -> list[Figure]:
    team = _team(store)
    items = {width: {"items": [ASKED] * width} for width in (ONE, SOME, MANY)}
    found = await alternated(
        {
            "bare": (lambda: _runs(team, SOME), max(1, times // 5)),
            "short": (lambda: team.run_workflow("chain1"), times),
            "chain": (lambda: team.run_workflow(f"chain{SOME}"), max(1, times // 5)),
            "narrow": (lambda: team.run_workflow("spread1", items[ONE]), times),
            "wide": (lambda: team.run_workflow(f"spread{SOME}", items[SOME]), max(1, times // 5)),
            "wider": (lambda: team.run_workflow(f"spread{MANY}", items[MANY]), 1),
        },
        repetitions=9,
    )
    await team.close()
    bare, (in_a_row, at_once) = _each(found["bare"], SOME), CPU[name]
    chain, wide = found["chain"].each(found["short"], SOME - ONE), found["wide"].each(found["narrow"], SOME - ONE)
    wider = found["wider"].each(found["wide"], MANY - SOME)
    note = f"{chain.least * 1e6:.0f} µs each, a bare run {bare.least * 1e6:.0f} µs"
    return [
        ratio(f"CPU of a {name} in a row / bare run", chain, bare, in_a_row, note),
        ratio(f"CPU of a {name} at once / bare run", wide, bare, at_once, f"{wide.least * 1e6:.0f} µs each"),
        ratio(f"CPU of a {name}, {MANY} at once / {SOME}", wider, wide, 1.5, f"{wider.least * 1e6:.0f} µs each"),
    ]


def _each(found: Taken, count: int) -> Taken:
    return Taken(found.least / count, [each / count for each in found.rounds])


async def _runs(team: Team, count: int) -> None:
    for _ in range(count):
        await team.run(ASKED, agent="aide")
