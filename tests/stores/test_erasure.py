"""A finished conversation can be removed with its whole tree; its id can begin another."""

import gc
from collections.abc import Callable, Iterator
from types import FunctionType, MethodType, ModuleType
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from changeover.errors import ConversationNotFound, StoreUnavailable, UnderWay
from changeover.relay.ports.log import Head, Log, Reserve
from changeover.stores.memory.log import MemoryLog
from changeover.stores.sql.database import Call
from changeover.stores.sql.log import SqlLog
from changeover.stores.sql.schema import METADATA
from tests.stores.conftest import Opened
from tests.stores.conversations import lived
from tests.stores.entries import (
    DONE,
    LEFT,
    WAITING,
    WORKING,
    child,
    more,
    opening,
    query,
    stored,
)
from tests.stores.test_contexts import SERIES
from tests.stores.test_queue_plans import explained
from tests.stores.tickets import ticket

Another = Callable[..., SqlLog]

NOT_OF_A_CONVERSATION = {
    *("processes", "changeover_version", "forgotten"),
    *("agents", "breakers", "breaker_openings", "unlearned"),
    *("declarations", "tools", "tokens", "audit", "workers"),
    *("bus_events", "bus_deliveries", "schedules"),
}
GONE_WHEN_IT_IS_OVER = {"tickets"}


def contents(store: str, leaving_out: set[str]) -> dict[str, set[str]]:
    """All rows of all tables but these."""
    names = METADATA.tables.keys() - leaving_out
    return {name: {repr(row) for row in query(store, f"SELECT * FROM {name}")} for name in names}


def texts(*things: Any) -> Iterator[str]:
    """Every text that can be reached from these."""
    stack, seen = list(things), set[int]()
    while stack:
        thing = stack.pop()
        if id(thing) in seen or isinstance(thing, type | ModuleType | FunctionType | MethodType):
            continue
        seen.add(id(thing))
        if isinstance(thing, str):
            yield thing
        elif isinstance(thing, Struct):
            stack += [getattr(thing, name) for name in thing.__struct_fields__]
        else:
            stack += gc.get_referents(thing)


async def test_of_what_was_forgotten_no_row_is_left_in_any_table(shared_store: str, opened: Opened):
    log = opened(shared_store)
    for neighbour in ("c:", "c.c", "c-", "c0", "C", "b", "ca"):
        await lived(log, neighbour)
    before = contents(shared_store, NOT_OF_A_CONVERSATION)
    await lived(log, "c")
    with_it = contents(shared_store, NOT_OF_A_CONVERSATION | GONE_WHEN_IT_IS_OVER)
    untouched = [name for name, found in with_it.items() if len(found - before[name]) < 2]
    assert untouched == [], "a conversation of this test leaves nothing there, so nothing is shown"
    assert await log.forget("c") is True
    assert contents(shared_store, NOT_OF_A_CONVERSATION) == before


async def test_in_memory_nothing_is_left_of_what_was_forgotten():
    log = MemoryLog()
    await lived(log, "neighbour")
    await lived(log, "confidential")
    assert any("confidential" in text for text in texts(log))
    assert await log.forget("confidential") is True
    assert [text for text in texts(log) if "confidential" in text] == []
    assert any("neighbour" in text for text in texts(log))


async def test_of_what_was_forgotten_nothing_can_be_found(log: Log):
    await lived(log, "c")
    await lived(log, "d")
    assert await log.forget("c") is True
    assert await log.read("c") == await log.tree("c") == await log.read("c/5.0") == []
    assert await log.find("c", "said@1") is None
    assert await log.contexts.get("c", "x") is None
    assert {each.conversation.partition("/")[0] for each in await log.approvals()} == {"d"}
    assert len(await log.tree("d")) == 13
    assert await log.contexts.get("d", "x") is not None


async def test_what_does_not_exist_cannot_be_forgotten(log: Log):
    assert await log.forget("c") is False
    await lived(log, "c")
    assert [await log.forget("c"), await log.forget("c")] == [True, False]


async def test_what_was_kept_too_late_is_forgotten_the_next_time(log: Log):
    await lived(log, "c")
    await log.forget("c")
    await log.contexts.put("c", "late", "by somebody who had not heard")
    assert await log.forget("c") is False
    assert await log.contexts.get("c", "late") is None


async def test_only_a_whole_tree_can_be_forgotten(log: Log):
    await lived(log, "c")
    before = await log.tree("c")
    assert await log.forget("c/5.0") is False
    assert await log.tree("c") == before
    assert await log.contexts.get("c", "x") is not None


@pytest.mark.parametrize("head", [WORKING, LEFT, WAITING, None], ids=["working", "left", "waiting", "said"])
async def test_what_is_not_over_cannot_be_forgotten(log: Log, head: Head | None):
    await lived(log, "c")
    await log.append(more(16), head)
    before = await log.tree("c")
    with pytest.raises(UnderWay, match="'c' is not over") as caught:
        await log.forget("c")
    assert caught.value.conversation == "c"
    assert await log.tree("c") == before
    assert await log.contexts.get("c", "x") is not None
    await log.append(more(17), DONE)
    assert await log.forget("c") is True


@pytest.mark.parametrize("head", [WORKING, LEFT, WAITING], ids=["working", "left", "waiting"])
async def test_a_tree_in_which_a_delegate_is_not_done_cannot_be_forgotten(log: Log, head: Head):
    await lived(log, "c")
    await log.append(more(8, "", "c/5.0/3.0", "c"), head)
    with pytest.raises(UnderWay, match=r"'c/5.0/3.0' is not over"):
        await log.forget("c")
    await log.append(more(9, "", "c/5.0/3.0", "c"), DONE)
    assert await log.forget("c") is True


async def test_what_somebody_may_claim_cannot_be_forgotten(log: Log):
    await log.append(opening(), replace(DONE, tickets=(ticket("t", root="c"),)))
    with pytest.raises(UnderWay, match="'c' is not over, so it cannot be forgotten: something waits to be claimed"):
        await log.forget("c")
    await log.append(more(3), replace(DONE, gone=("t",)))
    assert await log.forget("c") is True


async def test_who_works_on_it_is_named(another: Another):
    mine, theirs = another(), another()
    await theirs.append(opening(), WORKING)
    with pytest.raises(UnderWay, match=f"{theirs._lease.owner} works on it"):
        await mine.forget("c")
    await theirs.close()
    with pytest.raises(UnderWay, match="a run has not ended; cancel it first"):
        await mine.forget("c")


async def test_its_id_begins_another_conversation(log: Log):
    await lived(log, "c")
    await log.forget("c")
    with pytest.raises(ConversationNotFound):
        await log.append(child("c/5.0", "c"), WORKING)
    await log.append(opening("c", "hello again"), WORKING, Reserve(1, 1, 1, 1))
    await log.append(child("c/5.0", "c"), DONE)
    await log.append(more(3, "said@1 again"), DONE)
    assert await stored(log) == [(0, "said@1", 1), (3, "said@1 again", 6)]
    assert await stored(log, "c/5.0") == [(0, "begin", 4)]
    assert await log.forget("c") is True


async def test_whoever_only_forgets_takes_no_lease(another: Another, shared_store: str):
    first, log = another(), another()
    await lived(first, "c")
    await first.close()
    assert await log.forget("c") is True
    assert (log.epoch, query(shared_store, "SELECT count(*) FROM processes")) == (0, [(0,)])


async def test_a_store_that_is_closed_forgets_nothing(another: Another):
    log = another()
    await log.append(opening(), DONE)
    await log.close()
    with pytest.raises(StoreUnavailable, match="is closed"):
        await log.forget("c")
    assert len(await another().read("c")) == 1


async def test_what_is_to_be_forgotten_is_found_by_indexes(bare_store: str, opened: Opened):
    log = opened(bare_store)
    await lived(log, "c")
    for name in METADATA.tables.keys() - NOT_OF_A_CONVERSATION:
        fill(bare_store, name)
    query(bare_store, "ANALYZE")
    sql, one = log._sql.forget, {"number": 1}
    wanted: list[Call] = [sql.root(root="c"), sql.below(**one), sql.tickets(root="c")]
    wanted += [sql.entries(**one), sql.conversations(**one), log._sql.contexts.forget(root="c")]
    wanted += [each(conversation="c") for each in sql.by_conversation]
    wanted += [each(conversation="c", begin="c:", beyond="c;") for each in sql.by_id]
    for call in wanted:
        plan = explained(bare_store, call)
        assert "SCAN" not in plan, plan
        assert "Seq Scan" not in plan, plan


def fill(store: str, table: str) -> None:
    """Add many rows that have nothing to do with anything."""
    by_type = {str: "'other' || n", bool: "n < 0"}
    values = [by_type.get(column.type.python_type, "1000 + n") for column in METADATA.tables[table].columns]
    numbers = "generate_series(1, {0})" if store.startswith("postgres") else SERIES
    query(store, f"INSERT INTO {table} SELECT {', '.join(values)} FROM {numbers.format(5_000)} AS n")
