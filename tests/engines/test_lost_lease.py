"""A process whose lease ran out while it performed something: it finds out which process goes on, and its callers too.

A busy machine, a slow disk or a pause of the process is enough for that."""

import asyncio

import pytest

from changeover import Agent, RunResult, Store, Team, tool
from changeover.stores.sql.log import SqlLog
from changeover.stores.store import open_log
from changeover.testing import ScriptedModel, calls, says
from tests.databases import postgres, shared_store, sqlite_file
from tests.engines.test_cancellation import Slow, in_time
from tests.stores.entries import query, until

__all__ = ["postgres", "shared_store", "sqlite_file"]

LEASE = 0.5
PLACES = ["model of lead", "tool of lead", "model of clerk", "tool of clerk"]


def lapse(store: str) -> None:
    """End all leases, as if no process had renewed its own in time."""
    query(store, "UPDATE processes SET until = 0")


async def resumed(store: str, team: Team) -> RunResult:
    """The result of a run that this team takes over, because its owner cannot keep a lease until then."""
    resuming = asyncio.create_task(team.resume("c"))
    owner = first = _owner(store)
    while owner == first and not resuming.done():
        query(store, f"UPDATE processes SET until = 0 WHERE id = '{first}'")
        await asyncio.sleep(0.01)
        owner = _owner(store)
    return await resuming


def _owner(store: str) -> str:
    """The process that owns the conversation."""
    [(owner,)] = query(store, "SELECT owner FROM conversations WHERE id = 'c'")
    return (owner or "").partition("/")[0]


class SlowOnce(Slow):
    """Only what is begun first does not end."""

    async def for_ever(self) -> str:
        return "late" if self.begun.is_set() else await super().for_ever()


async def begun(slow: Slow, team: Team) -> asyncio.Task[RunResult]:
    """A run that performs what does not end."""
    running = asyncio.create_task(team.run("go", conversation="c"))
    await asyncio.wait_for(slow.begun.wait(), 10)
    return running


@pytest.mark.parametrize("where", PLACES)
async def test_a_caller_learns_that_another_process_took_a_run_over_and_cancelled_it(shared_store: str, where: str):
    slow, store = Slow(), Store(shared_store, lease=LEASE)
    async with slow.team(store, where) as first, slow.team(store, where) as second:
        running = await begun(slow, first)
        lapse(shared_store)
        assert await in_time(lambda: second.cancel("c")) is True
        assert (await in_time(lambda: running)).status == "cancelled"


async def test_a_caller_learns_that_another_process_took_a_run_over_and_called_its_delegate_back(shared_store: str):
    slow, store = Slow(), Store(shared_store, lease=LEASE)
    async with slow.team(store, "model of clerk") as first, slow.team(store, "model of clerk") as second:
        running = await begun(slow, first)
        lapse(shared_store)
        assert await in_time(lambda: second.cancel("c:3.0")) is True
        result = await in_time(lambda: running)
        assert (result.status, '"error":"cancelled"' in result.output) == ("completed", True)


@pytest.mark.parametrize("where", PLACES)
async def test_a_caller_gets_the_result_of_another_process_though_an_effect_does_not_end_here(
    shared_store: str, where: str
):
    slow, store = SlowOnce(), Store(shared_store, lease=LEASE)
    async with slow.team(store, where) as first, slow.team(store, where) as second:
        running = await begun(slow, first)
        there = await in_time(lambda: resumed(shared_store, second))
        assert there.status == "completed"
        assert await in_time(lambda: running) == there


async def test_the_outcome_counts_if_no_other_process_took_over_meanwhile(shared_store: str):
    begun, going_on = asyncio.Event(), asyncio.Event()

    async def look() -> str:
        """Look."""
        begun.set()
        await going_on.wait()
        return "seen"

    async def owned() -> bool:
        return await log.holder("c") is not None

    model = ScriptedModel({"solo": [calls(("look", {})), says("Done.")]})
    log: SqlLog = open_log(Store(shared_store))
    async with Team([Agent("solo", tools=[look])], model=model, store=Store(shared_store, lease=LEASE)) as team:
        running = asyncio.create_task(team.run("go", conversation="c"))
        await asyncio.wait_for(begun.wait(), 10)
        lapse(shared_store)
        assert not await owned()
        await until(owned, 10)  # it owns the conversation again, under a new lease
        going_on.set()
        assert (await in_time(lambda: running)).output == "Done."
    assert len(model.requests) == 2
    await log.close()


async def test_a_caller_gets_the_result_of_another_process_while_a_tool_that_runs_at_most_once_goes_on_here(
    shared_store: str,
):
    slow, store = Slow(), Store(shared_store, lease=LEASE)

    @tool(at_most_once=True)
    async def pay() -> str:
        """Pay."""
        return await slow.for_ever()

    def team() -> Team:
        model = ScriptedModel({"solo": [calls(("pay", {})), says("I cannot tell.")]})
        return Team([Agent("solo", tools=[pay])], model=model, store=store)

    async with team() as first, team() as second:
        running = await begun(slow, first)
        there = await in_time(lambda: resumed(shared_store, second))
        assert (there.status, there.output) == ("completed", "I cannot tell.")
        assert await in_time(lambda: running) == there
