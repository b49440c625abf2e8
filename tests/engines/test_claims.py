"""Claims of tickets, when something goes wrong in between."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from changeover import Agent, Function, RunContext, Team, Worker
from changeover.errors import (
    ClaimLost,
    EngineError,
    HandoffNotFound,
    HandoffTimeoutError,
    IllegalTransition,
    MisconfiguredError,
    StoreClosed,
    StoreDamaged,
    StoreUnavailable,
)
from changeover.facts import Mode
from changeover.protocol import Expectations, HandoffPackage, Metadata, State, Task
from changeover.relay.events import Entry, Unreadable
from changeover.stores.memory.log import MemoryLog
from changeover.stores.sql.dialects import sqlite as sqlite_store
from changeover.stores.store import Store
from changeover.testing import ScriptedModel, says
from tests.databases import postgres, shared_store, sqlite_file
from tests.stores.entries import query, until

__all__ = ["postgres", "shared_store", "sqlite_file"]


class SlowLog(MemoryLog):
    """A log that is read as soon as it is `there`."""

    def __init__(self) -> None:
        super().__init__()
        self.there = asyncio.Event()
        self.there.set()
        self.broken = ""
        """The conversation that cannot be read at all."""

    async def read(self, conversation: str, after: int = 0) -> list[Entry]:
        await self.there.wait()
        if conversation == self.broken:
            raise StoreUnavailable("the disk is torn")
        return await super().read(conversation, after)


def office(log: MemoryLog) -> Team:
    return Team([Agent("clerk")], model=ScriptedModel(lambda *_: says("Three.")), store=log)


async def submitted(log: MemoryLog, *conversations: str) -> None:
    """Leave work for the clerk, and go."""
    team = office(log)
    for conversation in conversations:
        about = Metadata(receiver="clerk", conversation=conversation)
        await team.submit(HandoffPackage(Task("count the parts"), metadata=about))
    await team.close()


async def from_the_future(log: MemoryLog, conversation: str) -> None:
    """A newer version says something in it."""
    position = sum(len(entry.events) for entry in await log.read(conversation))
    newer = Unreadable("thought_transferred", b'{"event":"thought_transferred"}')
    await log.append(Entry(conversation, conversation, position, "newer", 1.0, (newer,)), None)


async def standing(log: MemoryLog) -> list[tuple[str, int, str]]:
    return [(each.ticket.conversation, each.attempts, each.owner) for each in await log.queue.tickets()]


async def worn_out(log: MemoryLog) -> bool:
    return bool(await log.queue.lapsed(3))


async def test_whoever_stops_waiting_for_a_claim_holds_nothing():
    log = SlowLog()
    await submitted(log, "a", "b")
    log.there.clear()
    team = office(log)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(team.claim("clerk", limit=2), 0.05)
    assert await standing(log) == [("a", 0, ""), ("b", 0, "")]
    log.there.set()
    assert [claim.attempt for claim in await team.claim("clerk", limit=2)] == [1, 1]
    await team.close()


async def test_what_was_claimed_beside_something_that_cannot_be_read_is_held_by_nobody():
    log = SlowLog()
    await submitted(log, "a", "b")
    log.broken = "b"
    team = office(log)
    with pytest.raises(StoreUnavailable):
        await team.claim("clerk", limit=2)
    assert await standing(log) == [("a", 0, ""), ("b", 0, "")]
    assert [claim.ticket.conversation for claim in await team.claim("clerk")] == ["a"]
    await team.close()


async def test_what_only_a_newer_version_can_read_holds_up_nothing_else():
    log = MemoryLog()
    await submitted(log, "a", "b")
    await from_the_future(log, "a")
    team = office(log)
    assert [claim.ticket.conversation for claim in await team.claim("clerk", limit=2, lease=0.01)] == ["b"]
    await asyncio.sleep(0.02)
    assert await team.claim("clerk", lease=0.01) == []
    [claim] = await team.claim("clerk")
    assert claim.ticket.conversation == "b"
    await claim.complete("Three.")
    await team.close()


async def test_what_only_a_newer_version_can_read_ends_no_worker_and_is_not_put_before_a_person():
    log = MemoryLog()
    await submitted(log, "a")
    await from_the_future(log, "a")
    team = office(log)
    working = asyncio.ensure_future((worker := Worker(team, ["clerk"], lease=0.03)).run())
    await until(lambda: worn_out(log), 5)
    about = Metadata(receiver="clerk", conversation="b")
    ticket = await team.submit(HandoffPackage(Task("count the parts"), metadata=about))
    assert (await team.result(ticket, timeout=5)).result == "Three."
    worker.stop()
    await working
    assert await team.approvals() == []
    await team.close()


async def test_whoever_waits_for_a_result_is_told_when_the_store_is_closed(tmp_path: Path):
    team = Team(
        [Agent("clerk")], model=ScriptedModel(lambda *_: says("Three.")), store=f"sqlite:///{tmp_path}/store.db"
    )
    ticket = await team.submit(HandoffPackage(Task("count the parts"), metadata=Metadata(receiver="clerk")))
    waiting = [asyncio.ensure_future(team.result(ticket, timeout=timeout)) for timeout in (None, 60)]
    await asyncio.sleep(0.05)
    await team.close()
    for each in waiting:
        with pytest.raises(EngineError, match=f"closed while {ticket.id} was awaited; it goes on"):
            await each


@pytest.mark.parametrize(("name", "shown"), [("shelf#2", "shelf#2"), ("a\0b", "a\ufffdb"), ("half \ud83d", "half ?")])
async def test_a_worker_may_have_any_name(shared_store: str, name: str, shown: str):
    team = Team([Agent("clerk")], model=ScriptedModel(lambda *_: says("Three.")), store=shared_store)
    ticket = await team.submit(HandoffPackage(Task("count the parts"), metadata=Metadata(receiver="clerk")))
    [claim] = await team.claim("clerk", by=name)
    assert (await team.status(ticket)).owner == shown
    await claim.accept()
    await claim.heartbeat()
    await claim.complete("Three.")
    assert (await team.result(ticket, timeout=5)).result == "Three."
    await team.close()


def counter(store: str | Store) -> Team:
    async def count(ctx: RunContext) -> str:
        await asyncio.sleep(0.1)
        return "Three."

    return Team([Function("clerk", count)], model=ScriptedModel({}), store=store)


async def test_a_worker_goes_on_when_a_store_that_was_away_comes_back(
    sqlite_file: Path, monkeypatch: pytest.MonkeyPatch
):
    team = counter(Store(f"sqlite:///{sqlite_file}", lease=5.0))
    working = asyncio.ensure_future((worker := Worker(team, ["clerk"], lease=1.0)).run())
    before = await team.submit(HandoffPackage(Task("count the parts"), metadata=Metadata(receiver="clerk")))
    await asyncio.sleep(0.05)
    monkeypatch.setattr(sqlite_store, "PATIENCE", 0.1)
    with closing(sqlite3.connect(sqlite_file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        await asyncio.sleep(0.6)
        other.execute("ROLLBACK")
    monkeypatch.undo()
    after = await team.submit(HandoffPackage(Task("count the parts"), metadata=Metadata(receiver="clerk")))

    async def both_are_done() -> bool:
        return {(await team.status(ticket)).state for ticket in (before, after)} == {State.RETURNED}

    # By the store alone: a caller that waits for the result here may still hear that the store was away.
    await until(both_are_done, 20)
    assert [(await team.result(ticket, timeout=10)).result for ticket in (before, after)] == ["Three."] * 2
    worker.stop()
    await working
    await team.close()


async def test_a_worker_ends_with_a_store_that_is_closed(sqlite_file: Path):
    team = counter(f"sqlite:///{sqlite_file}")
    working = asyncio.ensure_future(Worker(team, ["clerk"], lease=0.3).run())
    await asyncio.sleep(0.05)
    await team.close()
    with pytest.raises(StoreClosed):
        await asyncio.wait_for(working, 5)


async def test_a_conversation_that_is_damaged_keeps_the_others_from_nothing(shared_store: str):
    store = Store(shared_store, lease=1.0)
    first = counter(store)
    damaged, sound = [
        await first.submit(
            HandoffPackage(Task("count"), metadata=Metadata(receiver="clerk", conversation=conversation))
        )
        for conversation in ("a", "b")
    ]
    under_way = [asyncio.ensure_future(first.run("count", conversation=conversation)) for conversation in ("c", "d")]
    await until(lambda: query(shared_store, "SELECT count(*) FROM tasks WHERE conversation IN ('c', 'd')") == [(2,)])
    await first.close()
    await asyncio.gather(*under_way, return_exceptions=True)
    these = "SELECT number FROM conversations WHERE id IN ('a', 'c')"
    query(shared_store, f"UPDATE entries SET body = '[{{' WHERE conversation IN ({these})")
    async with counter(store) as second:
        assert (await second.resume("d")).output == "Three."
        [claim] = await second.claim("clerk", limit=2)
        assert claim.ticket == sound
        await claim.complete("Three.")
        with pytest.raises(StoreDamaged):
            await second.status(damaged)


@pytest.mark.parametrize("stays", [True, False])
async def test_a_delegate_whose_worker_takes_too_long_is_called_back_by_whoever_keeps_watch(
    shared_store: str, stays: bool
):
    first, second = [counter(Store(shared_store, lease=0.6)) for _ in range(2)]
    async with first:
        about = Metadata(receiver="clerk", conversation="c")
        package = HandoffPackage(Task("count the parts"), metadata=about, expectations=Expectations(timeout=0.3))
        ticket = await first.submit(package)
        [claim] = await first.claim("clerk")
        await claim.accept()
        if stays:
            with pytest.raises(HandoffTimeoutError, match="not done in time"):
                await first.result(ticket, timeout=5)
            with pytest.raises(ClaimLost):
                await claim.complete("Three.")
    async with second:
        with pytest.raises(HandoffTimeoutError, match="not done in time"):
            await second.result(ticket, timeout=5)


@pytest.mark.parametrize("mode", ["transfer", "delegate"])
async def test_a_person_gives_a_ticket_that_was_not_accepted_to_another_agent(mode: str):
    clerks = [Agent("clerk", pull=True, handoffs=()), Agent("deputy", pull=True, handoffs=())]
    team = Team(clerks, model=ScriptedModel(lambda *_: says("Three.")), store=MemoryLog())
    about = Metadata(receiver="clerk", conversation="c", mode=Mode(mode))
    ticket = await team.submit(HandoffPackage(Task("count the parts"), metadata=about))
    [held] = await team.claim("clerk", by="somebody")
    await team.hand_on(ticket, "deputy", by="ana")
    [again] = [each.ticket for each in await team.log.queue.tickets()]
    assert again.agent == "deputy"
    with pytest.raises(ClaimLost):
        await held.accept()
    with pytest.raises(MisconfiguredError, match="has it or declined it"):
        await team.hand_on(again, "clerk")
    with pytest.raises(MisconfiguredError, match="no agent is called 'nobody'"):
        await team.hand_on(again, "nobody")
    with pytest.raises(HandoffNotFound):
        await team.hand_on(ticket, "deputy")
    [mine] = await team.claim("deputy")
    await mine.accept()
    with pytest.raises(IllegalTransition, match="WORKING"):
        await team.hand_on(again, "clerk")
    await mine.complete("Three.")
    result = await team.result(ticket, timeout=10)
    assert (result.agent, result.result) == ("deputy", "Three.")
    rejected = next(each for each in await team.handoffs("c") if each.receiver == "clerk")
    assert (rejected.state, rejected.error) == (State.REJECTED, "ana gives it to deputy")
    await team.close()


async def test_a_worker_is_seen_while_it_runs():
    team = office(MemoryLog())

    async def is_seen() -> bool:
        return bool(await team.log.workers.all())

    worker = Worker(team, ["clerk"], name="w")
    running = asyncio.ensure_future(worker.run())
    await until(is_seen)
    [found] = await team.log.workers.all()
    assert (found.name, found.agents, found.team) == ("w", ("clerk",), team.name)
    worker.stop()
    await running
    await team.close()
