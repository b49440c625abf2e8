"""Metrics of a log in memory: its entries are projected into a temporary SQLite database and counted there."""

from __future__ import annotations

import asyncio
import sqlite3
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from sqlalchemy.schema import CreateIndex, CreateTable

from changeover.relay.events import Entry
from changeover.relay.ports import Spending
from changeover.relay.projection.projection import rows_of
from changeover.relay.projection.rows import FIELDS, Rows
from changeover.relay.state import State
from changeover.relay.tables import Measures
from changeover.stores.sql.compiler import Compiler
from changeover.stores.sql.database import Call, Row, Write
from changeover.stores.sql.dialects.sqlite import SqliteSession
from changeover.stores.sql.measures import SqlMeasures
from changeover.stores.sql.schema import breaker_openings, handoffs, ledgers, refusals
from changeover.stores.sql.statements import statements

DIALECT = "sqlite"
COUNTED = frozenset(name for name in FIELDS if name.endswith(("handoffs", "ledgers", "refusals")))
"""Who writes into the tables that are counted."""


class Kept(NamedTuple):
    """What a log in memory holds, as far as anybody counts it."""

    trees: list[list[Entry]]
    spent: list[tuple[Entry, tuple[Spending, ...]]]
    opened: list[Row]
    """The receiver, the how-manieth opening of its circuit, and when it was."""


class Replay:
    """Writes what a log in memory holds into tables of its own, when it is first asked."""

    def __init__(self, kept: Callable[[], Kept]) -> None:
        self._kept = kept
        self._session: SqliteSession | None = None

    async def ask(self, call: Call) -> list[Row]:
        return await asyncio.to_thread(self._answer, call)

    def _answer(self, call: Call) -> list[Row]:
        if self._session is None:
            self._session = _written(self._kept())
            weakref.finalize(self, self._session.close)
        return self._session.ask(call)


def memory_measures(kept: Callable[[], Kept]) -> Measures:
    """Counts what a log in memory holds when it is first asked."""
    return SqlMeasures(statements(DIALECT).measures, Replay(kept).ask)


def _written(kept: Kept) -> SqliteSession:
    """The tables that are counted, in memory too."""
    session = SqliteSession(sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False))
    session.run([(sql, ()) for sql in _made()])
    for tree in kept.trees:
        states: dict[str, State] = {}
        for entry in tree:
            state = states.setdefault(entry.conversation, State(entry.conversation))
            _write(session, rows_of(state, entry))
    rows = Rows()
    for entry, spent in kept.spent:
        for each in spent:
            rows.add_spending(entry, each)
    _write(session, rows, [(statements(DIALECT).breakers.opened.sql, kept.opened)])
    return session


def _made() -> Iterator[str]:
    """What makes the tables."""
    say = Compiler(DIALECT)
    for table in (handoffs, ledgers, refusals, breaker_openings):
        yield say.ddl(CreateTable(table))
        yield from (say.ddl(CreateIndex(index)) for index in table.indexes)


def _write(session: SqliteSession, rows: Rows, more: Sequence[Write] = ()) -> None:
    sql = statements(DIALECT).writes
    writes = [(sql[name].sql, those) for name, those in rows.in_order() if name in COUNTED]
    if writes or more:
        session.begin()
        session.commit([*writes, *more])
