"""Conversations that rest until a person decides or a deadline comes."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from changeover.errors import Owned
from changeover.relay.events import Entry, ModelReplied, RunCompleted
from changeover.relay.ports.lists import ConversationRow, TaskRow
from changeover.relay.ports.log import Head, Log
from changeover.stores.sql.log import SqlLog
from tests.stores.conftest import Opened
from tests.stores.entries import DONE, LEFT, WAITING, WORKING, delegate, more, opening, plan_of, query, until

Another = Callable[..., SqlLog]

PAST, FUTURE = time.time() - 1, time.time() + 3600


def waiting(due: float | None, working: bool = False) -> Head:
    return Head("waiting", "front", working, due)


def standing(store: str, conversation: str = "c") -> tuple[str, bool]:
    """How a conversation stands, and whether somebody owns it."""
    found = query(store, f"SELECT status, owner IS NOT NULL FROM conversations WHERE id = '{conversation}'")
    return found[0][0], bool(found[0][1])


def due(store: str) -> float | None:
    [(found,)] = query(store, "SELECT due FROM conversations")
    return None if found is None else float(found)


async def test_what_is_due_is_unfinished_and_what_is_not_yet_is_not(another: Another):
    log = another()
    for conversation, head in {"past": waiting(PAST), "future": waiting(FUTURE), "never": waiting(None)}.items():
        await log.append(opening(conversation), head)
    assert await log.unfinished() == ["past"]


async def test_what_becomes_due_by_the_clock_of_the_database_is_unfinished_then(another: Another):
    log = another()

    async def is_unfinished() -> bool:
        return await log.unfinished() == ["c"]

    await log.append(opening(), waiting(time.time() + 0.4))
    assert not await is_unfinished()
    await until(is_unfinished, 10.0)


async def test_of_a_child_that_is_due_or_left_the_root_is_unfinished_too(another: Another):
    log = another()
    for root in ("b", "a"):
        await log.append(opening(root), DONE)
    await log.append(delegate("b/1", "b"), waiting(PAST))
    await log.append(delegate("b/2", "b"), LEFT)
    await log.append(delegate("a/1", "a"), LEFT)
    await log.append(delegate("a/1/1", "a"), waiting(FUTURE))
    assert await log.unfinished() == ["a", "a/1", "b", "b/2"]


async def test_a_root_still_waits_when_its_delegate_has_ended_and_has_to_be_taken_up(log: Log):
    await log.append(opening(), WAITING)
    await log.append(delegate("c/3.0", "c"), LEFT)
    ended = (ModelReplied("billing", 2, "Found."), RunCompleted(1))
    await log.append(Entry("c/3.0", "c", 3, "2", 4.0, ended), DONE)
    assert await log.unfinished() == ["c"]
    conversations = {row.id: row.status for row in await log.lists.listed(ConversationRow)}
    assert conversations == {"c": "waiting", "c/3.0": "completed"}
    assert {row.id: row.status for row in await log.lists.listed(TaskRow)} == {"c#2": "waiting", "c/3.0#2": "completed"}


async def test_what_is_due_belongs_to_whoever_works_on_it(another: Another, shared_store: str):
    mine, theirs = another(), another()
    await mine.append(opening(), Head("running", "front", True, PAST))
    assert await theirs.unfinished() == []
    query(shared_store, "UPDATE processes SET until = 0")
    assert await theirs.unfinished() == ["c"]


async def test_an_outcome_says_anew_what_is_due_and_an_input_says_nothing(another: Another, shared_store: str):
    log = another()
    await log.append(opening(), waiting(FUTURE))
    assert due(shared_store) == FUTURE
    await log.append(more(3), None)
    assert due(shared_store) == FUTURE
    await log.append(more(4), waiting(FUTURE + 1))
    assert due(shared_store) == FUTURE + 1
    await log.append(more(5), WAITING)
    assert due(shared_store) is None


async def test_a_due_that_alone_has_changed_is_written(another: Another, shared_store: str):
    log = another()
    for position, when in enumerate((None, 5.0, 6.0, None), start=2):
        await log.append(opening() if position == 2 else more(position), Head("running", "front", True, when))
        assert due(shared_store) == when


async def test_finding_what_is_unfinished_reads_only_what_runs_or_is_due(opened: Opened, sqlite_file: Path):
    log = opened(f"sqlite:///{sqlite_file}")
    plan = plan_of(sqlite_file, log._sql.log.unfinished(team="default"))
    assert "conversations_running" in plan
    assert "USING INDEX conversations_due (due<?)" in plan
    assert "SCAN conversations" not in plan.replace("SCAN conversations USING INDEX conversations_running", "")
    assert "conversations_running (owner=?)" in plan_of(sqlite_file, log._sql.log.owned(me="me"))


async def test_what_waits_is_nobodys_and_can_be_claimed_by_one(another: Another, shared_store: str):
    logs = [another() for _ in range(3)]
    await logs[0].append(opening(), waiting(PAST))
    assert standing(shared_store) == ("waiting", False)
    assert sorted(await asyncio.gather(*(log.claim("c") for log in logs))) == [False, False, True]
    assert standing(shared_store) == ("running", True)
    assert await logs[0].unfinished() == []


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
async def test_what_has_ended_is_not_owned_by_whoever_claims_it(another: Another, shared_store: str, status: str):
    log = another()
    await log.append(opening(), DONE)
    query(shared_store, f"UPDATE conversations SET status = '{status}'")
    assert await log.claim("c")
    assert standing(shared_store) == (status, False)


async def test_an_input_to_what_waits_has_to_be_taken_up(another: Another, shared_store: str):
    mine, theirs = another(), another()
    await mine.append(opening(), WAITING)
    await theirs.append(more(3), None)
    assert standing(shared_store) == ("running", False)
    assert await mine.unfinished() == ["c"]


async def test_what_is_released_waits_and_keeps_its_time(another: Another, shared_store: str):
    mine, theirs = another(), another()
    await mine.append(opening(), Head("running", "front", True, FUTURE))
    await mine.release("c", 3)
    assert (standing(shared_store), due(shared_store)) == (("waiting", False), FUTURE)
    assert await mine.unfinished() == []
    await theirs.append(more(3), WORKING)
    with pytest.raises(Owned):
        await mine.append(more(4), WORKING)


async def test_what_others_left_word_in_is_not_released_unheard(another: Another, shared_store: str):
    mine, theirs = another(), another()
    await mine.append(opening(), WORKING)
    await theirs.append(more(3), None)
    await mine.release("c", 3)
    assert (standing(shared_store), await mine.owned()) == (("running", True), {"c": 4})


async def test_what_somebody_else_owns_cannot_be_released(another: Another, shared_store: str):
    mine, theirs = another(), another()
    await mine.append(opening(), WORKING)
    await theirs.release("c", 3)
    await theirs.release("nobody", 0)
    assert standing(shared_store) == ("running", True)
    assert await mine.owned() == {"c": 3}


@pytest.mark.parametrize("head", [DONE, LEFT])
async def test_what_nobody_works_on_is_not_changed_by_a_release(another: Another, shared_store: str, head: Head):
    log = another()
    await log.append(opening(), head)
    await log.release("c", 3)
    assert standing(shared_store) == (head.status, False)


async def test_who_lost_the_lease_has_nothing_to_release(another: Another, shared_store: str):
    log = another()
    await log.append(opening(), WORKING)
    query(shared_store, "DELETE FROM processes")
    await log.release("c", 3)
    assert standing(shared_store)[0] == "running"
    assert await log.unfinished() == ["c"]


async def test_a_process_knows_what_it_owns_and_how_far_others_have_left_word(another: Another):
    mine, theirs = another(), another()
    assert await mine.owned() == {}
    await mine.append(opening("a"), WORKING)
    await mine.append(opening("b"), WORKING)
    await mine.append(delegate("a/1", "a"), WORKING)
    await mine.append(opening("done"), DONE)
    await mine.append(opening("waits"), WAITING)
    await theirs.append(opening("theirs"), WORKING)
    await theirs.append(more(3, "", "b"), None)
    assert await mine.owned() == {"a": 3, "a/1": 3, "b": 4}
    assert await theirs.owned() == {"theirs": 3}


async def test_what_was_owned_under_an_earlier_lease_is_owned_no_more(another: Another, shared_store: str):
    log = another()
    await log.append(opening("old"), WORKING)
    query(shared_store, "DELETE FROM processes")
    assert await log.claim("new")
    await log.append(opening("new"), WORKING)
    assert await log.owned() == {"new": 3}


async def test_nobody_owns_what_lies_in_memory(log: Log):
    await log.append(opening(), LEFT)
    assert await log.owned() == {}
