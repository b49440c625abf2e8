"""Metrics of a log in memory: its entries are projected into a temporary SQLite database and counted there."""

from __future__ import annotations

import asyncio
import sqlite3
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy.schema import CreateIndex, CreateTable

from changeover.ids import handoff_id
from changeover.relay.events import Entry, Event, HandoffOffered, Unreadable
from changeover.relay.ports import Spending
from changeover.relay.tables import Measures
from changeover.stores.projection.projector import project
from changeover.stores.projection.rows import FIELDS, Leg, Offered, Rows, as_json
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


class Past:
    """The earlier entries of a conversation."""

    def __init__(self) -> None:
        self._events: list[Event | Unreadable] = []
        self._offers: dict[str, HandoffOffered] = {}
        self.leg: Leg | None = None

    def take(self, entry: Entry) -> None:
        self._events += entry.events
        offers = [event for event in entry.events if isinstance(event, HandoffOffered)]
        self._offers |= {handoff_id(entry.conversation, offer.call): offer for offer in offers}

    def event(self, conversation: str, position: int) -> Event | Unreadable | None:
        return self._events[position] if position < len(self._events) else None

    def offer(self, id: str) -> Offered | None:
        offer = self._offers.get(id)
        return Offered(offer.merge, as_json(offer.variables), offer.mode) if offer else None

    def widened(self, conversation: str, turn: str) -> dict[str, dict[str, Any]]:
        return {}  # only contexts depend on it, which nobody counts


def memory_measures(kept: Callable[[], Kept]) -> Measures:
    """Counts what a log in memory holds when it is first asked."""
    return SqlMeasures(statements(DIALECT).measures, Replay(kept).ask)


def _written(kept: Kept) -> SqliteSession:
    """The tables that are counted, in memory too."""
    session = SqliteSession(sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False))
    session.run([(sql, ()) for sql in _made()])
    for tree in kept.trees:
        pasts: dict[str, Past] = defaultdict(Past)
        for entry in tree:
            _write(session, _rows_of(entry, pasts[entry.conversation]))
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


def _rows_of(entry: Entry, past: Past) -> Rows:
    rows = Rows()
    past.leg = project(entry, entry.events, past.leg, past, rows)
    past.take(entry)
    return rows


def _write(session: SqliteSession, rows: Rows, more: Sequence[Write] = ()) -> None:
    sql = statements(DIALECT).writes
    writes = [(sql[name].sql, those) for name, those in rows.in_order() if name in COUNTED]
    if writes or more:
        session.begin()
        session.commit([*writes, *more])
