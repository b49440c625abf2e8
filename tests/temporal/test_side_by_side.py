"""Temporal beside the local engine and beside workers of one agent; events, times and workflows that start runs."""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import PollWorkflowTaskQueueRequest
from temporalio.client import Client

from changeover import Agent, Approve, Store, Team, Temporal, tool
from changeover.bus import Schedule, Specialist, Subscription
from changeover.engines.temporal.connection import SERVES
from changeover.relay.ports.engine import EngineFactory
from changeover.relay.ports.world import Request
from changeover.testing import Reply, ScriptedModel, calls, hands_off, says
from changeover.workflows import Workflow, WorkflowStep
from tests.bus.test_bus import settled
from tests.temporal.history import histories
from tests.temporal.teams import LEASE, desk


@tool(approval=True)
def pay() -> str:
    """Pay."""
    return "paid"


PAYS, TEAMS = calls(("pay", {})), 3


class Halves:
    """Teams that serve one store, one after the other: the model of a writer answers only the next team."""

    def __init__(self, url: str) -> None:
        self._url, self.begun = url, [asyncio.Event() for _ in range(TEAMS)]

    def team(self, engine: EngineFactory | None, number: int) -> Team:
        async def play(request: Request) -> Reply:
            if request.agent == "payer":
                return says(f"{request.messages[-1].text} by team {number}") if len(request.messages) > 1 else PAYS
            if request.conversation == f"works-{number}":
                self.begun[number].set()
                await asyncio.Event().wait()
            return says(f"written by team {number}")

        members = [Agent("payer", tools=[pay]), Agent("writer")]
        return Team(members, model=ScriptedModel(play), store=Store(self._url, lease=LEASE), engine=engine)


async def test_a_store_goes_to_temporal_and_back_and_each_engine_takes_up_what_was_unfinished(
    postgres: str, temporal: Callable[..., Temporal]
):
    halves, engines = Halves(postgres), (None, temporal(), None)
    for number, engine in enumerate(engines):
        async with halves.team(engine, number) as team:
            if number:
                [request] = await team.approvals()
                await team.decide(request.id, Approve(), by="ana@example.org")
                assert (await team.resume(f"waits-{number - 1}")).output == f"paid by team {number}"
                assert (await team.resume(f"works-{number - 1}")).output == f"written by team {number}"
            if number < TEAMS - 1:
                assert (await team.run("pay", conversation=f"waits-{number}", agent="payer")).status == "waiting"
                working = asyncio.ensure_future(team.run("write", conversation=f"works-{number}", agent="writer"))
                await asyncio.wait_for(halves.begun[number].wait(), 30)
                working.cancel()


async def test_both_engines_on_one_store_work_side_by_side_and_call_no_model_twice(
    postgres: str, temporal: Callable[..., Temporal]
):
    asked = Counter[str]()

    async def play(request: Request) -> Reply:
        asked[f"{request.conversation}:{request.command}"] += 1
        await asyncio.sleep(0.01)
        return hands_off("billing", "Yours.") if request.agent == "triage" else says("Sent back.")

    def team(engine: EngineFactory | None) -> Team:
        members, store = [Agent("triage"), Agent("billing")], Store(postgres, lease=LEASE)
        return Team(members, model=ScriptedModel(play), store=store, engine=engine)

    conversations = [f"c{number}" for number in range(8)]
    async with team(None) as local, team(temporal()) as spread:
        said = [each.run("Twice!", conversation=id, agent="triage") for id in conversations for each in (local, spread)]
        results = await asyncio.gather(*said)
    assert {result.output for result in results} == {"Sent back."}
    assert asked.total() == len(asked) == 2 * len(said)


async def test_a_dead_worker_of_one_agent_does_not_keep_its_work(postgres: str, temporal: Callable[..., Temporal]):
    engine = temporal(unclaimed=1.0)
    client = await Client.connect(engine.address)
    died = PollWorkflowTaskQueueRequest(
        namespace="default", task_queue=TaskQueue(name=engine.queue), identity=f"1@dead{SERVES}billing"
    )
    with suppress(TimeoutError):  # as of a worker that is killed while it polls; Temporal lists it for minutes
        await asyncio.wait_for(client.workflow_service.poll_workflow_task_queue(died), 0.3)
    async with desk(postgres, engine) as team:
        assert (await team.run("I was charged twice!", conversation="c1")).output == "Sent back."
        [history] = await histories(engine)
    assert any(event.HasField("activity_task_timed_out_event_attributes") for event in history.events)


async def test_events_times_and_workflows_start_runs_on_temporal(postgres: str, temporal: Callable[..., Temporal]):
    steps = [WorkflowStep("draft", agent="triage"), WorkflowStep("edit", agent="security", after=["draft"])]
    team = Team(
        [Agent("triage"), Agent("security", description="Investigates.", capabilities=["security"])],
        model=ScriptedModel(lambda agent, messages, tools: says(f"{agent} did it")),
        store=Store(postgres, lease=LEASE),
        engine=(engine := temporal()),
        workflows=[Workflow("report", steps=steps)],
        subscriptions=[Subscription("security.*", to=Specialist("security", task="Look."))],
        schedules=[Schedule("weekly", cron="0 7 * * 1", start="triage")],
    )
    async with team:
        for event in (await team.bus.publish("security.alert"), await team.schedules.run("weekly")):
            await settled(team, event)
            [delivery] = (await team.bus.event(event)).deliveries  # type: ignore[union-attr]
            assert (await team.resume(delivery.started)).status == "completed"
        assert (await team.run_workflow("report", {})).output == "security did it"
        assert len(await histories(engine)) == 3
