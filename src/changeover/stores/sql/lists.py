"""SqlLists: reads the read models of a database as records."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any

import msgspec
import sqlalchemy as sa

from changeover.errors import ConversationNotFound
from changeover.facts import HandoffRecord
from changeover.ids import below
from changeover.relay.events import Entry
from changeover.relay.lists import (
    EVERYTHING,
    PAGE,
    ApprovalRow,
    ConversationRow,
    HandoffRow,
    MessageRow,
    R,
    Record,
    TaskRow,
)
from changeover.relay.result import handoffs_in
from changeover.relay.tables import Tried
from changeover.stores.codec import check_order, entry_of
from changeover.stores.sql import schema
from changeover.stores.sql.compiler import ONE, ZERO, Compiler, Statement, bind
from changeover.stores.sql.database import Call, Row
from changeover.stores.sql.measures import SqlMeasures
from changeover.stores.sql.statements import RUNNING, left, statements
from changeover.stores.sql.trials import TrialReader

JSON = frozenset({"context", "variables", "arguments", "roles"})
"""Columns whose text is JSON."""

TABLES: dict[type[Record], tuple[sa.Table, tuple[str, ...]]] = {
    ConversationRow: (schema.conversations, ("-updated_at", "-number")),
    TaskRow: (schema.tasks, ("-created_at", "-conversation", "-position")),
    MessageRow: (schema.messages, ("seq", "part")),
    HandoffRow: (schema.handoffs, ("-offered_at", "-id")),
    ApprovalRow: (schema.approvals, ("-requested_at", "-id")),
}
"""The table of each kind of record, and its order."""


Ask = Callable[[Call], Awaitable[list[Row]]]
"""Runs a query."""


class SqlLists:
    """Reads with one function for queries whose answer is small, and another for those that may be large."""

    def __init__(self, dialect: str, small: Ask, large: Ask) -> None:
        self._dialect, self._small, self._large = dialect, small, large

    async def listed(
        self,
        kind: type[R],
        wanted: Mapping[str, str] = EVERYTHING,
        within: str | None = None,
        limit: int = PAGE,
        roots: bool = False,
    ) -> list[R]:
        values: dict[str, Any] = {**wanted, "limit": limit}
        if within is not None:
            prefix = below(within)
            values |= {"conversation_": within, "prefix_": prefix, "length_": len(prefix)}
        query = _listing(self._dialect, kind, tuple(sorted(wanted)), within is not None, roots)
        return [_record(kind, row) for row in await self._small(query(**values))]

    async def one(self, kind: type[R], id: str) -> R | None:
        return next(iter(await self.listed(kind, {"id": id}, limit=1)), None)

    async def tree(self, conversation: str) -> list[Entry]:
        prefix = below(conversation)
        tree = statements(self._dialect).feed.tree(conversation=conversation, prefix=prefix, length=len(prefix))
        logs: dict[str, list[Entry]] = {}
        entries = [entry_of(row) for row in await self._small(tree)]
        for entry in entries:
            logs.setdefault(entry.conversation, []).append(entry)
        for id, log in logs.items():
            check_order(id, log)
        return entries

    async def handoffs(self, conversation: str) -> list[HandoffRecord]:
        if not (entries := await self.tree(conversation)):
            raise ConversationNotFound(conversation)
        return handoffs_in(entries)

    @property
    def measures(self) -> SqlMeasures:
        return SqlMeasures(statements(self._dialect).measures, self._large)

    @property
    def trials(self) -> Tried:
        return TrialReader(statements(self._dialect).trials, self._large)


def _record(kind: type[R], row: Row) -> R:
    named = zip(kind.__struct_fields__, row, strict=True)
    return kind(**{name: msgspec.json.decode(value) if name in JSON else value for name, value in named})


@cache
def _listing(dialect: str, kind: type[Record], wanted: tuple[str, ...], within: bool, roots: bool) -> Statement:
    table, order = TABLES[kind]
    columns: dict[str, sa.ColumnElement[Any]] = dict(table.c)
    if table in STATUSES:
        columns["status"] = STATUSES[table]()
    query = sa.select(*(columns[name] for name in kind.__struct_fields__))
    query = query.where(*(columns[name] == bind(name) for name in wanted))
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


def _conversation_status() -> sa.ColumnElement[str]:
    """The status of a conversation as it is now: one that goes on is interrupted unless a live process owns it."""
    return sa.case((sa.and_(RUNNING, left()), _text("interrupted")), else_=schema.conversations.c.status)


def _task_status() -> sa.ColumnElement[str]:
    """The status of a task as it is now: that of its conversation while the task is under way. One that has only been
    given to its agent stays pending while the conversation waits. The column keeps what was recorded."""
    task, conversation = schema.tasks.c, schema.conversations.c
    begun = task.status.in_([_text("pending"), _text("running")])
    now = sa.select(_conversation_status()).where(conversation.id == task.conversation).scalar_subquery()
    is_given = sa.and_(task.status == _text("pending"), now == _text("waiting"))
    return sa.case((sa.or_(~begun, is_given), task.status), else_=sa.func.coalesce(now, task.status))


STATUSES = {schema.tasks: _task_status, schema.conversations: _conversation_status}
"""Statuses that are worked out when they are read."""


def _text(value: str) -> sa.ColumnElement[str]:
    return sa.literal_column(f"'{value}'", sa.Text)
