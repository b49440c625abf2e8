"""Random workflows with random failures: each step runs as often as it should, in order, and the same after a crash."""

import os
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from changeover import Agent, RunContext, Team
from changeover.errors import StepError
from changeover.relay.events import StepBegan, StepSkipped, StepSpread
from changeover.relay.state import State
from changeover.stores.memory.log import MemoryLog
from changeover.testing import ManualClock, ScriptedModel, says
from changeover.testing.crash import Death, MortalLog, _dies_and_resumes, _live
from changeover.testing.effects import Effects
from changeover.workflows import Workflow, WorkflowStep

STRESS = "CHANGEOVER_STRESS" in os.environ
EXAMPLES = 1_000 if STRESS else 40
INPUTS = {"items": [1, 2, 3]}


class Node(Struct, frozen=True):
    """What one step of a random workflow does."""

    after: tuple[int, ...]
    runs: bool = True
    """Whether its condition holds."""
    each: bool = False
    """Whether it runs once for each input."""
    retries: int = 0
    failures: int = 0
    """How many of its attempts fail, in each piece."""
    undone: bool = False
    """Whether it declares how it is undone."""
    thinks: bool = False
    """Whether an agent does it, which never fails."""

    @property
    def fails(self) -> bool:
        return not self.thinks and self.failures > self.retries


@st.composite
def graphs(draw: st.DrawFn) -> list[Node]:
    """Some steps, each after any of those before it; at most one fails for good, so that there is one end to expect."""
    nodes: list[Node] = []
    for index in range(draw(st.integers(1, 7))):
        retries = draw(st.integers(0, 2))
        most = retries if any(node.fails for node in nodes) else 3
        nodes.append(
            Node(
                tuple(sorted(draw(st.sets(st.integers(0, index - 1), max_size=3)))) if index else (),
                draw(st.sampled_from([True, True, True, False])),
                draw(st.sampled_from([False, False, True])),
                retries,
                draw(st.integers(0, most)),
                draw(st.booleans()),
                draw(st.sampled_from([False, False, True])),
            )
        )
    return nodes


class World:
    """What the steps did, in all lives of a process. An attempt that is performed again has the same key."""

    def __init__(self) -> None:
        self.attempts: defaultdict[tuple[int, Any], list[str]] = defaultdict(list)
        self.undone: list[tuple[str, int]] = []

    def step(self, index: int, failures: int) -> Any:
        async def act(ctx: RunContext) -> int:
            tried = self.attempts[index, ctx.context.get("item")]
            if ctx.idempotency_key not in tried:
                tried.append(ctx.idempotency_key)
            if tried.index(ctx.idempotency_key) < failures:
                raise ConnectionError("not yet")
            return 1 + sum(int(value or 0) for name, value in ctx.context.items() if name.startswith("of_"))

        return act

    async def undo(self, ctx: RunContext) -> str:
        self.undone.append((ctx.context["step"], ctx.context["output"]))
        return "undone"


def a_team(nodes: list[Node], world: World) -> Team:
    steps = []
    for index, node in enumerate(nodes):
        total = "sum(steps.s{0}.output || `[]`)"
        context = {
            f"of_{before}": total.format(before) if nodes[before].each else f"steps.s{before}.output"
            for before in node.after
        }
        doer: dict[str, Any] = {"agent": "a"} if node.thinks else {"function": world.step(index, node.failures)}
        steps.append(
            WorkflowStep(
                f"s{index}",
                **doer,
                after=[f"s{before}" for before in node.after],
                input="go",
                when="`true`" if node.runs else "`false`",
                for_each="inputs.items" if node.each else None,
                context={**context, **({"item": "item"} if node.each else {})},
                retry=node.retries,
                on_rollback=world.undo if node.undone else None,
            )
        )
    model = ScriptedModel(lambda agent, messages, tools: says("1"))
    return Team([Agent("a")], model=model, clock=ManualClock(auto=True), workflows=[Workflow("flow", steps=steps)])


async def scenario(team: Any) -> Any:
    try:
        await team.run_workflow("flow", INPUTS, conversation="c")
    except StepError as error:
        return error.step if "not yet" in error.reason else str(error)
    return [(each.id, each.status, each.output, each.attempts) for each in await team.steps("c")]


@given(nodes=graphs(), at=st.integers(1, 60), death=st.sampled_from(Death))
@settings(max_examples=EXAMPLES, deadline=None)
@pytest.mark.stress
@pytest.mark.timeout(900 if STRESS else 90)
async def test_a_random_workflow_comes_to_the_same_end_with_a_crash_anywhere(nodes: list[Node], at: int, death: Death):
    whole, calm = MortalLog(MemoryLog()), World()
    end = await _live(a_team(nodes, calm), scenario, whole, Effects())
    await assert_in_order(nodes, whole.beneath, calm, end)
    mortal, shaken = MortalLog(MemoryLog(), at % whole.appends + 1, death), World()
    await _dies_and_resumes(a_team(nodes, shaken), scenario, mortal, end)
    await assert_in_order(nodes, mortal.beneath, shaken, end)


async def assert_in_order(nodes: list[Node], log: Any, world: World, end: Any) -> None:
    """Each step that should run ran once per attempt, none before the steps that it comes after had ended."""
    began = attempts_in_order(nodes, [event for entry in await log.read("c") for event in entry.events])
    runs = expected_runs(nodes)
    fatal = next((index for index, node in enumerate(nodes) if node.fails and index in runs), None)
    assert end == f"s{fatal}" if fatal is not None else isinstance(end, list), (nodes, end)
    for (id, _), attempts in began.items():
        node = nodes[int(id[1:])]
        assert int(id[1:]) in runs, f"{id} should have been skipped"
        wanted = 1 if node.thinks else min(node.failures, node.retries) + 1
        assert attempts == wanted or (fatal is not None and attempts < wanted)
    done = State("c").fold(await log.read("c")).last
    assert done is not None
    assert done.run.flow is not None
    if fatal is not None:
        assert done.run.flow.undoable is None, "something is done that could be undone"
    else:
        assert {int(id[1:]) for id, _ in began} == runs
        assert world.undone == []
    for (index, _), keys in world.attempts.items():
        assert len(keys) <= nodes[index].retries + 1


def attempts_in_order(nodes: list[Node], events: list[Any]) -> dict[tuple[str, int], int]:
    """The number of attempts at each piece, none of which began too early."""
    state, over, began = State("c"), set[str](), defaultdict[tuple[str, int], int](int)
    for event in events:
        if isinstance(event, StepSpread | StepSkipped) or (isinstance(event, StepBegan) and not event.undo):
            assert {f"s{each}" for each in nodes[int(event.step[1:])].after} <= over, f"{event} is too early"
        if isinstance(event, StepBegan) and not event.undo:
            began[event.step, event.item] += 1
            assert event.attempt == began[event.step, event.item]
        state.apply(event)
        if state.run is not None and state.run.flow is not None:
            over = {id for id, step in state.run.flow.steps.items() if step.status in ("done", "skipped")}
    return began


def expected_runs(nodes: list[Node]) -> set[int]:
    """The steps that are not skipped."""
    found = set[int]()
    for index, node in enumerate(nodes):
        if node.runs and (not node.after or found.intersection(node.after)):
            found.add(index)
    return found
