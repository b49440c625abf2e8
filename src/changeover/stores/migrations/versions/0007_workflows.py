"""Migration 0007: workflows that are declared as data."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

CHECK = ("kind IN ('agent', 'tool', 'skill', 'team', 'workflow')", "declarations_kind_check")


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        _copy()
    else:
        op.drop_constraint(CHECK[1], "declarations", type_="check")
        op.create_check_constraint(CHECK[1], "declarations", CHECK[0])


def _copy() -> None:
    """Copy the table: SQLite cannot change a constraint."""
    op.drop_index("declarations_edition", "declarations")
    op.rename_table("declarations", "declarations_before")
    op.create_table(
        "declarations",
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        *(sa.Column(name, sa.Integer, nullable=False) for name in ("edition", "rank")),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("state", "document")),
        sa.Column("written_at", sa.Double, nullable=False),
        sa.Column("written_by", sa.Text, nullable=False),
        sa.CheckConstraint(CHECK[0], name=CHECK[1]),
        sa.CheckConstraint("state IN ('enabled', 'disabled', 'removed')", name="declarations_state_check"),
    )
    op.execute("INSERT INTO declarations SELECT * FROM declarations_before")
    op.drop_table("declarations_before")
    op.create_index("declarations_edition", "declarations", ["edition"])
