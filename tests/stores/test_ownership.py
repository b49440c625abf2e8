"""Several processes on one store: who works on what, and who takes over from whom."""

import asyncio
import socket
from collections.abc import Callable

import pytest

from changeover.errors import Conflict, ConversationNotFound, LeaseLost, Owned
from changeover.stores.sql.log import SqlLog
from tests.stores.entries import DONE, LEFT, WORKING, child, more, opening, query, stored

Another = Callable[..., SqlLog]


def let_all_leases_run_out(store: str) -> None:
    query(store, "UPDATE processes SET until = 0")


async def test_whoever_works_on_a_conversation_owns_it(another: Another):
    mine, theirs = another(), another()
    await mine.append(opening(), WORKING)
    with pytest.raises(Owned) as caught:
        await theirs.append(more(3), WORKING)
    assert caught.value.conversation == "c"
    assert caught.value.owner.startswith(socket.gethostname())
    assert await stored(theirs) == [(0, "said@1", 1)]
    await mine.append(more(3), WORKING)


async def test_somebody_who_is_too_late_hears_of_the_conflict_first(another: Another):
    mine, theirs = another(), another()
    await mine.append(opening(), WORKING)
    with pytest.raises(Conflict):
        await theirs.append(more(2), WORKING)


@pytest.mark.parametrize("head", [LEFT, DONE])
async def test_whoever_stops_working_leaves_the_conversation_to_anybody(another: Another, head):
    mine, theirs = another(), another()
    await mine.append(opening(), head)
    await theirs.append(more(3), WORKING)
    with pytest.raises(Owned):
        await mine.append(more(4), WORKING)


async def test_an_input_needs_no_ownership_and_changes_none(another: Another, shared_store: str):
    mine, theirs = another(), another()
    await mine.append(opening(), WORKING)
    before = query(shared_store, "SELECT status, agent, owner FROM conversations")
    await theirs.append(more(3), None)
    assert query(shared_store, "SELECT status, agent, owner FROM conversations") == before
    with pytest.raises(Conflict):
        await mine.append(more(3, "late"), WORKING)
    await mine.append(more(4), WORKING)
    with pytest.raises(Conflict):
        await theirs.append(more(4), None)


async def test_an_input_that_begins_a_conversation_is_left_for_whoever_comes(another: Another):
    log = another()
    await log.append(opening(), None)
    assert await log.unfinished() == ["c"]


async def test_only_roots_that_nobody_alive_works_on_are_unfinished(another: Another, shared_store: str):
    mine, theirs = another(), another()
    await mine.append(opening("mine"), WORKING)
    await mine.append(child("mine/1", "mine"), WORKING)
    await theirs.append(opening("theirs"), WORKING)
    await theirs.append(opening("left"), LEFT)
    await theirs.append(opening("done"), DONE)
    assert await mine.unfinished() == await theirs.unfinished() == ["left"]
    let_all_leases_run_out(shared_store)
    assert await mine.unfinished() == ["left", "mine", "mine/1", "theirs"]


async def test_a_conversation_of_a_live_process_cannot_be_claimed(another: Another):
    mine, theirs = another(), another()
    await mine.append(opening(), WORKING)
    assert not await theirs.claim("c")
    assert await mine.claim("c")


async def test_what_was_left_can_be_claimed_by_one(another: Another):
    logs = [another() for _ in range(4)]
    await logs[0].append(opening(), LEFT)
    assert sorted(await asyncio.gather(*(log.claim("c") for log in logs))) == [False, False, False, True]


async def test_what_nobody_has_begun_can_be_begun(another: Another):
    assert await another().claim("new")


async def test_the_conversations_of_a_dead_process_are_taken_over(another: Another, shared_store: str):
    dead, mine = another(), another()
    await dead.append(opening(), WORKING)
    let_all_leases_run_out(shared_store)
    assert await mine.claim("c")
    await mine.append(more(3), WORKING)
    with pytest.raises(LeaseLost):
        await dead.append(more(4), WORKING)
    assert [row[0] for row in query(shared_store, "SELECT DISTINCT owner FROM conversations")] == [mine._lease.owner]


async def test_whoever_takes_over_by_appending_owns_it_too(another: Another, shared_store: str):
    dead, mine, third = another(), another(), another()
    await dead.append(opening(), WORKING)
    await mine.append(opening("x"), WORKING)
    query(
        shared_store,
        "UPDATE processes SET until = 0 WHERE id || '/1' = (SELECT owner FROM conversations WHERE id = 'c')",
    )
    await mine.append(more(3), WORKING)
    assert not await third.claim("c")


async def test_claiming_removes_the_rows_of_dead_processes(another: Another, shared_store: str):
    dead, mine = another(), another()
    await dead.append(opening(), WORKING)
    await mine.append(opening("m"), WORKING)
    query(shared_store, f"UPDATE processes SET until = 0 WHERE id <> '{mine._lease.owner.partition('/')[0]}'")
    assert await mine.claim("c")
    assert query(shared_store, "SELECT count(*) FROM processes") == [(1,)]


async def test_whoever_closes_leaves_everything_to_others(another: Another, shared_store: str):
    mine, theirs = another(), another()
    await asyncio.gather(*(mine.append(opening(f"c{number}"), WORKING) for number in range(20)))
    await mine.close()
    assert query(shared_store, "SELECT count(*) FROM conversations WHERE owner IS NOT NULL") == [(0,)]
    assert query(shared_store, "SELECT count(*) FROM processes") == [(0,)]
    assert len(await theirs.unfinished()) == 20


async def test_a_child_of_a_root_that_does_not_exist_is_refused_alone(another: Another):
    log = another()
    good = [log.append(opening(f"c{number}"), WORKING) for number in range(5)]
    outcomes = await asyncio.gather(*good, log.append(child("x/1", "x"), WORKING), return_exceptions=True)
    assert outcomes[:5] == [None] * 5
    assert isinstance(outcomes[5], ConversationNotFound)
    assert await log.read("x/1") == []
