"""Metrics of steps over many runs: counted on every store as the reports of the runs say."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from changeover import Agent, RunContext, Team, tool
from changeover.errors import StepError
from changeover.metrics import StepMetrics
from changeover.models import Usage
from changeover.stores.sql.log import SqlLog
from changeover.stores.sql.measures import SqlMeasures
from changeover.testing import ManualClock, ScriptedModel, calls, says
from changeover.workflows import Workflow, WorkflowStep
from tests.databases import KINDS, postgres, sqlite_file

__all__ = ["postgres", "sqlite_file"]

HALF = Usage(50, 10, 1, 0.125)
RUNS = ("slow", "fine", "flaky", "small", "doomed")


class Plates:
    """What was tried to be served; the doomed dinner has no plate until there are new ones."""

    def __init__(self) -> None:
        self.tried: list[str] = []
        self.new = False

    def serve(self, ctx: RunContext) -> str:
        kind: str = ctx.context["kind"]
        self.tried.append(kind)
        if (kind == "doomed" and not self.new) or (kind == "flaky" and self.tried.count(kind) == 1):
            raise ConnectionError("no plate")
        return "served"


def answer(agent: str, messages: Any, tools: Any) -> Any:
    if messages[-1].text == "hot":
        return says("cooked", usage=HALF)
    return replace(calls(("heat", {"seconds": 8 if "slow" in messages[-1].text else 2})), usage=HALF)


def kitchen(store: str | None, plates: Plates) -> Team:
    clock = ManualClock(1_000.0)

    @tool
    async def heat(seconds: float) -> str:
        """Heat it for so long."""
        await clock.advance(seconds)
        return "hot"

    dinner = Workflow(
        "dinner",
        steps=[
            WorkflowStep("cook", agent="cook", input="{inputs.kind}", on_rollback=lambda ctx: "thrown away"),
            WorkflowStep("spice", agent="cook", after=["cook"], when="inputs.kind != 'small'", input="spice"),
            WorkflowStep(
                "serve", function=plates.serve, after=["cook", "spice"], context={"kind": "inputs.kind"}, retry=1
            ),
        ],
    )
    return Team(
        [Agent("cook", tools=[heat])], model=ScriptedModel(answer), store=store, clock=clock, workflows=[dinner]
    )


@pytest.fixture(params=["memory", *KINDS])
def store(request: pytest.FixtureRequest) -> str | None:
    match request.param:
        case "sqlite":
            return f"sqlite:///{request.getfixturevalue('sqlite_file')}"
        case "postgresql":
            return str(request.getfixturevalue("postgres"))
        case _:
            return None


async def test_steps_are_counted_over_many_runs(store: str | None):
    plates = Plates()
    async with kitchen(store, plates) as team:
        for each in RUNS:
            with suppress(StepError):
                await team.run_workflow("dinner", {"kind": each}, conversation=each)
        steps = (await team.metrics()).steps
        assert [*steps] == [("dinner", "cook"), ("dinner", "serve"), ("dinner", "spice")]
        cook, serve, spice = steps.values()
        assert (cook.count, cook.done, cook.compensated, cook.success_rate) == (5, 4, 1, 1.0)
        assert (cook.elapsed.p50, cook.elapsed.p95, cook.retries) == (2.0, 8.0, 0)
        assert (cook.tokens, cook.input_tokens, cook.output_tokens, cook.cost) == (600, 500, 100, 1.25)
        assert (spice.count, spice.done, spice.skipped, spice.success_rate, spice.elapsed.count) == (5, 4, 1, 1.0, 4)
        assert (serve.done, serve.failed, serve.success_rate, serve.retries) == (4, 1, 0.8, 2)
        assert (serve.tokens, serve.cost) == (0, 0.0)
        plates.new = True
        await team.resume("doomed")
        again = (await team.metrics()).steps
        assert (again["dinner", "cook"].done, again["dinner", "cook"].compensated) == (5, 0)
        assert (again["dinner", "serve"].done, again["dinner", "serve"].failed) == (5, 0)
        assert (again["dinner", "serve"].count, again["dinner", "serve"].retries) == (5, 3)
        assert (await team.metrics(3)).steps["dinner", "cook"].count == 1


@pytest.mark.parametrize("size", [1, 2, 100])
async def test_pages_leave_no_step_out(sqlite_file: Path, size: int):
    async with kitchen(f"sqlite:///{sqlite_file}", Plates()) as team:
        for each in RUNS[:3]:
            await team.run_workflow("dinner", {"kind": each})
        assert isinstance(team.log, SqlLog)
        measures = SqlMeasures(team.log._sql.measures, team.log._reader.large, size)
        found = [each async for page in measures.steps(0, 2_000, "dinner") for each in page]
        assert sorted(each.step for each in found) == ["cook"] * 3 + ["serve"] * 3 + ["spice"] * 3
        assert [page async for page in measures.steps(0, 2_000, "lunch")] == []


async def test_a_cancelled_step_has_no_time_and_one_that_never_began_is_not_counted():
    async def wait(ctx: RunContext) -> str:
        await team.cancel("c")
        return "late"

    flow = Workflow(
        "flow", steps=[WorkflowStep("wait", function=wait), WorkflowStep("rest", agent="a", after=["wait"])]
    )
    team = Team([Agent("a")], model=ScriptedModel({}), workflows=[flow])
    await team.run_workflow("flow", conversation="c")
    assert (await team.metrics()).steps == {("flow", "wait"): StepMetrics(count=1, cancelled=1)}
