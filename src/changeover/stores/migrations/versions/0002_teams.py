"""Migration 0002: the team of each conversation and ticket. Those that are there belong to the default team."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    for table in ("conversations", "tickets"):
        op.add_column(table, sa.Column("team", sa.Text, nullable=False, server_default="default"))
    op.drop_index("tickets_waiting", "tickets")
    order: list[str | sa.TextClause] = ["team", "agent", sa.text("priority DESC"), "deadline", "turn", "id", "attempts"]
    free = sa.text("owner IS NULL AND NOT rests")
    op.create_index("tickets_waiting", "tickets", order, sqlite_where=free, postgresql_where=free)
