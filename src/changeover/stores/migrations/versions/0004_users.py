"""Migration 0004: users and titles of conversations, the order of lists, tokens and the audit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from alembic import op

from changeover.relay.projection.rows import title_of

revision = "0004"
down_revision = "0003"

PAGE = 1_000
"""Conversations that are read at once."""


def upgrade() -> None:
    op.add_column("conversations", sa.Column("user_name", sa.Text, nullable=False, server_default=""))
    op.add_column("conversations", sa.Column("title", sa.Text, nullable=False, server_default=""))
    op.add_column("conversations", sa.Column("said_at", sa.Double, nullable=False, server_default="0"))
    _fill()
    op.create_index("conversations_said", "conversations", ["said_at", "number"])
    _partial("conversations_user", ["user_name", "said_at", "number"], "user_name != ''")
    _partial("conversations_halted", ["status", "said_at", "number"], "status <> 'running' AND status <> 'completed'")
    _partial("conversations_tree", ["root"], "parent IS NOT NULL")
    op.create_index("tasks_created", "tasks", ["created_at", "conversation", "position"])
    op.create_index("approvals_requested", "approvals", ["requested_at", "id"])
    _access()


def _partial(name: str, columns: Sequence[str], where: str) -> None:
    op.create_index(name, "conversations", columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


def _fill() -> None:
    """Users and titles come from the first entry of each log, and the time of the last message from the messages."""
    said = "SELECT max(at) FROM messages WHERE messages.conversation = conversations.id AND kind = 'user_message'"
    op.execute(f"UPDATE conversations SET said_at = coalesce(({said}), created_at)")
    connection = op.get_bind()
    first = "FROM conversations c JOIN entries e ON e.conversation = c.number AND e.position = 0"
    page = sa.text(f"SELECT c.number, c.parent, e.body {first} WHERE c.number > :after ORDER BY c.number LIMIT {PAGE}")
    update = sa.text("UPDATE conversations SET user_name = :user, title = :title WHERE number = :number")
    after = 0
    while rows := connection.execute(page, {"after": after}).all():
        connection.execute(update, [_filled(*row) for row in rows])
        after = rows[-1][0]


def _filled(number: int, parent: str | None, body: str) -> dict[str, Any]:
    events: list[dict[str, Any]] = msgspec.json.decode(body)
    spoken = next((event for event in events if event.get("event") == "user_spoke"), {})
    user = "" if parent else str(spoken.get("user", "")).replace("\0", "\ufffd")
    return {"number": number, "user": user, "title": title_of(str(spoken.get("text", "")))}


def _access() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", sa.Text, primary_key=True, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("digest", "user", "role", "agents", "approval_roles")),
        sa.Column("everything", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        *(sa.Column(name, sa.Double, nullable=True) for name in ("expires_at", "used_at", "revoked_at")),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.Text, primary_key=True, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("actor", "token", "action", "subject", "detail")),
    )
    op.create_index("audit_at", "audit", ["at", "id"])
