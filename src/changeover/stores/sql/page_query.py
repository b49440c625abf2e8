"""The query of one page of a list, whose filters and order go by an index."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import sqlalchemy as sa

from changeover.relay.ports.lists import (
    ApprovalRow,
    ConversationRow,
    HandoffRow,
    MessageRow,
    Order,
    Record,
    RunRow,
    TaskRow,
)
from changeover.relay.ports.tokens import Audited
from changeover.stores.sql import schema
from changeover.stores.sql.compiler import ONE, ZERO, Compiler, Statement, bind
from changeover.stores.sql.statements import RUNNING, left

Columns = Mapping[str, sa.ColumnElement[Any]]

conversations, tasks, handoffs = schema.conversations.c, schema.tasks.c, schema.handoffs.c
HALTED = ("waiting", "failed", "cancelled")
"""Statuses that have an index of their own; most conversations have none of them."""


class Listing(NamedTuple):
    """One page as it is asked for, without the values of its filters."""

    kind: type[Record]
    order: Order
    wanted: frozenset[str]
    """Columns with a value that is asked for."""
    status: str
    """The status that is asked for, "" if any: it decides which index serves."""
    within: bool
    roots: bool
    owned: bool
    """True if the user that is asked for has a name, so that an index serves."""
    after: bool
    """True if there was a page before."""


@cache
def page(dialect: str, listing: Listing) -> Statement:
    """The statement of a page; its rows hold the fields of the record, then those of the order's key."""
    source, compiler = SOURCES[listing.kind], Compiler(dialect)
    columns, order = source.columns(compiler), listing.order
    key = [source.table.c[name] for name in order.columns]
    query: sa.Select[Any] = sa.select(*(columns[name] for name in listing.kind.__struct_fields__), *key)
    query = query.where(*source.always, *_filters(listing, source, columns, compiler))
    if listing.after:
        bound = [bind(f"after_{index}", column.type) for index, column in enumerate(key)]
        reached, last = (sa.tuple_(*key), sa.tuple_(*bound)) if len(key) > 1 else (key[0], bound[0])
        query = query.where(reached < last if order.descending else reached > last)
    if listing.within:
        query = _within(query, source, compiler)
    query = query.order_by(*(column.desc() if order.descending else column for column in key))
    return compiler(query.limit(bind("limit", sa.Integer)).offset(ZERO))


def _filters(listing: Listing, source: Source, columns: Columns, compiler: Compiler) -> list[sa.ColumnElement[bool]]:
    found: list[sa.ColumnElement[bool]] = []
    for name in sorted(listing.wanted):
        if name in BELONGING and listing.kind is not ConversationRow:
            found.append(_of_root(source, BELONGING[name] == bind(name, sa.Text)))
        elif name == "text":
            found.append(sa.or_(*(_has(compiler, column) for column in (conversations.title, conversations.id))))
        elif name == "user" and listing.roots:
            found.append(conversations.user_name == bind(name))
        else:
            found.append(columns[name] == bind(name))
    if listing.kind is ConversationRow:
        found += _hints(listing)
    return found


BELONGING = {"user": conversations.user_name, "team": conversations.team}
"""Columns that a record has from the root of its conversation."""


def _of_root(source: Source, condition: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """The condition, applied to the root of the record's tree."""
    return sa.exists().where(conversations.id == source.root(), condition)


def _hints(listing: Listing) -> list[sa.ColumnElement[bool]]:
    """Conditions that follow from the filters, and that a database needs to see before it uses a partial index."""
    hints: list[sa.ColumnElement[bool]] = []
    if listing.roots:
        hints.append(conversations.parent.is_(None))
    if listing.status in HALTED:
        hints += [conversations.status != _text(each) for each in ("running", "completed")]
        hints.append(conversations.status == bind("status"))
    elif listing.status in ("running", "interrupted"):
        hints.append(RUNNING)
    if listing.owned and listing.roots:
        hints.append(conversations.user_name != _text(""))
    return hints


def _has(compiler: Compiler, column: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    # As it is too: which letters PostgreSQL can put into lower case depends on its locale.
    find, text = sa.func.strpos if compiler.postgresql else sa.func.instr, bind("text", sa.Text)
    return sa.or_(find(column, text) > ZERO, find(sa.func.lower(column), sa.func.lower(text)) > ZERO)


def _within(query: sa.Select[Any], source: Source, compiler: Compiler) -> sa.Select[Any]:
    """The query, for a conversation and those below it: each is looked up by its id."""
    one, below, top = (schema.conversations.alias() for _ in range(3))
    root = sa.select(top.c.root).where(top.c.id == bind("conversation_")).scalar_subquery()
    begins = sa.func.substr(below.c.id, ONE, bind("length_", sa.Integer)) == bind("prefix_", sa.Text)
    tree = sa.union_all(
        sa.select(one.c.id).where(one.c.id == bind("conversation_")),
        sa.select(below.c.id).where(below.c.parent.is_not(None), below.c.root == root, begins),
    ).subquery()
    if source.table not in (schema.handoffs, schema.approvals):
        own = source.table.c.id if source.table is schema.conversations else source.table.c.conversation
        return query.where(own == tree.c.id)
    return query.where(_between(source.table.c.id, tree.c.id, ":;", compiler))


def _between(id: sa.ColumnElement[str], conversation: Any, marks: str, compiler: Compiler) -> sa.ColumnElement[bool]:
    """True for ids that begin with that of a conversation and the first mark; the second is the character after it.

    The ids of handoffs and requests begin with that of their conversation and a colon, so those of one conversation lie
    in a range; those of all conversations below it begin with its id and a slash.
    """
    begin, beyond = (conversation + _text(mark) for mark in marks)
    if compiler.postgresql:
        begin, beyond = (sa.collate(each, "C") for each in (begin, beyond))
    return sa.and_(id >= begin, id < beyond)


def _conversation_status() -> sa.ColumnElement[str]:
    """The status of a conversation as it is now: one that goes on is interrupted unless a live process owns it."""
    return sa.case((sa.and_(RUNNING, left()), _text("interrupted")), else_=conversations.status)


def _task_status(task: Any) -> sa.ColumnElement[str]:
    """The status of a task as it is now: that of its conversation while the task is under way. One that has only been
    given to its agent stays pending while the conversation waits. The column keeps what was recorded."""
    begun = task.status.in_([_text("pending"), _text("running")])
    now = sa.select(_conversation_status()).where(conversations.id == task.conversation).scalar_subquery()
    is_given = sa.and_(task.status == _text("pending"), now == _text("waiting"))
    return sa.case((sa.or_(~begun, is_given), task.status), else_=sa.func.coalesce(now, task.status))


def _conversation_columns(compiler: Compiler) -> Columns:
    root = schema.conversations.alias()
    whose = sa.select(root.c.user_name).where(root.c.id == conversations.root).scalar_subquery()
    user = sa.case((conversations.parent.is_(None), conversations.user_name), else_=whose)
    passed = sum((_accepted(marks, compiler) for marks in (":;", "/0")), start=ZERO)
    return {**dict(conversations), "status": _conversation_status(), "user": user, "handoffs": passed}


def _accepted(marks: str, compiler: Compiler) -> sa.ColumnElement[int]:
    """Number of accepted handoffs of a conversation, or of all below it. The column `handoffs` is for limits."""
    offered = schema.handoffs.alias()
    own = _between(offered.c.id, conversations.id, marks, compiler)
    counted = sa.select(sa.func.count()).where(own, offered.c.accepted_at.is_not(None))
    return counted.correlate(schema.conversations).scalar_subquery()


def _run_columns(_: Compiler) -> Columns:
    """The columns of a run: its row is that of its first task, and its outcome is in its last one."""
    last, counted = schema.tasks.alias(), schema.tasks.alias()

    def of_last(column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
        same = last.c.conversation == tasks.conversation, last.c.run_id == tasks.run_id
        newest = sa.select(column).where(*same).order_by(last.c.position.desc())
        return newest.limit(ONE).offset(ZERO).correlate(schema.tasks).scalar_subquery()

    same = counted.c.conversation == tasks.conversation, counted.c.run_id == tasks.run_id
    return {
        **dict(tasks),
        "id": tasks.run_id,
        "first_agent": tasks.agent,
        "agent": of_last(last.c.agent),
        "status": of_last(_task_status(last.c)),
        "tasks": sa.select(sa.func.count()).where(*same).correlate(schema.tasks).scalar_subquery(),
        "output": of_last(last.c.output),
        "updated_at": of_last(last.c.updated_at),
    }


def _root_of(table: sa.Table) -> Callable[[], sa.ColumnElement[str]]:
    def root() -> sa.ColumnElement[str]:
        place = schema.conversations.alias()
        found = sa.select(place.c.root).where(place.c.id == table.c.conversation)
        return found.correlate(table).scalar_subquery()

    return root


def _text(value: str) -> sa.ColumnElement[str]:
    return sa.literal_column(f"'{value}'", sa.Text)


class Source(NamedTuple):
    """The table of a kind of record."""

    table: sa.Table
    columns: Callable[[Compiler], Columns]
    """The columns of its records; some are worked out when they are read."""
    root: Callable[[], sa.ColumnElement[Any]] = sa.null
    """The root of the tree that a record belongs to."""
    always: tuple[sa.ColumnElement[bool], ...] = ()
    """Conditions that hold for all records of the kind."""


SOURCES: dict[type[Record], Source] = {
    ConversationRow: Source(schema.conversations, _conversation_columns, lambda: conversations.root),
    RunRow: Source(schema.tasks, _run_columns, lambda: tasks.master_id, (tasks.parent_id.is_(None),)),
    TaskRow: Source(schema.tasks, lambda _: {**dict(tasks), "status": _task_status(tasks)}, lambda: tasks.master_id),
    MessageRow: Source(schema.messages, lambda _: dict(schema.messages.c), _root_of(schema.messages)),
    HandoffRow: Source(schema.handoffs, lambda _: dict(handoffs), _root_of(schema.handoffs)),
    ApprovalRow: Source(schema.approvals, lambda _: dict(schema.approvals.c), lambda: schema.approvals.c.root),
    Audited: Source(schema.audit, lambda _: dict(schema.audit.c)),
}
