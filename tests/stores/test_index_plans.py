"""Every index serves a query that it names, and no list or measure reads a whole table."""

import sqlite3
from operator import attrgetter

import pytest
from sqlalchemy import Index

from changeover.relay.ports.lists import ApprovalRow, ConversationRow, HandoffRow, Record, TaskRow, order_of
from changeover.relay.ports.tokens import Audited
from changeover.stores.sql.compiler import Statement
from changeover.stores.sql.page_query import Listing, page
from changeover.stores.sql.schema import METADATA
from changeover.stores.sql.statements import statements
from changeover.stores.upgrade import _ddl

INDEXES = [index for table in METADATA.sorted_tables for index in sorted(table.indexes, key=attrgetter("name"))]
KINDS: dict[str, type[Record]] = {
    "conversations": ConversationRow,
    "tasks": TaskRow,
    "handoffs": HandoffRow,
    "approvals": ApprovalRow,
    "audit": Audited,
}


def statement_of(query: str) -> Statement:
    """The statement that an index names: its path in `Statements`, or "list KIND", with a filter or without one."""
    if not query.startswith("list "):
        found: Statement = attrgetter(query)(statements("sqlite"))
        return found
    kind, *more = query.removeprefix("list ").split()
    user, status, within = "user" in more, "failed" if "status" in more else "", "within" in more
    wanted = frozenset(name for name, asked in (("user", user), ("status", bool(status))) if asked)
    record = KINDS[kind]
    return page("sqlite", Listing(record, order_of(record, ""), wanted, status, within, user, user, False))


def plan_of(statement: Statement) -> list[str]:
    database = sqlite3.connect(":memory:")
    for sql, _ in _ddl("sqlite"):
        database.execute(sql)
    rows = database.execute(f"EXPLAIN QUERY PLAN {statement.sql}", [None] * len(statement.names)).fetchall()
    database.close()
    return [detail for *_, detail in rows]


@pytest.mark.parametrize("index", INDEXES, ids=lambda index: index.name)
def test_an_index_serves_the_query_that_it_names(index: Index):
    plan = plan_of(statement_of(index.info["query"]))
    assert any(f"INDEX {index.name}" in step for step in plan), f"{index.name} is not used: {plan}"


@pytest.mark.parametrize("query", ["trials.spent", "measures.expenses", "measures.courses", "measures.refused"])
def test_measures_read_no_whole_table(query: str):
    plan = plan_of(statement_of(query))
    grown = ("conversations", "ledgers", "tasks", "handoffs", "messages", "entries")
    assert not [
        step for step in plan if step.startswith(tuple(f"SCAN {table}" for table in grown)) and "USING" not in step
    ]
