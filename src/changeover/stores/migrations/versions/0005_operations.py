"""Migration 0005: limits that conversations reached, and workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    limits = op.create_table(
        "limits",
        sa.Column("conversation", sa.Text, primary_key=True, nullable=False),
        sa.Column("position", sa.Integer, primary_key=True, nullable=False, autoincrement=False),
        sa.Column("at", sa.Double, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("agent", "kind")),
    )
    op.create_index("limits_at", "limits", ["at"])
    op.create_table(
        "workers",
        *(sa.Column(name, sa.Text, primary_key=True, nullable=False) for name in ("team", "name", "agents")),
        *(sa.Column(name, sa.Double, nullable=False) for name in ("started_at", "until")),
    )
    if found := list(_reached()):
        op.bulk_insert(limits, found)


def _reached() -> Iterator[dict[str, Any]]:
    """The limits that the logs say were reached, without the agents."""
    log = "SELECT c.id, e.position, e.at, e.body FROM entries e JOIN conversations c ON c.number = e.conversation"
    found = op.get_bind().execute(sa.text(f"{log} WHERE e.body LIKE '%\"limit%\"%'"))
    for conversation, position, at, body in found:
        for index, event in enumerate(msgspec.json.decode(body)):
            if kind := _limit(event):
                yield {"conversation": conversation, "position": position + index, "at": at, "agent": "", "kind": kind}


def _limit(event: dict[str, Any]) -> str:
    match event:
        case {"event": "limit_reached", "limit": str(limit)}:
            return limit
        case {"event": "run_failed" | "run_stopped", "fault": {"type": "limit", "limit": str(limit)}}:
            return limit
        case _:
            return ""
