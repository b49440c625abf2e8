"""Concurrent reads of logs share one query, and each reader gets its own log."""

import asyncio
from collections.abc import Sequence

import pytest

from changeover.errors import StoreUnavailable
from changeover.relay.projection.rows import Rows
from changeover.stores.sql.database import Call
from changeover.stores.sql.log import SqlLog
from changeover.stores.sql.reader import Together
from tests.stores.conftest import Opened
from tests.stores.entries import WORKING, more, opening


class Counting(Together):
    """Notes how many conversations each query is about."""

    def __init__(self, together: Together) -> None:
        super().__init__(together._reader, self._noted)
        self._plain, self.asked = together._call, list[int]()

    def _noted(self, ids: Sequence[str]) -> Call:
        self.asked.append(len(ids))
        return self._plain(ids)


@pytest.fixture
async def log(postgres: str, opened: Opened) -> SqlLog:
    """A log of three conversations, which are of different lengths."""
    log = opened(postgres)
    for number, id in enumerate("abc"):
        await log.append(opening(id), WORKING)
        for position in range(3, 3 + number):
            await log.append(more(position, conversation=id), WORKING)
    return log


@pytest.fixture
def counting(log: SqlLog) -> Counting:
    assert log._together is not None
    log._together = counting = Counting(log._together)
    return counting


async def test_each_gets_the_log_it_asked_for_by_one_query(log: SqlLog, counting: Counting):
    found = await asyncio.gather(*(log.read(id) for id in ("b", "none", "a", "c", "b")))
    assert [[entry.conversation for entry in entries] for entries in found] == [
        ["b", "b"],
        [],
        ["a"],
        ["c", "c", "c"],
        ["b", "b"],
    ]
    assert [entry.position for entry in found[3]] == [0, 3, 4]
    assert counting.asked == [4]


async def test_who_asks_later_is_told_what_was_written_meanwhile(log: SqlLog, counting: Counting):
    before = await log.read("a")
    await log.append(more(3, conversation="a"), WORKING, rows=Rows())  # else they are computed, which reads as well
    assert len(await log.read("a")) == len(before) + 1
    assert counting.asked == [1, 1]


async def test_one_who_does_not_want_it_any_more_takes_it_from_nobody(log: SqlLog):
    gone, stays, same = (asyncio.ensure_future(log.read(id)) for id in ("a", "b", "a"))
    await asyncio.sleep(0)
    gone.cancel()
    assert len(await stays) == 2
    assert len(await same) == 1
    assert gone.cancelled()


async def test_if_the_store_cannot_be_read_each_is_told_by_an_error_of_its_own(log: SqlLog, counting: Counting):
    counting._plain = lambda ids: ("SELECT nothing FROM nowhere", ())
    outcomes = await asyncio.gather(*(log.read(id) for id in "abc"), return_exceptions=True)
    assert {type(each) for each in outcomes} == {StoreUnavailable}
    assert len({id(each) for each in outcomes}) == 3


@pytest.mark.parametrize("odd", ["\ud800", "a\0b"])
async def test_a_name_that_cannot_be_written_harms_nobody_else(log: SqlLog, odd: str):
    outcomes = await asyncio.gather(log.read(odd), log.read("a"), return_exceptions=True)
    assert not isinstance(outcomes[1], BaseException)
    assert len(outcomes[1]) == 1
