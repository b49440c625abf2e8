"""Migration 0003: agents, tools, skills and team settings that are declared as data."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

STATES = "state IN ('enabled', 'disabled', 'removed')"


def upgrade() -> None:
    op.create_table(
        "declarations",
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("edition", sa.Integer, nullable=False),
        sa.Column("rank", sa.Integer, nullable=False),
        *_content(),
        sa.CheckConstraint("kind IN ('agent', 'tool', 'skill', 'team')", name="declarations_kind_check"),
        sa.CheckConstraint(STATES, name="declarations_state_check"),
    )
    op.create_index("declarations_edition", "declarations", ["edition"])
    types = "type IN ('handoff', 'internal', 'http_api', 'mcp_server', 'sql_function')"
    op.create_table(
        "tools",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        *_content(),
        sa.CheckConstraint(types, name="tools_type_check"),
        sa.CheckConstraint(STATES, name="tools_state_check"),
    )


def _content() -> list[sa.Column[str] | sa.Column[float]]:
    return [
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("written_at", sa.Double, nullable=False),
        sa.Column("written_by", sa.Text, nullable=False),
    ]
