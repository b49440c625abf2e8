"""Side tables: memory and databases keep the rows of one declaration by the same rules."""

import threading
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace

from changeover.faults import Circuit
from changeover.relay.ports.log import Log
from changeover.relay.ports.tables import Unlearned
from changeover.stores.memory.table import MemoryTable
from changeover.stores.sql.compiler import Compiler
from changeover.stores.sql.log import SqlLog
from changeover.stores.sql.table import SqlTable, TableStatements
from changeover.stores.tables import (
    AGENTS,
    BREAKERS,
    CONTEXTS,
    MEASURES,
    RESETS,
    AgentRow,
    ContextRow,
    MeasureRow,
    Table,
    TableSpec,
)

Open = Callable[[TableSpec[Any]], Table[Any]]

AGENT = AgentRow("billing", "{}", enabled=True, removed=False)
MEASURE = MeasureRow("c", "stars", 5.0, 1.0)
CONTEXT = ContextRow("c", "x", 5.0, "all of it")
RESET = Unlearned("refunds", "billing", 5.0)


@pytest.fixture
def open_table(log: Log) -> Open:
    """Opens a table in each kind of store."""

    def open_(spec: TableSpec[Any]) -> Table[Any]:
        if isinstance(log, SqlLog):
            return SqlTable(TableStatements(spec, Compiler(log._database.dialect)), log._store)
        ticks = count(1)
        return MemoryTable(spec, threading.Lock(), lambda: float(next(ticks)))

    return open_


async def test_a_row_is_found_by_its_whole_key(open_table: Open):
    table = open_table(MEASURES)
    await table.put(MEASURE)
    assert await table.get("c", "stars") == MEASURE
    assert await table.get("c", "speed") is None
    assert await table.get("d", "stars") is None


async def test_rows_are_listed_by_key_as_python_sorts_it(open_table: Open):
    table = open_table(MEASURES)
    keys = [("c", "é"), ("C", "z"), ("c", "Z"), ("c", "a"), ("c-", "a"), ("b", "z")]
    for conversation, name in keys:
        await table.put(MeasureRow(conversation, name, 1.0, 1.0))
    assert [(row.conversation, row.name) for row in await table.all()] == sorted(keys)


async def test_a_second_put_replaces_all_columns_but_the_key(open_table: Open):
    table = open_table(MEASURES)
    await table.put(MEASURE)
    await table.put(replace(MEASURE, value=1.0, at=0.5))
    assert await table.all() == [MeasureRow("c", "stars", 1.0, 0.5)]


async def test_a_put_with_columns_replaces_only_these(open_table: Open):
    table = open_table(AGENTS)
    await table.put(AGENT)
    await table.put(AgentRow("billing", None, enabled=False, removed=True), ("enabled",))
    [row] = await table.all()
    assert (row.profile, row.enabled, row.removed) == ("{}", False, False)


async def test_every_put_is_counted_and_stamped_by_the_clock_of_the_store(open_table: Open):
    table = open_table(AGENTS)
    await table.put(replace(AGENT, updated_at=-1.0, version=99))
    [first] = await table.all()
    await table.put(AGENT, ("removed",))
    await table.put(replace(AGENT, id="triage"))
    [second, _] = await table.all()
    assert (first.version, second.version, await table.version()) == (1, 2, 3)
    assert -1.0 < first.updated_at <= second.updated_at


@pytest.mark.parametrize(("spec", "row"), [(CONTEXTS, replace(CONTEXT, body="else")), (RESETS, RESET)])
async def test_a_time_is_only_extended(open_table: Open, spec: TableSpec[Any], row: Any):
    table = open_table(spec)
    for at, kept in ((5.0, 5.0), (4.0, 5.0), (6.0, 6.0)):
        await table.put(replace(row, **{spec.extends: at}))
        [found] = await table.all()
        assert found == replace(row, **{spec.extends: kept})


async def test_rows_are_swept_when_their_time_has_come(open_table: Open):
    table = open_table(CONTEXTS)
    for id, at in {"past": 4.0, "now": 5.0, "later": 6.0, "never": None}.items():
        await table.put(replace(CONTEXT, id=id, expires_at=at))
    assert await table.sweep(5.0) == 2
    assert [row.id for row in await table.all()] == ["later", "never"]


async def test_booleans_are_booleans_in_every_store(open_table: Open):
    table = open_table(BREAKERS)
    await table.put(Circuit("billing", forced=True))
    [circuit] = await table.all()
    assert circuit.forced is True
