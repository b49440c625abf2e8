"""Views: read-only queries over a store's tables, as records, and a check of its log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from changeover.errors import ConversationNotFound, StoreUnavailable
from changeover.facts import HandoffRecord
from changeover.ids import below
from changeover.relay.events import Entry
from changeover.relay.result import handoffs_in
from changeover.relay.state import State
from changeover.stores.codec import entry_of
from changeover.stores.sql import schema
from changeover.stores.sql.compiler import ONE, ZERO, Compiler, Statement, bind
from changeover.stores.sql.database import Database
from changeover.stores.sql.measures import SqlMeasures
from changeover.stores.sql.reader import Reader
from changeover.stores.sql.statements import statements
from changeover.stores.sql.trials import TrialReader
from changeover.stores.store import Store, database_of
from changeover.stores.upgrade import version_found

JSON = frozenset({"context", "variables", "arguments", "roles"})
"""Columns whose text is JSON."""


class ConversationRow(Struct, frozen=True, kw_only=True):
    """How a conversation stands; of a root, `turns` and `handoffs` are what its tree has spent in the last run."""

    id: str
    root: str
    parent: str | None
    status: str
    agent: str
    turns: int
    handoffs: int
    created_at: float
    updated_at: float


class TaskRow(Struct, frozen=True, kw_only=True):
    """One agent's leg of a run."""

    id: str
    master_id: str
    parent_id: str | None
    conversation: str
    run_id: str
    handoff_id: str | None
    agent: str
    status: str
    created_at: float
    updated_at: float
    context: dict[str, Any]
    input: str
    output: str | None


class MessageRow(Struct, frozen=True, kw_only=True):
    """Something that was said or done in a task."""

    seq: int
    kind: str
    agent: str | None
    call: str | None
    at: float
    content: str


class HandoffRow(Struct, frozen=True, kw_only=True):
    """A handoff that was offered."""

    id: str
    conversation: str
    run_id: str
    sender: str
    receiver: str
    mode: str
    state: str
    tool: str
    strategy: str
    sender_task_id: str
    task_id: str | None
    offered_at: float
    accepted_at: float | None
    ended_at: float | None
    deadline: float | None
    attempt: int
    retry_of: str | None
    variables: dict[str, Any]
    message: str
    reason: str | None
    tokens_before: int
    tokens_after: int
    strategy_error: str | None


class ApprovalRow(Struct, frozen=True, kw_only=True):
    """Something that a person was asked."""

    id: str
    kind: str
    conversation: str
    root: str
    agent: str
    tool: str
    receiver: str
    message: str
    arguments: dict[str, Any]
    status: str
    requested_at: float
    expires_at: float | None
    on_expiry: str
    decided_at: float | None
    decided_by: str | None
    note: str | None
    roles: list[str]


Record = ConversationRow | TaskRow | MessageRow | HandoffRow | ApprovalRow
R = TypeVar("R", ConversationRow, TaskRow, MessageRow, HandoffRow, ApprovalRow)

TABLES: dict[type[Record], tuple[sa.Table, tuple[str, ...]]] = {
    ConversationRow: (schema.conversations, ("-updated_at", "-number")),
    TaskRow: (schema.tasks, ("-created_at", "-conversation", "-position")),
    MessageRow: (schema.messages, ("seq", "part")),
    HandoffRow: (schema.handoffs, ("-offered_at", "-id")),
    ApprovalRow: (schema.approvals, ("-requested_at", "-id")),
}
"""Where each kind of record is kept, and in which order people look at it."""


def record_of(kind: type[R], row: tuple[Any, ...]) -> R:
    """A row as a record."""
    named = zip(kind.__struct_fields__, row, strict=True)
    return kind(**{name: msgspec.json.decode(value) if name in JSON else value for name, value in named})


PAGE = 200
"""How many conversations are looked at together when all of them are."""
NOTHING: Mapping[str, Any] = MappingProxyType({})


class Views:
    """Reads the tables of a store; writes nothing, and counts as no process that works there."""

    def __init__(self, database: Database) -> None:
        self._database, self._reader = database, Reader(database)
        self._log = statements(database.dialect).log
        self._feed = statements(database.dialect).feed

    def close(self) -> None:
        self._reader.close()

    async def listed(
        self,
        kind: type[R],
        wanted: Mapping[str, str] = NOTHING,
        within: str | None = None,
        limit: int = PAGE,
        roots: bool = False,
    ) -> list[R]:
        """The newest records with these values in their columns; only those within a conversation's tree, if given;
        of conversations, only roots if that is wanted."""
        values: dict[str, Any] = {**wanted, "limit": limit}
        if within is not None:
            values |= {"conversation_": within, "prefix_": below(within), "length_": len(below(within))}
        query = _listing(self._database.dialect, kind, tuple(sorted(wanted)), within is not None, roots)
        return [record_of(kind, row) for row in await self._reader.rows(query(**values))]

    async def one(self, kind: type[R], id: str) -> R | None:
        """The record of this id."""
        return next(iter(await self.listed(kind, {"id": id}, limit=1)), None)

    @property
    def measures(self) -> SqlMeasures:
        """What can be counted there."""
        return SqlMeasures(statements(self._database.dialect).measures, self._reader.large)

    @property
    def trials(self) -> TrialReader:
        """What came of experiments there."""
        return TrialReader(statements(self._database.dialect).trials, self._reader.large)

    async def tree(self, conversation: str) -> list[Entry]:
        """All that was recorded of a conversation and its delegates, in order."""
        prefix = below(conversation)
        tree = self._feed.tree(conversation=conversation, prefix=prefix, length=len(prefix))
        return [entry_of(row) for row in await self._reader.rows(tree)]

    async def handoffs(self, conversation: str) -> list[HandoffRecord]:
        """Every handoff of a conversation and its delegates, in the order in which they were offered."""
        entries = await self.tree(conversation)
        if not entries:
            raise ConversationNotFound(conversation)
        return handoffs_in(entries)

    async def checked(self) -> AsyncIterator[tuple[str, str]]:
        """Every conversation, and what is wrong with its log, if anything is."""
        after = 0
        page = _page(self._database.dialect)
        while rows := await self._reader.rows(page(after=after, limit=PAGE)):
            for _, id, position in rows:
                yield id, await self._fault(id, position)
            after = rows[-1][0]

    async def _fault(self, conversation: str, end: int) -> str:
        try:
            rows = await self._reader.rows(self._log.read(conversation=conversation, after=0))
            state = State(conversation)
            for entry in map(entry_of, rows):
                if entry.position != state.position:
                    return f"the log goes on at {entry.position}, and should at {state.position}"
                state.fold([entry])
        except Exception as error:  # whatever it is that does not hold, it is what was looked for
            return f"the log cannot be read: {type(error).__name__}: {error}"
        if state.unreadable:
            return f"a newer version wrote {state.unreadable!r}, which this one does not know"
        return "" if state.position == end else f"the log ends at {state.position}, and its table says {end}"


def open_views(store: Store) -> Views:
    """Look at a store that is there and current; raises StoreUnavailable otherwise, and makes nothing."""
    database = existing(store)
    found = version_of(database)
    if found is None:
        raise StoreUnavailable(f"the store {database.shown} has no tables; make them with: changeover db upgrade")
    if found != schema.VERSION:
        raise StoreUnavailable(
            f"the store {database.shown} has tables of version {found}, and this version of changeover reads"
            f" {schema.VERSION}; see: changeover db current"
        )
    return Views(database)


def existing(store: Store) -> Database:
    """The database of a store; raises StoreUnavailable if it is a file that does not exist."""
    if store.url.startswith("sqlite:") and not Path(store.url.removeprefix("sqlite:///")).exists():
        raise StoreUnavailable(f"the store {store.url} does not exist; `changeover run` or `db upgrade` would make it")
    return database_of(store)


def version_of(database: Database) -> str | None:
    """The version of a store's tables, None if it has none."""
    session = database.connect()
    try:
        return version_found(database, session)
    except StoreUnavailable:
        raise
    except Exception as error:
        raise StoreUnavailable(f"the store {database.shown} cannot be read: {error}") from error
    finally:
        session.close()


@cache
def _listing(dialect: str, kind: type[Record], wanted: tuple[str, ...], within: bool, roots: bool) -> Statement:
    table, order = TABLES[kind]
    query = sa.select(*(table.c[name] for name in kind.__struct_fields__))
    query = query.where(*(table.c[name] == bind(name) for name in wanted))
    if roots:
        query = query.where(table.c.parent.is_(None))
    if within:
        own = table.c.get("conversation", table.c.get("id"))
        assert own is not None
        below = sa.func.substr(own, ONE, bind("length_", sa.Integer)) == bind("prefix_", sa.Text)
        query = query.where(sa.or_(own == bind("conversation_"), below))
    keys = [table.c[key.lstrip("-")] for key in order]
    query = query.order_by(*(key.desc() if name[0] == "-" else key for name, key in zip(order, keys, strict=True)))
    return Compiler(dialect)(query.limit(bind("limit", sa.Integer)).offset(ZERO))


@cache
def _page(dialect: str) -> Statement:
    c = schema.conversations.c
    query = sa.select(c.number, c.id, c.position).where(c.number > bind("after", sa.Integer)).order_by(c.number)
    return Compiler(dialect)(query.limit(bind("limit", sa.Integer)).offset(ZERO))
