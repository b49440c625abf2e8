"""What the tables of a store hold, as records for people and programs to read."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from changeover.stores.sql import schema

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
