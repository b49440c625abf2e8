"""Processes that knew a removed conversation never mistake a new one for it."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from changeover.errors import Conflict, ConversationNotFound, EngineError, UnderWay
from changeover.relay.events import Entry, ModelReplied, RunCompleted, RunStarted, UserSpoke
from changeover.relay.ports.log import Log
from changeover.stores.sql.log import SqlLog
from tests.stores.conftest import Opened
from tests.stores.connection_loss import losing_once
from tests.stores.conversations import lived
from tests.stores.entries import DONE, WORKING, child, more, opening, query, rows, stored

Another = Callable[..., SqlLog]

ENDED = (ModelReplied("front", 2, "Done."), RunCompleted(1))
AGAIN = Entry("c", "c", 3, "again", 2.0, (*ENDED, UserSpoke("hello"), RunStarted(5, "front")))
"""The run ends, and the next one begins."""


async def test_whoever_remembers_it_in_the_same_process_begins_from_nothing(another: Another, shared_store: str):
    log = another()
    await log.append(opening("c", "hello", context={"old": 1}), DONE)
    await log.forget("c")
    with pytest.raises(Conflict):
        await log.append(more(3), DONE)
    await log.append(opening("c", "hello", context={"new": 1}), DONE)
    await log.append(AGAIN, DONE)
    assert rows(shared_store, "tasks", "context", "position") == [('{"new":1}', 2), ('{"new":1}', 6)]


async def test_another_process_that_remembers_it_does_not_take_its_successor_for_it(
    another: Another, shared_store: str
):
    mine, theirs = another(), another()
    await mine.append(opening("c", "hello", context={"old": 1}), DONE)
    assert await theirs.forget("c") is True
    await theirs.append(opening("c", "hello", context={"new": 1}), DONE)
    await mine.append(AGAIN, DONE)
    assert rows(shared_store, "tasks", "context", "position") == [('{"new":1}', 2), ('{"new":1}', 6)]
    assert await stored(mine) == [(0, "said@1", 1), (3, "again", 4)]


async def test_another_process_that_remembers_it_finds_that_it_is_gone(another: Another):
    mine, theirs = another(), another()
    await mine.append(opening(), DONE)
    await mine.append(child("c/1", "c"), DONE)
    await theirs.forget("c")
    for stale in (more(3), more(2, "", "c/1", "c")):
        with pytest.raises(Conflict):
            await mine.append(stale, DONE)
    assert await mine.claim("c") is True
    assert await mine.read("c") == []
    await mine.append(opening(), WORKING)
    assert await stored(theirs) == [(0, "said@1", 1)]


async def test_no_other_conversation_gets_its_number(another: Another, shared_store: str):
    given = []
    logs = [another(), another()]
    for turn in range(6):
        id = f"c{turn}"
        await logs[turn % 2].append(opening(id), DONE)
        [(number,)] = query(shared_store, f"SELECT number FROM conversations WHERE id = '{id}'")
        given.append(number)
        if turn != 2:
            await logs[turn // 2 % 2].forget(id)
    assert len(set(given)) == 6
    assert await logs[0].forget("c2") is True
    await another().append(opening("last"), DONE)
    [(number,)] = query(shared_store, "SELECT number FROM conversations")
    assert number not in given
    assert query(shared_store, "SELECT count(*) FROM forgotten")[0][0] <= 1


async def heard(feed: AsyncIterator[Entry]) -> tuple[list[tuple[str, int]], str]:
    """What is heard of a conversation until it is forgotten, and what is said then."""
    told: list[tuple[str, int]] = []
    try:
        async for entry in feed:
            told.append((entry.conversation, entry.seq))
    except EngineError as error:
        return told, str(error)
    return told, "the feed ended"


async def test_who_follows_it_is_told_that_it_is_gone(log: Log):
    following = asyncio.ensure_future(heard(log.changes("c")))
    await asyncio.sleep(0.05)
    await lived(log, "c")
    await asyncio.sleep(0.2)
    await log.forget("c")
    await log.append(opening(), WORKING)
    async with asyncio.timeout(5):
        told, why = await following
    assert told[0] == ("c", 1)
    assert len(told) == 13
    assert why == "the conversation 'c' was forgotten"


async def test_who_follows_it_in_another_process_is_told_soon(another: Another):
    mine, theirs = another(), another()
    await mine.append(opening(), DONE)
    followings = [asyncio.ensure_future(heard(theirs.changes("c", seq))) for seq in (0, 2, 3, 9)]
    await asyncio.sleep(0.3)
    await mine.forget("c")
    async with asyncio.timeout(2):
        told = await asyncio.gather(*followings)
    assert told == [(each, "the conversation 'c' was forgotten") for each in ([("c", 1)], [("c", 1)], [], [])]


async def test_who_follows_its_id_afterwards_hears_of_its_successor_only(log: Log):
    await lived(log, "c")
    await log.forget("c")
    following = asyncio.ensure_future(anext(log.changes("c")))
    await asyncio.sleep(0.05)
    await log.append(opening("c", "hello again"), DONE)
    async with asyncio.timeout(5):
        entry = await following
    assert (entry.seq, entry.events[1].text) == (1, "hello again")  # type: ignore[union-attr]


async def test_either_it_goes_on_or_it_is_forgotten(another: Another, shared_store: str):
    logs = [another(), another(), another()]
    forgotten = 0
    for turn in range(30):
        id = f"c{turn}"
        await logs[0].append(opening(id), DONE)
        *others, gone = await asyncio.gather(
            logs[0].append(more(3, "", id), WORKING),
            logs[1].append(child(f"{id}/1", id), WORKING),
            logs[2].forget(id),
            return_exceptions=True,
        )
        left = [cause for _, cause, _ in await stored(logs[0], id)], await stored(logs[0], f"{id}/1")
        if gone is True:
            assert [type(each) for each in others] == [Conflict, ConversationNotFound]
            assert left == ([], [])
        else:
            assert isinstance(gone, UnderWay)
            assert None in others
            assert "said@1" in left[0]
        forgotten += gone is True
    tasks = rows(shared_store, "tasks", "conversation")
    assert len(tasks) == 30 - forgotten


async def test_of_several_who_forget_it_at_once_one_does(another: Another):
    logs = [another(), another(), another()]
    for turn in range(5):
        await lived(logs[turn % 3], f"c{turn}")
        assert sorted(await asyncio.gather(*(log.forget(f"c{turn}") for log in logs))) == [False, False, True]


async def test_a_commit_of_which_nobody_heard_is_not_taken_for_a_conversation_that_never_was(
    postgres: str, opened: Opened
):
    log = opened(postgres)
    await log.append(opening(), DONE)
    lost = losing_once(log)
    assert await log.forget("c") is True
    assert lost, "nothing was lost, so nothing is shown"


async def test_a_successor_is_not_forgotten_because_nobody_heard_of_a_commit(postgres: str, opened: Opened):
    log, other = opened(postgres), opened(postgres)
    await log.append(opening(), DONE)
    await other.append(opening("other"), DONE)
    losing_once(log)
    reconnect = log._writer._reconnect

    def reconnect_late(why: Exception) -> bool:
        begun = asyncio.run_coroutine_threadsafe(other.append(opening("c", "the next"), DONE), loop)
        begun.result(5)
        return reconnect(why)

    loop = asyncio.get_running_loop()
    log._writer._reconnect = reconnect_late  # type: ignore[method-assign]
    assert await log.forget("c") is True
    assert await stored(log) == [(0, "said@1", 1)]
