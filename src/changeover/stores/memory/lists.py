"""MemoryLists: a log in memory is projected into a temporary SQLite database when a list is read."""

from __future__ import annotations

import asyncio
import sqlite3
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from sqlalchemy.schema import CreateIndex, CreateTable

from changeover.relay.events import Entry
from changeover.relay.ports import Spending
from changeover.relay.projection.admission import UNSPENT, Tally
from changeover.relay.projection.projection import rows_of
from changeover.relay.projection.rows import Rows
from changeover.relay.result import head_of
from changeover.relay.state import State
from changeover.relay.tables import Tried
from changeover.stores.sql import schema
from changeover.stores.sql.compiler import Compiler
from changeover.stores.sql.database import Call, Row, Write
from changeover.stores.sql.dialects.sqlite import SqliteSession
from changeover.stores.sql.lists import SqlLists
from changeover.stores.sql.statements import statements

DIALECT = "sqlite"
ME, ALWAYS = "memory", 1e12
"""The only process that works on a log in memory, and how long its lease holds."""
TABLES = (
    *(schema.conversations, schema.processes, schema.tasks, schema.messages, schema.handoffs, schema.approvals),
    *(schema.ledgers, schema.refusals, schema.trials, schema.breaker_openings),
)


class Snapshot(NamedTuple):
    """The contents of a log in memory."""

    trees: list[list[Entry]]
    spent: Sequence[tuple[Entry, tuple[Spending, ...]]] = ()
    opened: Sequence[Row] = ()
    """Openings of circuits: receiver, number of the opening, time."""
    running: frozenset[str] = frozenset()
    """The conversations that an engine works on."""
    tallies: Mapping[str, Tally] = MappingProxyType({})
    """What the tree of each root spent."""
    left: frozenset[str] = frozenset()
    """Those of the running conversations whose engine was closed."""


class MemoryLists(SqlLists):
    """Lists of a log in memory, as it is when the first of them is read."""

    def __init__(
        self, snapshot: Callable[[], Snapshot], tree: Callable[[str], Awaitable[list[Entry]]], trials: Tried
    ) -> None:
        super().__init__(DIALECT, self._ask, self._ask)
        self._snapshot, self._read, self._trials = snapshot, tree, trials
        self._session: SqliteSession | None = None

    async def tree(self, conversation: str) -> list[Entry]:
        return await self._read(conversation)

    @property
    def trials(self) -> Tried:
        return self._trials

    async def _ask(self, call: Call) -> list[Row]:
        return await asyncio.to_thread(self._answer, call)

    def _answer(self, call: Call) -> list[Row]:
        if self._session is None:
            self._session = projected(self._snapshot())
            weakref.finalize(self, self._session.close)
        return self._session.ask(call)


def projected(snapshot: Snapshot) -> SqliteSession:
    """A database with the read models of a log."""
    session = SqliteSession(sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False))
    session.run([(sql, ()) for sql in _ddl()])
    states: dict[str, State] = {}
    conversations = Rows()
    for tree in snapshot.trees:
        for entry in tree:
            state = states.setdefault(entry.conversation, State(entry.conversation))
            rows = Rows()
            rows.take(rows_of(state, entry), entry.seq)
            _write(session, rows)
        _add_conversations(conversations, tree, states, snapshot)
    for entry, spent in snapshot.spent:
        for each in spent:
            conversations.add_spending(entry, each)
    _write(session, conversations, [(statements(DIALECT).breakers.opened.sql, snapshot.opened)])
    session.run([statements(DIALECT).lease.register(id=ME, epoch=1, lease=ALWAYS, host="", pid=0)])
    return session


def _add_conversations(rows: Rows, tree: list[Entry], states: dict[str, State], snapshot: Snapshot) -> None:
    times: dict[str, tuple[float, float]] = {}
    for entry in tree:
        times[entry.conversation] = (times.get(entry.conversation, (entry.at, 0.0))[0], entry.at)
    for id, (created, updated) in times.items():
        state, number = states[id], len(rows["new_conversations"]) + 1
        head = head_of(state, id in snapshot.running)
        owner = None if id in snapshot.left else f"{ME}/1"
        where = (number, id, state.root, state.parent or None, head.status, state.agent, owner, None)
        tally = snapshot.tallies.get(id, UNSPENT)
        rows["new_conversations"].append((*where, state.position, state.seq, *tally, created, updated, state.team))


@cache
def _ddl() -> list[str]:
    say, indexes = Compiler(DIALECT), [index for table in TABLES for index in table.indexes]
    return [say.ddl(CreateTable(table)) for table in TABLES] + [say.ddl(CreateIndex(index)) for index in indexes]


def _write(session: SqliteSession, rows: Rows, more: Sequence[Write] = ()) -> None:
    sql = statements(DIALECT).writes
    session.begin()
    session.commit([*((sql[name].sql, those) for name, those in rows.in_order()), *more])
