"""Check: reads the log of every conversation, and compares the read models with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import sqlalchemy as sa

from changeover.errors import StoreDamaged
from changeover.relay.events import Entry
from changeover.relay.ports.lists import PAGE, ApprovalRow, ConversationRow, HandoffRow, MessageRow, TaskRow
from changeover.relay.projection.admission import ENDED
from changeover.relay.state import State
from changeover.stores.codec import log_of
from changeover.stores.memory.lists import DIALECT, Snapshot, projected
from changeover.stores.sql import schema
from changeover.stores.sql.compiler import ZERO, Compiler, Statement, bind
from changeover.stores.sql.database import Call, Row
from changeover.stores.sql.lists import Ask, SqlLists
from changeover.stores.sql.statements import statements

ALL = 2**31 - 2
"""No limit: one more, which a page looks for, is the largest number that PostgreSQL takes as an integer."""

COMPARED: dict[str, tuple[type[TaskRow | HandoffRow | MessageRow | ApprovalRow], tuple[str, ...]]] = {
    "tasks": (TaskRow, ("id", "agent", "status")),
    "handoffs": (HandoffRow, ("id", "sender", "receiver", "state")),
    "messages": (MessageRow, ("seq", "kind", "call")),
    "approvals": (ApprovalRow, ("id", "status")),
}
"""The records and fields that are compared. Texts are not: another version may have worded them differently."""

UNDER_WAY = frozenset({"pending", "running", "interrupted", "waiting"})
"""Statuses of tasks that change with the process that works on them; they compare as equal."""


class Check:
    """Checks a store while others may use it."""

    def __init__(self, dialect: str, ask: Ask, stored: SqlLists) -> None:
        self._dialect, self._ask, self._stored = dialect, ask, stored

    async def conversations(self) -> AsyncIterator[tuple[str, str]]:
        """The id of every conversation, each with its fault; "" if it is sound. Conversations that only other tables
        know come last; a log whose conversation is missing is named by its number."""
        after, page = 0, _page(self._dialect)
        while rows := await self._ask(page(after=after, limit=PAGE)):
            for _, id in rows:
                yield id, await self._fault(id)
            after = rows[-1][0]
        for number, count in await self._ask(_lost_logs(self._dialect)()):
            yield f"number {number}", f"its log has {count} entries, but the table conversations lacks it"
        lost = {id: table for table in COMPARED for (id,) in await self._ask(_lost_rows(self._dialect, table)())}
        for id, table in lost.items():
            yield id, f"the table {table} has rows of it, but the table conversations lacks it"

    async def _fault(self, conversation: str) -> str:
        try:
            entries = await self._entries(conversation)
            state = State(conversation).fold(entries)
            if state.unreadable:
                return f"a newer version wrote {state.unreadable!r}, which this one does not know"
            while entries and (fault := await self._difference(conversation, entries)):
                before, entries = len(entries), await self._entries(conversation)
                if len(entries) == before:  # else a process recorded something while the tables were read
                    return fault
        except StoreDamaged as error:
            return error.problem
        except Exception as error:  # any error is a fault of the conversation
            return f"it cannot be read: {type(error).__name__}: {error}"
        return ""

    async def _entries(self, conversation: str) -> list[Entry]:
        return log_of(await self._ask(statements(self._dialect).log.read(conversation=conversation, after=0)))

    async def _difference(self, conversation: str, entries: list[Entry]) -> str:
        """The first table that does not say what the log says; "" if there is none."""
        with _computed(entries) as computed:
            both = (computed, self._stored)
            expected, found = [await _status(lists, conversation) for lists in both]
            if expected != found:
                return f"the table conversations says that it is {found}, but by the log it is {expected}"
            for name, (kind, fields) in COMPARED.items():
                rows, stored = [await _rows(lists, conversation, kind, fields) for lists in both]
                if lacking := rows - stored:
                    return f"the table {name} lacks {dict(zip(fields, min(lacking, key=repr), strict=True))}"
                if extra := stored - rows:
                    return f"the log knows nothing of {dict(zip(fields, min(extra, key=repr), strict=True))} in {name}"
        return ""


@contextmanager
def _computed(entries: list[Entry]) -> Iterator[SqlLists]:
    """The read models as they are computed from a log."""
    session = projected(Snapshot([entries]))

    async def ask(call: Call) -> list[Row]:
        return session.ask(call)

    try:
        yield SqlLists(DIALECT, ask, ask)
    finally:
        session.close()


async def _status(lists: SqlLists, conversation: str) -> str:
    row = await lists.one(ConversationRow, conversation)
    if row is None:
        return "missing"
    return row.status if row.status in ENDED else "not over"


async def _rows(lists: SqlLists, conversation: str, kind: type[Any], fields: Sequence[str]) -> Counter[Row]:
    records: list[Any] = await lists.listed(kind, {"conversation": conversation}, limit=ALL)
    return Counter(tuple(_compared(record, field) for field in fields) for record in records)


def _compared(record: Any, field: str) -> Any:
    value = getattr(record, field)
    return "under way" if isinstance(record, TaskRow) and field == "status" and value in UNDER_WAY else value


@cache
def _lost_logs(dialect: str) -> Statement:
    """The numbers that only the log knows, each with the number of its entries."""
    e = schema.entries.c
    known = sa.exists().where(schema.conversations.c.number == e.conversation)
    query = sa.select(e.conversation, sa.func.count()).where(~known).group_by(e.conversation)
    return Compiler(dialect)(query.order_by(e.conversation))


@cache
def _lost_rows(dialect: str, table: str) -> Statement:
    """The ids of conversations that only this table knows."""
    id = schema.METADATA.tables[table].c.conversation
    known = sa.exists().where(schema.conversations.c.id == id)
    return Compiler(dialect)(sa.select(id).where(~known).distinct().order_by(id))


@cache
def _page(dialect: str) -> Statement:
    c = schema.conversations.c
    query = sa.select(c.number, c.id).where(c.number > bind("after", sa.Integer)).order_by(c.number)
    return Compiler(dialect)(query.limit(bind("limit", sa.Integer)).offset(ZERO))
