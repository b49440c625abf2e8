"""Leases: a process that does not renew its own may neither write nor begin anything."""

import asyncio
import os
import socket
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


LEASES = "SELECT max(until) FROM processes"


@contextmanager
def no_lease_can_be_renewed(store: str) -> Iterator[Callable[[], bool]]:
    """Lock the store, as if this process stood still or could not reach it.

    The answer tells whether every stored lease has run out. The local lease ends sooner: by as much as it took to
    renew it, which on a busy machine is long.
    """
    if store.startswith("sqlite"):
        connection = sqlite3.connect(store.removeprefix("sqlite:///"), isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        yield lambda: bool(connection.execute(LEASES).fetchone()[0] < time.time())
        connection.rollback()
        connection.close()
    else:
        with psycopg.connect(store) as other:
            other.execute("LOCK TABLE processes IN ACCESS EXCLUSIVE MODE")
            yield lambda: bool(other.execute(LEASES).fetchall()[0][0] < time.time())


async def test_a_store_that_was_only_read_has_no_lease_and_may_begin(another: Another, shared_store: str):
    log = another()
    await log.read("c")
    assert log.may_begin()
    assert query(shared_store, "SELECT count(*) FROM processes") == [(0,)]


LEASE = 1.5
"""Seconds: long enough for a busy machine to renew it in time, and to append before it has run out."""


async def test_a_lease_is_renewed_while_nothing_happens(another: Another, shared_store: str):
    mine, theirs = another(LEASE), another()
    await mine.append(opening(), WORKING)
    [(first,)] = query(shared_store, "SELECT until FROM processes")
    # Renewed after the time at which the first lease would have run out.
    await until(lambda: query(shared_store, "SELECT until FROM processes")[0][0] > first + LEASE, 5 * LEASE)
    assert (mine.may_begin(), mine.epoch) == (True, 1)
    with pytest.raises(Owned):
        await theirs.append(more(3), WORKING)


async def test_another_process_sees_who_holds_a_conversation_and_for_how_long(another: Another):
    mine, theirs = another(LEASE), another()
    assert await theirs.holder("c") is None
    await mine.append(opening(), WORKING)
    held = await theirs.holder("c")
    assert held is not None
    host, pid, seconds = held
    assert (host, pid) == (socket.gethostname(), os.getpid())
    assert 0 < seconds <= LEASE
    await mine.close()
    assert await theirs.holder("c") is None


async def test_once_the_lease_has_run_out_nothing_may_begin_until_a_new_one_is_taken(
    another: Another, shared_store: str
):
    log = another(LEASE)
    await log.append(opening(), WORKING)
    assert log.may_begin()
    with no_lease_can_be_renewed(shared_store) as all_have_run_out:
        await until(lambda: not log.may_begin(), 5 * LEASE)
        await until(all_have_run_out)
        assert log.epoch == 1
    await until(log.may_begin)
    assert log.epoch == 2


async def test_a_process_that_lost_its_lease_owns_nothing_and_can_take_the_conversation_up_again(
    another: Another, shared_store: str
):
    mine, theirs = another(LEASE), another()
    await mine.append(opening(), WORKING)
    with no_lease_can_be_renewed(shared_store) as all_have_run_out:
        await until(lambda: not mine.may_begin(), 5 * LEASE)
        await until(all_have_run_out)
    await until(mine.may_begin)
    assert await theirs.unfinished() == ["c"]
    await mine.append(more(3), WORKING)
    assert await theirs.unfinished() == []


async def test_an_append_that_waits_behind_the_renewal_of_a_lost_lease_is_not_written(
    another: Another, shared_store: str
):
    log = another(LEASE)
    await log.append(opening(), WORKING)
    with no_lease_can_be_renewed(shared_store) as all_have_run_out:
        # Past a third of the lease, when it is renewed: the append waits behind that.
        await asyncio.sleep(LEASE / 2)
        waiting = asyncio.ensure_future(log.append(more(3), WORKING))
        await until(lambda: not log.may_begin(), 5 * LEASE)
        await until(all_have_run_out)
    with pytest.raises(LeaseLost):
        await waiting
    assert await stored(log) == [(0, "said@1", 1)]


async def test_an_append_that_waits_for_the_database_until_the_lease_has_run_out_is_not_written(
    another: Another, shared_store: str
):
    log = another(LEASE)
    await log.append(opening(), WORKING)
    with no_lease_can_be_renewed(shared_store) as all_have_run_out:
        # At once: the lease need not be renewed yet, so the writer waits with this append alone.
        waiting = asyncio.ensure_future(log.append(more(3), WORKING))
        await until(lambda: not log.may_begin(), 5 * LEASE)
        await until(all_have_run_out)
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
    assert 0 < until_ - time.time() < 6.0
