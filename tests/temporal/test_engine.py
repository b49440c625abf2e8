"""The Temporal engine: who serves what, what Temporal sees, how histories grow, and how engines change places."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from changeover import Agent, Approval, Approve, Limits, Store, Team, Temporal, delegate, tool
from changeover.engines.address import engine_at
from changeover.engines.clock import SystemClock
from changeover.engines.temporal.shell import Shell
from changeover.errors import EngineError, MisconfiguredError
from changeover.relay.engine import EngineFactory
from changeover.relay.events import HandoffReturned
from changeover.stream import RunFinished, TextDelta
from changeover.testing import Reply, ScriptedModel, calls, delegates, hands_off, says
from tests.public_api import soon
from tests.stories.book import STORIES, Stage

LEASE = 3.0
HISTORIES = Path(__file__).with_name("histories")


def desk(url: str, engine: EngineFactory | None, **script: list[Any]) -> Team:
    """Triage hands over to billing."""
    script = script or {"triage": [hands_off("billing", "Charged twice.")], "billing": [says("Sent back.")] * 20}
    return Team(
        [Agent("triage"), Agent("billing")], model=ScriptedModel(script), store=Store(url, lease=LEASE), engine=engine
    )


async def histories(engine: Temporal) -> list[WorkflowHistory]:
    """The histories of all workflows of a queue, the oldest first, once they have ended."""
    client = await Client.connect(engine.address)
    assert await soon(lambda: _found(client, f"TaskQueue='{engine.queue}' AND ExecutionStatus='Running'", 0), 30)
    found = [each async for each in client.list_workflows(f"TaskQueue='{engine.queue}'")]
    handles = [client.get_workflow_handle(each.id, run_id=each.run_id) for each in found]
    return [await handle.fetch_history() for handle in handles][::-1]


def size(history: WorkflowHistory) -> int:
    return sum(len(event.SerializeToString()) for event in history.events)


async def replay(history: WorkflowHistory) -> None:
    # Debug mode: a busy machine is not taken for a deadlock.
    replayer = Replayer(workflows=[Shell], workflow_runner=UnsandboxedWorkflowRunner(), debug_mode=True)
    await replayer.replay_workflow(history)


async def test_a_run_with_one_handoff_has_few_small_events_and_later_turns_do_not_grow(
    postgres: str, temporal: Callable[..., Temporal]
):
    engine, turns = temporal(), 6
    async with desk(postgres, engine) as team:
        for turn in range(turns):
            result = await team.run("I was charged twice!", conversation="ada")
            assert result.output == "Sent back."
            assert len(await histories(engine)) == turn + 1
        first, *later = await histories(engine)
    assert len(first.events) <= 20
    assert size(first) <= 3_000
    assert [len(each.events) for each in later] == [len(later[0].events)] * (turns - 1)
    assert len(later[0].events) <= 14
    for history in (first, later[-1]):
        await replay(history)


async def test_temporal_sees_no_content(postgres: str, temporal: Callable[..., Temporal]):
    engine = temporal()
    async with desk(postgres, engine) as team:
        await team.run("I was charged twice!", conversation="c1", user="Ada Lovelace", context={"order": "o-1042"})
        found = await histories(engine)
    raw = b"".join(event.SerializeToString() for each in found for event in each.events)
    assert b"c1" in raw
    assert [
        word for word in (b"charged", b"Charged", b"Sent back", b"Ada", b"Lovelace", b"1042", b"order") if word in raw
    ] == []


async def test_a_conversation_is_found_by_its_search_attributes(postgres: str, temporal: Callable[..., Temporal]):
    engine = temporal()
    async with desk(postgres, engine) as team:
        await team.run("I was charged twice!", conversation="c1")
        await histories(engine)
    client = await Client.connect(engine.address)
    query = f"TaskQueue='{engine.queue}' AND ChangeoverConversation='c1' AND ChangeoverStatus='completed'"
    assert await soon(lambda: _found(client, query, 1), 10)


async def _found(client: Client, query: str, count: int) -> bool:
    """True if so many workflows fit the query."""
    return (await client.count_workflows(query)).count == count


RECORDED = {path.stem: path.read_text() for path in sorted(HISTORIES.glob("*.json"))}


@pytest.mark.parametrize("name", RECORDED)
async def test_a_recorded_history_replays(name: str):
    await replay(WorkflowHistory.from_json(name, RECORDED[name]))


async def test_a_run_that_no_worker_serves_says_so_within_five_seconds_and_goes_on_when_one_comes(
    postgres: str, temporal: Callable[..., Temporal]
):
    async with desk(postgres, temporal(worker=False)) as asking:
        begun = time.monotonic()
        with pytest.raises(EngineError, match="no worker serves the task queue"):
            await asking.run("I was charged twice!", conversation="c1")
        waited = time.monotonic() - begun
        async with desk(postgres, temporal()):
            assert (await asking.resume("c1")).output == "Sent back."
    assert waited < 10, "five seconds on an idle machine"


async def test_an_agent_is_served_by_its_own_worker_and_the_others_by_the_default_one(
    postgres: str, temporal: Callable[..., Temporal]
):
    def worker(name: str, **options: Any) -> Team:
        return desk(postgres, temporal(**options), triage=[hands_off("billing")], billing=[says(f"by {name}")])

    async with worker("the clerk", agents=("billing",)) as clerk:
        await asyncio.sleep(1)  # until it polls
        async with worker("all") as general, desk(postgres, temporal(worker=False)) as asking:
            result = await asking.run("I was charged twice!")
            assert result.output == "by the clerk"
            assert [each.agent for each in general.declared.model.requests] == ["triage"]
            assert [each.agent for each in clerk.declared.model.requests] == ["billing"]


async def test_deltas_of_a_worker_reach_the_reader_in_another_engine(postgres: str, temporal: Callable[..., Temporal]):
    async def play(agent: str, messages: Any, tools: Any) -> Reply:
        """Triage hands over once the worker's store knows that the conversation is read."""
        assert await soon(wanted, 30)
        return hands_off("billing") if agent == "triage" else says("Sent back.")

    async def wanted() -> bool:
        return worker.log.deltas.wanted("c1")

    members = [Agent("triage"), Agent("billing")]
    worker = Team(members, model=ScriptedModel(play), store=Store(postgres, lease=LEASE), engine=temporal())
    async with worker, desk(postgres, temporal(worker=False)) as asking:
        items = [item async for item in asking.stream("I was charged twice!", conversation="c1")]
    assert isinstance(items[-1], RunFinished)
    assert items[-1].result.output == "Sent back."
    text = "".join(item.text for item in items if isinstance(item, TextDelta))
    assert "Sent back.".startswith(text), "the log may be faster than the last piece"


def payer(url: str, engine: EngineFactory | None, expires: float | None = None) -> Team:
    @tool(approval=Approval(expires=expires) if expires else True)
    def pay() -> str:
        """Pay."""
        return "paid"

    model = ScriptedModel({"triage": [calls(("pay", {})), says("Done.")]})
    return Team([Agent("triage", tools=[pay])], model=model, store=Store(url, lease=LEASE), engine=engine)


@pytest.mark.parametrize("to_temporal", [True, False], ids=["to Temporal", "back to the local engine"])
async def test_a_store_changes_engines_and_what_was_unfinished_is_taken_up(
    postgres: str, temporal: Callable[..., Temporal], to_temporal: bool
):
    engines: list[EngineFactory | None] = [None, temporal()] if to_temporal else [temporal(), None]
    async with payer(postgres, engines[0]) as before:
        waiting = await before.run("pay", conversation="c1")
        assert waiting.status == "waiting"
    async with payer(postgres, engines[1]) as after:
        [request] = await after.approvals()
        await after.decide(request.id, Approve(), by="ana@example.org")
        assert (await after.resume("c1")).output == "Done."


async def test_a_durable_timer_ends_an_approval_that_nobody_decides(postgres: str, temporal: Callable[..., Temporal]):
    engine = temporal()
    async with payer(postgres, engine, expires=1) as team:
        assert (await team.run("pay", conversation="c1")).status == "waiting"
        assert await soon(lambda: _ended(team, "c1"), 30)
        [history] = await histories(engine)
    assert any(event.HasField("timer_fired_event_attributes") for event in history.events)
    await replay(history)


async def _ended(team: Team, conversation: str) -> bool:
    return (await team.resume(conversation)).status == "completed"


def family(url: str, engine: EngineFactory, children: int) -> Team:
    """A lead gives each of its delegates a task at once."""
    tasks = calls(*(delegates(f"clerk-{number}", "count") for number in range(children)))
    clerks = [Agent(f"clerk-{number}") for number in range(children)]
    lead = Agent("lead", handoffs=[delegate(clerk.id) for clerk in clerks])
    script = {"lead": [tasks, says("All are back.")], **{clerk.id: [says("One.")] for clerk in clerks}}
    limits = Limits(max_handoffs=1_000, max_turns=5_000)
    return Team(
        [lead, *clerks], model=ScriptedModel(script), store=Store(url, lease=LEASE), engine=engine, limits=limits
    )


@pytest.mark.stress
async def test_many_delegates_work_at_once_and_cost_no_more_each_than_few(
    postgres: str, temporal: Callable[..., Temporal]
):
    events = {}
    for count in (5, 20):
        engine = temporal(queue=f"{temporal().queue}-{count}")
        async with family(postgres, engine, count) as team:
            result = await team.run("count", conversation=f"c{count}")
            assert result.output == "All are back."
            assert (
                len([each for each in await team.history(f"c{count}") if isinstance(each.event, HandoffReturned)])
                == count
            )
            [history] = await histories(engine)
        events[count] = len(history.events)
        await replay(history)
    assert events[20] <= 6 * events[5]


DELEGATING = ("delegates", "trees", "branches")
TIMED = {"a_delegate_comes_back_with_a_structured_result_and_the_sender_goes_on"}
"""It compares how long a delegate took, which a clock that stands still makes zero."""
REAL_TIME = [name for name, tell in STORIES.items() if tell.__module__.rpartition(".")[2] in DELEGATING][::12]


@pytest.mark.stress
@pytest.mark.parametrize("name", [name for name in REAL_TIME if name not in TIMED])
async def test_a_story_of_delegates_holds_by_the_clock_of_the_machine(
    name: str, postgres: str, temporal: Callable[..., Temporal]
):
    stage = Stage(store=postgres, engine=temporal(), clock=SystemClock())
    try:
        async with asyncio.timeout(60):
            await STORIES[name](stage)
    finally:
        await stage.close()


def test_settings_are_checked_and_an_address_names_them():
    parsed = engine_at("temporal://host:7233/desk?queue=q&tls=true&heartbeat=5&worker=false&api_key=${KEY}")
    assert parsed == Temporal("host:7233", "desk", True, "${KEY}", "q", worker=False, heartbeat=5.0)
    with pytest.raises(MisconfiguredError, match="literal api_key"):
        Temporal("host:7233", api_key="abc")
    with pytest.raises(MisconfiguredError, match="unknown option 'speed'"):
        engine_at("temporal://host:7233?speed=9")
    with pytest.raises(MisconfiguredError, match="heartbeat='soon'"):
        engine_at("temporal://host:7233?heartbeat=soon")
    with pytest.raises(MisconfiguredError, match="concurrency=0"):
        Temporal("host:7233", concurrency=0)


async def test_a_store_in_memory_is_refused():
    team = Team([Agent("triage")], model=ScriptedModel({"triage": [says("Hi.")]}), engine=Temporal("127.0.0.1:1"))
    with pytest.raises(MisconfiguredError, match="a store that outlives the process"):
        await team.run("hello")
