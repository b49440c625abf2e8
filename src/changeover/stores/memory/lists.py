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
from changeover.relay.ports.log import Spending
from changeover.relay.ports.tables import Tried
from changeover.relay.projection.admission import UNSPENT, Tally
from changeover.relay.projection.projection import rows_of
from changeover.relay.projection.rows import Rows, opening_of
from changeover.relay.result import head_of
from changeover.relay.state import State
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
    *(
        schema.ledgers,
        schema.steps,
        schema.refusals,
        schema.limits,
        schema.trials,
        schema.breaker_openings,
        schema.audit,
    ),
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
    """The counters of the tree of each root."""
    left: frozenset[str] = frozenset()
    """Those of the running conversations whose engine was closed."""
    audited: Sequence[Row] = ()
    """The rows of the audit."""


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
    for tree in snapshot.trees:
        for entry in tree:
            rows = Rows()
            if (state := states.get(entry.conversation)) is None:
                state = states[entry.conversation] = State(entry.conversation)
                rows.add_conversation(len(states), state.id, opening_of(entry), (BEGINNING, (0, 0, *UNSPENT), entry.at))
            rows.take(rows_of(state, entry), entry.seq)
            _write(session, rows)
    rest = Rows()
    for number, state in enumerate(states.values(), 1):
        rest["changed_conversations"].append((*_standing(state, snapshot), state.at, number))
    for entry, spent in snapshot.spent:
        for each in spent:
            rest.add_spending(entry, each)
    sql = statements(DIALECT)
    _write(session, rest, [(sql.breakers.opened.sql, snapshot.opened), (sql.audit.put.sql, snapshot.audited)])
    session.run([sql.lease.register(id=ME, epoch=1, lease=ALWAYS, host="", pid=0)])
    return session


BEGINNING = ("running", "", None, None)
"""Status, agent, owner and due time of a conversation at its first entry."""


def _standing(state: State, snapshot: Snapshot) -> Row:
    """A conversation as it is now, without its times."""
    head = head_of(state, state.id in snapshot.running)
    owner = None if state.id in snapshot.left else f"{ME}/1"
    tally = snapshot.tallies.get(state.id, UNSPENT)
    return (head.status, state.agent, owner, None, state.position, state.seq, *tally)


@cache
def _ddl() -> list[str]:
    say, indexes = Compiler(DIALECT), [index for table in TABLES for index in table.indexes]
    return [say.ddl(CreateTable(table)) for table in TABLES] + [say.ddl(CreateIndex(index)) for index in indexes]


def _write(session: SqliteSession, rows: Rows, more: Sequence[Write] = ()) -> None:
    sql = statements(DIALECT)
    session.begin()
    session.commit([*rows.in_order(sql.writes), *more])
