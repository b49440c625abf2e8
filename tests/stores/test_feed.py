"""The feed of a tree: the entries that are there, then new ones, from any process."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from changeover.relay.events import Entry
from changeover.relay.ports.log import Log
from changeover.stores.sql.log import SqlLog
from tests.databases import cut_connections
from tests.stores.entries import WORKING, child, delegate, more, opening, plan_of, until

Another = Callable[..., SqlLog]


async def take(feed: AsyncIterator[Entry], count: int) -> list[tuple[str, int]]:
    async with asyncio.timeout(5):
        return [(entry.conversation, entry.seq) for _ in range(count) for entry in [await anext(feed)]]


async def test_a_feed_begins_with_what_is_there_and_goes_on_with_what_comes(log: Log):
    await log.append(opening("r"), WORKING)
    await log.append(child("r/1", "r"), WORKING)
    feed = log.changes("r")
    assert await take(feed, 2) == [("r", 1), ("r/1", 4)]
    coming = asyncio.ensure_future(take(feed, 3))
    await asyncio.sleep(0.05)
    for entry in (more(3, "", "r"), opening("another"), child("r/1/1", "r", "r/1"), more(2, "", "r/1", "r")):
        await log.append(entry, WORKING)
    assert await coming == [("r", 6), ("r/1/1", 7), ("r/1", 9)]


async def test_a_feed_resumes_after_a_seq(log: Log):
    for entry in (opening("r"), child("r/1", "r"), more(3, "", "r"), more(4, "", "r")):
        await log.append(entry, WORKING)
    assert await take(log.changes("r", 5), 2) == [("r", 6), ("r", 7)]


@pytest.mark.parametrize("seq", range(11))
async def test_a_feed_that_resumes_inside_an_entry_begins_with_that_entry(log: Log, seq: int):
    entries = [opening("r"), child("r/1", "r"), more(3, "", "r"), child("r/2", "r"), delegate("r/3", "r")]
    for entry in entries:
        await log.append(entry, WORKING)
    expected = [(entry.conversation, entry.seq) for entry in entries if entry.seq + len(entry.events) - 1 > seq]
    feed = log.changes("r", seq)
    assert await take(feed, len(expected)) == expected
    await log.append(more(4, "", "r"), WORKING)
    assert await take(feed, 1) == [("r", 12)]


async def test_a_feed_that_resumes_beyond_the_end_misses_nothing_that_crosses_it(log: Log):
    await log.append(opening("r"), WORKING)
    coming = asyncio.ensure_future(take(log.changes("r", 5), 2))
    await asyncio.sleep(0.05)
    for entry in (more(3, "", "r"), delegate("r/1", "r"), more(4, "", "r")):
        await log.append(entry, WORKING)
    assert await coming == [("r/1", 5), ("r", 8)]


async def test_a_feed_may_begin_before_its_conversation(log: Log):
    coming = asyncio.ensure_future(take(log.changes("r"), 1))
    await asyncio.sleep(0.05)
    await log.append(opening("r"), WORKING)
    assert await coming == [("r", 1)]


async def test_what_another_process_records_arrives_quickly(another: Another):
    mine, theirs = another(), another()
    feed = mine.changes("r")
    coming = asyncio.ensure_future(take(feed, 1))
    await asyncio.sleep(0.2)
    await theirs.append(opening("r"), WORKING)
    async with asyncio.timeout(2):
        await coming


async def test_many_readers_each_hear_everything(another: Another):
    log, other = another(), another()
    readers = [asyncio.ensure_future(take(each.changes("r"), 21)) for each in (log, other) for _ in range(10)]
    await asyncio.sleep(0.1)
    await log.append(opening("r"), WORKING)
    for position in range(3, 23):
        await log.append(more(position, "", "r"), WORKING)
    heard = await asyncio.gather(*readers)
    assert all(each == [("r", 1), *(("r", position + 1) for position in range(3, 23))] for each in heard)


async def test_a_feed_ends_when_the_store_is_closed(another: Another):
    log = another()
    listening = asyncio.ensure_future(anext(log.changes("r"), None))
    await asyncio.sleep(0.1)
    await log.close()
    assert await asyncio.wait_for(listening, 10) is None


async def test_the_watch_ends_when_nobody_listens_and_begins_again(another: Another):
    log = another()
    for number in range(3):
        await log.append(opening(f"r{number}"), WORKING)
        feed = log.changes(f"r{number}")
        await take(feed, 1)
        await feed.aclose()  # type: ignore[attr-defined]
        await until(lambda: log._feed._thread is None)


async def test_a_feed_survives_the_loss_of_its_connection(postgres: str, opened):
    log, other = opened(postgres), opened(postgres)
    coming = asyncio.ensure_future(take(log.changes("r"), 1))
    await asyncio.sleep(0.2)
    cut_connections(postgres)
    await other.append(opening("r"), WORKING)
    assert await coming == [("r", 1)]


@pytest.mark.parametrize("count", [10, 1_000])
async def test_finding_what_is_new_does_not_read_what_is_old(sqlite_file, opened, count: int):
    log = opened(f"sqlite:///{sqlite_file}")
    await log.append(opening("r"), WORKING)
    for position in range(3, count):
        await log.append(more(position, "", "r"), WORKING)
    feed = log._sql.feed
    for call in (feed.news(root=1, seq=count, position=count), feed.rest(root=1, seq=count)):
        plan = plan_of(sqlite_file, call)
        assert "SCAN" not in plan, plan
