"""Leases: a process that does not renew its own may neither write nor begin anything."""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from changeover.errors import LeaseLost, Owned
from changeover.stores.sql.log import SqlLog
from tests.stores.entries import WORKING, more, opening, query, stored, until

Another = Callable[..., SqlLog]


@contextmanager
def nobody_can_renew(store: str) -> Iterator[None]:
    """As if this process stood still, or could not reach the store."""
    if store.startswith("sqlite"):
        connection = sqlite3.connect(store.removeprefix("sqlite:///"), isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.rollback()
        connection.close()
    else:
        with psycopg.connect(store) as other:
            other.execute("LOCK TABLE processes IN ACCESS EXCLUSIVE MODE")
            yield


async def test_a_store_that_was_only_read_has_no_lease_and_may_begin(another: Another, shared_store: str):
    log = another()
    await log.read("c")
    assert log.may_begin()
    assert query(shared_store, "SELECT count(*) FROM processes") == [(0,)]


async def test_a_lease_is_renewed_while_nothing_happens(another: Another):
    mine, theirs = another(0.3), another()
    await mine.append(opening(), WORKING)
    await asyncio.sleep(1.0)
    assert (mine.may_begin(), mine.epoch) == (True, 1)
    with pytest.raises(Owned):
        await theirs.append(more(3), WORKING)


async def test_once_the_lease_has_run_out_nothing_may_begin_until_a_new_one_is_taken(
    another: Another, shared_store: str
):
    log = another(0.3)
    await log.append(opening(), WORKING)
    assert log.may_begin()
    with nobody_can_renew(shared_store):
        await until(lambda: not log.may_begin(), 1.0)
        assert log.epoch == 1
    await until(log.may_begin)
    assert log.epoch == 2


async def test_who_lost_the_lease_owns_nothing_and_can_take_it_up_again(another: Another, shared_store: str):
    mine, theirs = another(0.3), another()
    await mine.append(opening(), WORKING)
    with nobody_can_renew(shared_store):
        await asyncio.sleep(0.5)
    await until(mine.may_begin)
    assert await theirs.unfinished() == ["c"]
    await mine.append(more(3), WORKING)
    assert await theirs.unfinished() == []


async def test_what_was_waiting_when_the_lease_ran_out_is_not_written(another: Another, shared_store: str):
    log = another(0.3)
    await log.append(opening(), WORKING)
    with nobody_can_renew(shared_store):
        await asyncio.sleep(0.2)
        waiting = asyncio.ensure_future(log.append(more(3), WORKING))
        await asyncio.sleep(0.4)
    with pytest.raises(LeaseLost):
        await waiting
    assert await stored(log) == [(0, "said@1", 1)]


async def test_whoever_waits_for_the_database_until_the_lease_has_run_out_writes_nothing(
    another: Another, shared_store: str
):
    log = another(0.9)
    await log.append(opening(), WORKING)
    with nobody_can_renew(shared_store):
        # At once: the lease need not be renewed yet, so this alone is what the writer waits with.
        waiting = asyncio.ensure_future(log.append(more(3), WORKING))
        await asyncio.sleep(1.2)
    with pytest.raises(LeaseLost):
        await waiting
    assert await stored(log) == [(0, "said@1", 1)]


async def test_a_removed_process_cannot_append_even_if_it_thinks_its_lease_holds(another: Another, shared_store: str):
    log = another()
    await log.append(opening(), WORKING)
    query(shared_store, "DELETE FROM processes")
    with pytest.raises(LeaseLost):
        await log.append(more(3), WORKING)
    await until(lambda: log.epoch == 2)
    assert log.may_begin()
    await log.append(more(3), WORKING)


async def test_a_claim_outlives_the_loss_of_the_lease(another: Another, shared_store: str):
    log = another()
    await log.append(opening(), WORKING)
    query(shared_store, "DELETE FROM processes")
    assert await log.claim("c")
    assert log.epoch == 2


async def test_the_lease_is_measured_by_the_clock_of_the_database(another: Another, shared_store: str):
    await another(5.0).append(opening(), WORKING)
    [(until_,)] = query(shared_store, "SELECT until FROM processes")
    assert 3.0 < until_ - time.time() < 6.0
