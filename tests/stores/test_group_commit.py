"""Many appends at once share a transaction; who waits where does not matter."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from changeover.errors import StoreUnavailable
from changeover.stores.sql.log import SqlLog
from tests.stores.entries import WORKING, more, opening, stored

Another = Callable[..., SqlLog]


async def test_a_hundred_appends_at_once_take_few_transactions(another: Another):
    log = another()
    await log.append(opening("first"), WORKING)
    before = log.commits
    await asyncio.gather(*(log.append(opening(f"c{number}"), WORKING) for number in range(100)))
    assert log.commits - before <= 5


async def test_appends_to_one_conversation_are_written_in_the_order_they_were_made(another: Another):
    log = another()
    await asyncio.gather(log.append(opening(), WORKING), *(log.append(more(p), WORKING) for p in range(3, 13)))
    assert [position for position, _, _ in await stored(log)] == [0, *range(3, 13)]


async def test_two_processes_that_begin_the_same_conversations_do_not_wait_for_each_other_in_vain(
    another: Another, deadlocks: list[Exception]
):
    logs = [another(), another()]
    await asyncio.gather(*(log.append(opening(f"first {number}"), WORKING) for number, log in enumerate(logs)))
    ids = [f"c{number:03}" for number in range(300)]
    mine = [logs[0].append(opening(id), WORKING) for id in ids]
    theirs = [logs[1].append(opening(id), WORKING) for id in reversed(ids)]
    outcomes = await asyncio.gather(*mine, *theirs, return_exceptions=True)
    assert sum(outcome is None for outcome in outcomes) == 300
    assert deadlocks == []


async def test_several_loops_can_use_one_store(another: Another):
    log = another()
    failed: list[BaseException] = []

    def elsewhere(number: int) -> None:
        try:
            asyncio.run(_talk(log, f"c{number}"))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=elsewhere, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    await _talk(log, "here")
    await asyncio.gather(*(asyncio.to_thread(thread.join) for thread in threads))
    assert failed == []
    for conversation in ("here", "c0", "c1", "c2", "c3"):
        assert len(await log.read(conversation)) == 21


async def test_an_append_whose_caller_was_cancelled_is_still_written(another: Another):
    log = another()
    task = asyncio.ensure_future(log.append(opening(), WORKING))
    await asyncio.sleep(0)
    task.cancel()
    await log.append(opening("other"), WORKING)
    assert len(await log.read("c")) == 1


async def test_closing_writes_what_is_still_waiting(another: Another):
    log, reader = another(), another()
    waiting = [asyncio.ensure_future(log.append(opening(f"c{number}"), WORKING)) for number in range(200)]
    await asyncio.sleep(0)
    await log.close()
    await asyncio.gather(*waiting)
    assert len(await reader.unfinished()) == 200


async def test_a_closed_store_says_so(another: Another):
    log = another()
    await log.close()
    await log.close()
    with pytest.raises(StoreUnavailable, match="is closed"):
        await log.append(opening(), WORKING)
    with pytest.raises(StoreUnavailable, match="is closed"):
        await log.read("c")


async def test_whoever_comes_after_the_end_from_elsewhere_does_not_wait_for_ever(another: Another):
    log = another()
    await log.append(opening(), WORKING)
    await log.close()
    log._store.closed = False  # as another loop saw it just before
    async with asyncio.timeout(2):
        with pytest.raises(StoreUnavailable, match="is closed"):
            await log.append(more(3), WORKING)
    log._store.closed = True


async def _talk(log: SqlLog, conversation: str) -> None:
    await log.append(opening(conversation), WORKING)
    for position in range(3, 23):
        await log.append(more(position, "", conversation), WORKING)
