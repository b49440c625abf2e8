"""Resuming runs: in the same process, in another one, after a restart, after a crash.

A second team on the same store is another process to the first: it has its own connection and its own lease.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence

import pytest

from changeover import Agent, RunContext, Team, tool
from changeover.errors import ChangeoverError, ConversationNotFound, EngineError, KeyConflict, ModelError
from changeover.messages import Message
from changeover.relay.events import RunCompleted, UserSpoke
from changeover.stores.store import Store, open_log
from changeover.testing import ManualClock, Reply, ScriptedModel, calls, fails, says
from changeover.testing.scripted import Lines, Play
from changeover.tools.tool import ToolDefinition
from tests.crash import plans
from tests.crash.checks import assert_whole, events_of
from tests.crash.nursery import Nursery, wait_for
from tests.crash.worker import Order, Say, options

LEASE = 0.8
LOOKS = {"solo": [calls(("look", {"at": "it"})), says("seen")]}


class Desk:
    """A process's own team: what its tool does is noted, and waits until it is let go."""

    def __init__(self, url: str, script: Lines | Play = LOOKS, *, slow: bool = False, failures: int = 0) -> None:
        self.begun: list[str] = []
        self.go_on = asyncio.Event()
        if not slow:
            self.go_on.set()
        self._failures = failures
        self.model = ScriptedModel(script)
        agent = Agent("solo", tools=[tool(name="look", retries=failures)(self._look)])
        self.team = Team([agent], model=self.model, store=Store(url, lease=LEASE), clock=ManualClock(auto=True))

    async def _look(self, at: str, ctx: RunContext) -> str:
        self.begun.append(ctx.idempotency_key)
        if len(self.begun) <= self._failures:
            raise ConnectionError("try again")
        await self.go_on.wait()
        return f"looked at {at}"


def echo(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
    return says(f"you said {messages[-1].text}")


async def until(condition: Callable[[], bool], within: float = 10.0) -> None:
    end = time.monotonic() + within
    while not condition():
        assert time.monotonic() < end, "it does not come true"
        await asyncio.sleep(0.005)


async def told(awaitable: Awaitable[object]) -> str:
    """What came of it, as text."""
    try:
        return str(getattr(await awaitable, "output", None))
    except ChangeoverError as error:
        return type(error).__name__


async def test_resume_waits_for_the_run_that_another_live_process_works_on_and_repeats_nothing_of_it(shared_store: str):
    here, there = Desk(shared_store, slow=True), Desk(shared_store)
    said = asyncio.create_task(here.team.run("look", conversation="c"))
    await until(lambda: bool(here.begun))
    async with there.team:
        resumed = asyncio.create_task(there.team.resume("c"))
        await asyncio.sleep(2.5 * LEASE)
        assert not resumed.done()
        here.go_on.set()
        assert (await said).output == (await resumed).output == "seen"
        assert (await said).run_id == (await resumed).run_id
    assert (len(here.begun), there.begun, there.model.requests) == (1, [], [])
    await here.team.close()


async def test_a_message_to_a_conversation_of_another_live_process_is_answered_there(shared_store: str):
    here, there = Desk(shared_store, {"solo": [*LOOKS["solo"], says("second")]}, slow=True), Desk(shared_store)
    first = asyncio.create_task(here.team.run("look", conversation="c"))
    await until(lambda: bool(here.begun))
    second = asyncio.create_task(there.team.run("and now?", conversation="c"))
    await asyncio.sleep(2 * LEASE)
    here.go_on.set()
    assert [(await first).output, (await second).output] == ["seen", "second"]
    assert (len(here.begun), there.begun, there.model.requests) == (1, [], [])
    await there.team.close()
    await here.team.close()


async def test_resume_returns_the_last_result_here_and_in_another_process(shared_store: str):
    here, there = Desk(shared_store, echo), Desk(shared_store, echo)
    await here.team.run("one", conversation="c")
    last = await here.team.run("two", conversation="c")
    assert [await here.team.resume("c"), await there.team.resume("c")] == [last, last]
    assert (len(here.model.requests), there.model.requests) == (2, [])
    await there.team.close()
    await here.team.close()


async def test_an_unknown_conversation_cannot_be_resumed(shared_store: str):
    async with Desk(shared_store).team as team:
        for _ in range(2):
            with pytest.raises(ConversationNotFound):
                await team.resume("nobody")


@pytest.mark.parametrize("where", ["here", "there", "after a restart"])
async def test_a_run_that_failed_tries_its_failed_step_again_and_no_other(shared_store: str, where: str):
    script = {
        "solo": [LOOKS["solo"][0], fails("down", retryable=False), fails("still down", retryable=False), says("up")]
    }
    here, there = Desk(shared_store, script), Desk(shared_store, script)
    with pytest.raises(ModelError, match=r": down$"):
        await here.team.run("look", conversation="c", key="k")
    if where == "after a restart":
        await here.team.close()
    desk = here if where == "here" else there
    with pytest.raises(ModelError, match="still down"):
        await desk.team.resume("c")
    assert (await desk.team.resume("c")).output == "up"
    assert (await desk.team.run("look", conversation="c", key="k")).output == "up"
    assert len(here.model.requests) + len(there.model.requests) == 4
    assert len(here.begun) + len(there.begun) == 1
    await there.team.close()
    await here.team.close()


async def test_several_processes_that_resume_a_failed_run_at_once_try_its_step_once(shared_store: str):
    script = {"solo": [LOOKS["solo"][0], fails("down", retryable=False), says("up")]}
    desks = [Desk(shared_store, script) for _ in range(3)]
    with pytest.raises(ModelError):
        await desks[0].team.run("look", conversation="c")
    results = await asyncio.gather(*(desk.team.resume("c") for desk in desks for _ in range(3)))
    assert {result.output for result in results} == {"up"}
    assert sum(len(desk.model.requests) for desk in desks) == 3
    for desk in desks:
        await desk.team.close()


async def test_the_work_of_a_killed_process_is_taken_over_within_two_leases_under_the_same_keys(
    shared_store: str, nursery: Nursery
):
    say = Say("c", "k", "look save")
    worker = nursery.start(Order(url=shared_store, say=[[say]], lease=LEASE, longest=1_000.0))
    assert wait_for(lambda: bool(nursery.notes.read("begin")), 10)
    noted: list[str] = []
    heir = plans.Play(lambda what, key, kind, value: noted.append(key)).team(Store(shared_store, lease=LEASE))
    resumed = asyncio.create_task(heir.resume("c"))
    await asyncio.sleep(2 * LEASE)
    assert (resumed.done(), noted) == (False, []), "it was stolen from a live process"
    worker.kill()
    died = time.monotonic()
    result = await resumed
    # The lease may just have been renewed; then the heir looks every third of a lease; the rest is a slow machine's.
    assert time.monotonic() - died < 2 * LEASE + 3
    assert noted[0] == nursery.notes.read("begin")[0].key
    assert (await heir.run(say.text, **options(say))).run_id == result.run_id
    await heir.close()


async def test_a_key_makes_one_run_of_many_calls_at_once(shared_store: str):
    async with (desk := Desk(shared_store)).team as team:
        results = await asyncio.gather(*(team.run("look", key="k") for _ in range(20)))
        assert {(result.output, result.run_id) for result in results} == {("seen", results[0].run_id)}
        assert (len(desk.begun), len(desk.model.requests)) == (1, 2)


async def test_a_key_makes_one_run_of_many_calls_in_several_processes_at_once(shared_store: str):
    desks = [Desk(shared_store) for _ in range(4)]
    results = await asyncio.gather(*(desk.team.run("look", key="k") for desk in desks for _ in range(5)))
    assert {(result.output, result.run_id) for result in results} == {("seen", results[0].run_id)}
    assert sum(len(desk.begun) for desk in desks) == 1
    assert sum(len(desk.model.requests) for desk in desks) == 2
    for desk in desks:
        await desk.team.close()


async def test_a_key_that_was_used_before_returns_the_recorded_result(shared_store: str):
    async with Desk(shared_store, echo).team as team:
        first = await team.run("first", conversation="c", key="k")
        await team.run("second", conversation="c")
        assert await team.run("first", conversation="c", key="k") == first
    async with (later := Desk(shared_store, echo)).team as team:
        assert await team.run("first", conversation="c", key="k") == first
        with pytest.raises(KeyConflict, match="'k' was used before, for another input: 'first'"):
            await team.run("something else", conversation="c", key="k")
        assert later.model.requests == []
        assert (await team.run("third", conversation="c", key="another")).output == "you said third"


async def test_a_call_has_one_idempotency_key_over_its_retries_a_failing_model_and_a_restart(shared_store: str):
    script = {"solo": [fails("busy"), *LOOKS["solo"]]}
    first = Desk(shared_store, script, slow=True, failures=2)
    said = asyncio.create_task(told(first.team.run("look", key="k", conversation="c")))
    await until(lambda: len(first.begun) == 3)
    await first.team.close()
    assert await said == "EngineError"
    async with (second := Desk(shared_store, script, failures=1)).team as team:
        assert (await team.resume("c")).output == "seen"
        other = await team.run("look", key="other", conversation="d")
    here = [key for key in second.begun if key.startswith("c:")]
    assert {*first.begun, *here} == {first.begun[0]}
    there = [key for key in second.begun if key.startswith(f"{other.conversation_id}:")]
    assert (len(first.begun), len(here), len(there)) == (3, 2, 1)


async def test_opening_a_team_resumes_unfinished_conversations(shared_store: str):
    first = Desk(shared_store, slow=True)
    said = [asyncio.create_task(told(first.team.run("look", conversation=f"c{number}"))) for number in range(5)]
    await until(lambda: len(first.begun) == 5)
    await first.team.close()
    assert await asyncio.gather(*said) == ["EngineError"] * 5
    log = open_log(Store(shared_store))
    async with (second := Desk(shared_store)).team:
        end = time.monotonic() + 10
        while [id for id in range(5) if not _completed(events_of(await log.read(f"c{id}")))]:
            assert time.monotonic() < end, "it is not taken up"
            await asyncio.sleep(0.01)
    assert sorted(second.begun) == sorted(first.begun)
    for number in range(5):
        assert_whole(await log.read(f"c{number}"))
    await log.close()


def _completed(events: Sequence[object]) -> bool:
    return any(isinstance(event, RunCompleted) for event in events)


async def test_close_leaves_nothing_unwritten(shared_store: str):
    team = Desk(shared_store, echo).team
    ids = [f"c{number}" for number in range(50)]
    results = await asyncio.gather(*(team.run(f"this is {id}", conversation=id) for id in ids))
    await team.close()
    async with (later := Desk(shared_store, echo)).team as team:
        assert [await team.resume(id) for id in ids] == results
        assert [len(await team.history(id)) for id in ids] == [5] * 50
        assert later.model.requests == []


@pytest.mark.parametrize("rounds", [0, 1, 3, 10, 40])
async def test_a_run_that_close_interrupts_raises_for_its_callers_and_can_go_on_later(shared_store: str, rounds: int):
    team = Desk(shared_store).team
    ids = [f"c{number}" for number in range(50)]
    said = [asyncio.create_task(told(team.run("look", conversation=id, key="k"))) for id in ids]
    await asyncio.sleep(0)  # each of them begins
    for _ in range(rounds):
        await asyncio.sleep(0.001)
    await team.close()
    answers = await asyncio.gather(*said)
    assert {*answers} <= {"seen", "EngineError", "StoreUnavailable", "StoreClosed"}
    log = open_log(Store(shared_store))
    for id, answer in zip(ids, answers, strict=True):
        assert answer != "seen" or _completed(events_of(await log.read(id))), "an answer without its record"
    async with Desk(shared_store).team as team:
        results = await asyncio.gather(*(team.run("look", conversation=id, key="k") for id in ids))
    assert {result.output for result in results} == {"seen"}
    for id in ids:
        entries = await log.read(id)
        assert_whole(entries)
        assert sum(isinstance(event, UserSpoke) for event in events_of(entries)) == 1
    await log.close()


async def test_using_a_store_that_is_up_to_date_imports_no_alembic(shared_store: str):
    async with Desk(shared_store, echo).team as team:
        await team.run("hello", conversation="c")
    script = """
import asyncio, sys
from changeover import Agent, Team
from changeover.testing import ScriptedModel, says

async def main(url):
    async with Team([Agent("solo")], model=ScriptedModel({"solo": [says(""), says("again")]}), store=url) as team:
        assert (await team.run("hello", conversation="c")).output == "again"

asyncio.run(main(sys.argv[1]))
print(*sys.modules)
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, shared_store, stdout=subprocess.PIPE)
    loaded = (await process.communicate())[0].decode().split()
    assert (process.returncode, "changeover.stores.sql.log" in loaded) == (0, True)
    assert not [name for name in loaded if name.partition(".")[0] == "alembic"]


def test_a_team_lives_in_one_event_loop_after_the_other(shared_store: str):
    team = Desk(shared_store, echo).team

    async def speak(text: str) -> str:
        return (await team.run(text, conversation="c")).output

    async def leave() -> str:
        result = await team.resume("c")
        await team.close()
        return result.output

    assert [asyncio.run(speak("one")), asyncio.run(speak("two"))] == ["you said one", "you said two"]
    assert asyncio.run(leave()) == "you said two"
    assert asyncio.run(speak("three")) == "you said three"  # a team that was closed opens again
    asyncio.run(team.close())


def test_a_run_that_is_under_way_when_its_loop_ends_is_resumed_in_the_next_loop(shared_store: str):
    desk = Desk(shared_store, slow=True)

    async def leave_it() -> None:
        said = asyncio.create_task(desk.team.run("look", conversation="c"))
        await until(lambda: bool(desk.begun))
        assert not said.done()

    async def take_it_up() -> str:
        desk.go_on = asyncio.Event()
        desk.go_on.set()
        result = await desk.team.resume("c")
        await desk.team.close()
        return result.output

    asyncio.run(leave_it())
    assert asyncio.run(take_it_up()) == "seen"
    assert len(desk.begun) == 2
    assert len({*desk.begun}) == 1
    assert len(desk.model.requests) == 2


async def test_resume_after_the_team_was_closed_opens_it_again(shared_store: str):
    desk = Desk(shared_store, slow=True)
    said = asyncio.create_task(desk.team.run("look", conversation="c"))
    await until(lambda: bool(desk.begun))
    await desk.team.close()
    with pytest.raises(EngineError, match="can be resumed"):
        await said
    desk.go_on.set()
    assert (await desk.team.resume("c")).output == "seen"
    await desk.team.close()


async def test_a_claim_of_a_conversation_that_has_just_ended_does_not_block_others(shared_store: str):
    here, log = Desk(shared_store, {"solo": [*LOOKS["solo"], says("second")]}, slow=True), open_log(Store(shared_store))
    claim, first = log.claim, asyncio.create_task(here.team.run("look", conversation="c"))

    async def claim_late(conversation: str) -> bool:
        here.go_on.set()
        await first
        return await claim(conversation)

    log.claim = claim_late  # type: ignore[method-assign]
    await until(lambda: bool(here.begun))
    there = here.team.on(log)
    try:
        assert (await there.resume("c")).output == "seen"
        async with asyncio.timeout(2):
            assert (await here.team.run("and now?", conversation="c")).output == "second"
    finally:
        await there.close()
        await here.team.close()
