"""Contexts: what is kept whole beside the log, each tree's apart, until it expires and is swept away."""

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from changeover.errors import StoreUnavailable
from changeover.ids import context_id
from changeover.relay.ports.log import Log
from changeover.relay.ports.tables import Kept
from changeover.stores.memory.log import MemoryLog
from changeover.stores.sql.database import Call, Row, Session, Write
from changeover.stores.sql.dialects import sqlite as sqlite_store
from changeover.stores.sql.jobs import SideJob, Waiting
from changeover.stores.sql.log import SqlLog
from changeover.stores.sql.statements import statements
from changeover.stores.sql.table import MOST, SWEPT
from changeover.stores.tables import ContextRow
from changeover.testing.crash import Died, MortalLog
from tests.databases import cut_connections
from tests.stores.conftest import Opened
from tests.stores.connection_loss import losing_once
from tests.stores.entries import WORKING, more, opening, query, rows, stored
from tests.stores.test_queue_plans import explained
from tests.stores.test_trouble import locked_for

Another = Callable[..., SqlLog]


class Recording:
    """A connection that only notes the keys of what it is to write."""

    def __init__(self) -> None:
        self.written: list[Row] = []

    def begin(self) -> None: ...

    def undisturbed(self) -> bool:
        return False

    def run(self, calls: Sequence[Call]) -> list[list[Row]]:
        return [[] for _ in calls]

    def commit(self, writes: Sequence[Write] = ()) -> None:
        self.written += [row[:2] for _, rows in writes for row in rows]

    def rollback(self) -> None: ...

    def ask(self, call: Call) -> list[Row]:
        return []

    def glance(self, call: Call) -> list[Row] | None:
        return None

    def close(self) -> None: ...


def _one_kind(session: Session, jobs: Sequence[SideJob[None, None]]) -> None: ...


def _another_kind(session: Session, jobs: Sequence[SideJob[None, None]]) -> None: ...


async def test_what_was_kept_is_there_for_its_tree(log: Log):
    await log.contexts.put("c", "x", "all that was said", 50.0)
    assert await log.contexts.get("c", "x") == Kept("all that was said", 50.0)
    assert await log.contexts.get("c", "y") is None


async def test_what_another_tree_has_kept_is_not_there(log: Log):
    await log.contexts.put("c", "x", "between us")
    assert await log.contexts.get("d", "x") is None
    await log.contexts.put("d", "x", "between us", 10.0)
    assert await log.contexts.get("c", "x") == Kept("between us", None)
    assert await log.contexts.get("d", "x") == Kept("between us", 10.0)


@pytest.mark.parametrize(
    ("first", "second", "until"),
    [(10.0, 20.0, 20.0), (20.0, 10.0, 20.0), (10.0, 10.0, 10.0), (None, 10.0, None), (10.0, None, None), (None,) * 3],
)
async def test_what_is_kept_twice_stays_as_it_was_and_lives_until_the_later_time(
    log: Log, first: float | None, second: float | None, until: float | None
):
    await log.contexts.put("c", "x", "as it was", first)
    await log.contexts.put("c", "x", "something else", second)
    assert await log.contexts.get("c", "x") == Kept("as it was", until)


async def test_what_has_expired_is_there_until_it_is_swept_away(log: Log):
    for id, expires_at in {"long ago": 1.0, "now": 5.0, "soon": 5.1, "never": None}.items():
        await log.contexts.put("c", id, "b", expires_at)
    await log.contexts.put("d", "long ago", "b", 2.0)
    assert await log.contexts.get("c", "long ago") == Kept("b", 1.0)
    assert await log.contexts.sweep(5.0) == 3
    assert await log.contexts.sweep(5.0) == 0
    left = [id for id in ("long ago", "now", "soon", "never") if await log.contexts.get("c", id)]
    assert left == ["soon", "never"]
    assert await log.contexts.get("d", "long ago") is None


async def test_what_was_swept_away_can_be_kept_again(log: Log):
    await log.contexts.put("c", "x", "first", 1.0)
    await log.contexts.sweep(1.0)
    await log.contexts.put("c", "x", "second")
    assert await log.contexts.get("c", "x") == Kept("second")


async def test_all_that_has_expired_is_swept_away_however_much_it_is(log: Log):
    count = 2 * SWEPT + 1
    await asyncio.gather(*(log.contexts.put(f"c{n % 7}", f"x{n}", "b", float(n)) for n in range(count)))
    assert await log.contexts.sweep(count - 2.0) == count - 1
    assert await log.contexts.get(f"c{(count - 1) % 7}", f"x{count - 1}") is not None


@pytest.mark.parametrize("body", ["", "ä€😀\r\n\t\\u0000 \x7f\x01 'quoted' %s ?", "x" * 6_000_000, "é" * 3_000_000])
async def test_whatever_the_text_it_comes_back_as_it_was(log: Log, body: str):
    await log.contexts.put("c", context_id(body), body)
    kept = await log.contexts.get("c", context_id(body))
    assert kept is not None
    assert kept.body == body, f"{kept.body[:50]!r} of {len(kept.body)}"


async def test_what_a_database_cannot_hold_of_a_text_is_replaced(shared_store: str, opened: Opened):
    log, body = opened(shared_store), "half \ud800 of a pair, and \0"
    await log.contexts.put("c", context_id(body), body)
    nothing = "\0" if shared_store.startswith("sqlite") else "\ufffd"
    assert await log.contexts.get("c", context_id(body)) == Kept(f"half ? of a pair, and {nothing}")


async def test_many_are_kept_at_once_while_others_append(log: Log):
    bodies = {f"x{n}": f"{n}" * 200_000 for n in range(60)}
    puts = [log.contexts.put("c", id, body) for id, body in bodies.items()]
    await asyncio.gather(*puts, *(log.append(opening(f"c{n}"), WORKING) for n in range(20)))
    for id, body in bodies.items():
        kept = await log.contexts.get("c", id)
        assert kept is not None
        assert kept.body == body
    assert len(await stored(log, "c19")) == 1


async def test_what_is_too_much_for_one_transaction_is_kept_in_several(another: Another):
    log = another()
    async with asyncio.timeout(10):
        await asyncio.gather(*(log.contexts.put("c", f"x{n}", "x" * (MOST - 1)) for n in range(3)))
    assert log.commits == 3


async def test_contexts_are_written_in_one_order_whoever_comes_first():
    # Of two who write the same in another order, each would wait for the other.
    session, keys = Recording(), [("d", "x"), ("c", "y"), ("c", "x"), ("a", "z")]
    table = statements("postgresql").contexts
    table.put_rows(session, [SideJob(table.put_rows, (ContextRow(*key, None, "b"), ()), None) for key in keys])
    assert session.written == sorted(keys)


async def test_what_is_large_does_not_share_a_transaction_and_what_is_small_does():
    waiting = Waiting()
    sizes = [1, MOST // 2, MOST // 2 - 1, 1, 2 * MOST, 1, 1, MOST, 1]
    for size in sizes:
        waiting.put(SideJob(_one_kind, None, None, size / MOST))
    taken: list[int] = []
    while waiting:
        [jobs] = waiting.take()
        taken.append(len(jobs))
    assert taken == [3, 1, 1, 2, 1, 1]


async def test_every_kind_has_its_turn_while_there_is_much_of_another():
    waiting = Waiting()
    for _ in range(2):
        waiting.put(SideJob(_one_kind, None, None, share=1.0))
    waiting.put(other := SideJob(_another_kind, None, None, share=0.0))
    assert [len(jobs) for jobs in waiting.take()] == [1, 1]
    assert other not in waiting.take()[0]


async def test_what_one_process_keeps_another_finds(another: Another):
    mine, theirs = another(), another()
    await mine.contexts.put("c", "x", "for you", 9.0)
    assert await theirs.contexts.get("c", "x") == Kept("for you", 9.0)
    await theirs.contexts.put("c", "x", "for you")
    assert await mine.contexts.get("c", "x") == Kept("for you")


async def test_processes_that_keep_the_same_at_once_keep_it_once(another: Another, shared_store: str):
    logs, ids = [another(), another(), another()], [f"x{n:02}" for n in range(40)]
    for turn in range(3):
        orders = (ids, ids[::-1], ids)
        puts = [
            log.contexts.put("c", id, "b", float(10 * turn + n))
            for n, (log, order) in enumerate(zip(logs, orders, strict=True))
            for id in order
        ]
        await asyncio.gather(*puts)
    assert rows(shared_store, "contexts", "id", "body", "expires_at", order="id") == [(id, "b", 22.0) for id in ids]


async def test_processes_that_sweep_at_once_remove_each_context_once(another: Another):
    logs, count = [another(), another()], 3 * SWEPT
    await asyncio.gather(*(logs[0].contexts.put("c", f"x{n}", "b", 1.0) for n in range(count)))
    assert sum(await asyncio.gather(*(log.contexts.sweep(1.0) for log in logs))) == count


async def test_what_somebody_gives_a_longer_life_just_now_is_not_swept_away(postgres: str, opened: Opened):
    log = opened(postgres)
    await log.contexts.put("c", "x", "b", 1.0)
    await log.contexts.put("c", "y", "b", 1.0)
    other = log._database.connect()
    other.begin()
    other.run([log._sql.contexts.put(root="c", id="x", body="b", expires_at=9.0)])
    sweeping = asyncio.ensure_future(log.contexts.sweep(5.0))
    await asyncio.sleep(0.1)
    other.commit()
    other.close()
    assert await sweeping == 1
    assert await log.contexts.get("c", "x") == Kept("b", 9.0)


async def test_whoever_only_keeps_contexts_takes_no_lease(another: Another, shared_store: str):
    log = another()
    await log.contexts.put("c", "x", "b", 1.0)
    await log.contexts.sweep(2.0)
    assert (log.epoch, query(shared_store, "SELECT count(*) FROM processes")) == (0, [(0,)])


async def test_a_store_that_is_closed_neither_keeps_nor_finds_nor_sweeps(another: Another):
    log = another()
    contexts = log.contexts
    await log.close()
    for asked in (contexts.put("c", "x", "b"), contexts.get("c", "x"), contexts.sweep(1.0)):
        with pytest.raises(StoreUnavailable, match="is closed"):
            await asked


async def test_what_was_asked_for_before_the_store_was_closed_is_kept(another: Another):
    log = another()
    puts = [asyncio.ensure_future(log.contexts.put("c", f"x{n}", "x" * 3_000_000)) for n in range(4)]
    await asyncio.sleep(0)
    await log.close()
    await asyncio.gather(*puts)
    assert all([await another().contexts.get("c", f"x{n}") for n in range(4)])


async def test_contexts_survive_the_loss_of_a_connection(postgres: str, opened: Opened):
    log = opened(postgres)
    for n in range(3):
        await log.contexts.put("c", f"x{n}", "b", 1.0)
        cut_connections(postgres)
        assert await log.contexts.get("c", f"x{n}") == Kept("b", 1.0)
        cut_connections(postgres)
    assert await log.contexts.sweep(1.0) == 3


async def test_all_is_swept_away_also_if_nobody_heard_of_a_commit(postgres: str, opened: Opened):
    log = opened(postgres)
    await asyncio.gather(*(log.contexts.put("c", f"x{n}", "b", 1.0) for n in range(SWEPT + 1)))
    lost = losing_once(log)
    await log.contexts.sweep(1.0)
    assert lost, "nothing was lost, so nothing is shown"
    assert query(postgres, "SELECT count(*) FROM contexts") == [(0,)]


async def test_what_cannot_be_written_is_said_to_whoever_wanted_it_kept(
    sqlite_file: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
):
    log = opened(f"sqlite:///{sqlite_file}")
    await log.append(opening(), WORKING)
    monkeypatch.setattr(sqlite_store, "PATIENCE", 0.2)
    thread = locked_for(sqlite_file, 0.6)
    with pytest.raises(StoreUnavailable, match="cannot be written: database is locked"):
        await log.contexts.put("c", "x", "b")
    await asyncio.to_thread(thread.join)
    await log.contexts.put("c", "x", "b")
    await log.append(more(3), WORKING)


async def test_a_context_that_the_database_refuses_fails_alone(postgres: str, opened: Opened):
    log = opened(postgres)
    await log.append(opening(), WORKING)
    too_long = os.urandom(20_000).hex()
    puts = [log.contexts.put("c", id, "b") for id in ("x", too_long, "y")]
    x, refused, y = await asyncio.gather(*puts, return_exceptions=True)
    assert (x, y) == (None, None)
    assert isinstance(refused, StoreUnavailable)
    assert rows(postgres, "contexts", "id", order="id") == [("x",), ("y",)]


async def test_what_has_expired_is_found_by_its_index(bare_store: str, opened: Opened):
    log = opened(bare_store)
    numbers = "generate_series(1, {0})" if bare_store.startswith("postgres") else SERIES
    made = "SELECT 'c' || n % 100, 'x' || n, CASE WHEN n % 2 = 0 THEN n END, 'b'"
    query(bare_store, f"INSERT INTO contexts {made} FROM {numbers.format(20_000)} AS n")
    query(bare_store, "ANALYZE")
    plan = explained(bare_store, log._sql.contexts.sweep(now=50.0, limit=10))
    assert "contexts_expiring" in plan
    assert "Seq Scan" not in plan, plan
    assert "SCAN contexts" not in plan, plan


SERIES = "(WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {0}) SELECT n FROM s)"


async def test_a_process_that_died_keeps_and_forgets_nothing():
    log = MemoryLog()
    mortal = MortalLog(log, at=1)
    await mortal.contexts.put("c", "x", "b")
    assert await log.contexts.get("c", "x") == Kept("b")
    assert await mortal.forget("c") is False
    await mortal.append(opening(), WORKING)
    with pytest.raises(Died):
        await mortal.contexts.put("c", "x", "b")
    with pytest.raises(Died):
        await mortal.forget("c")


def test_an_id_is_that_of_the_text():
    assert context_id("all that was said") == "7f06aea30261d318e056040ceb2f0c7c"
    assert context_id("all that was said.") != context_id("all that was said")
    assert len(context_id("\ud800")) == 32
