"""Migration 0008: figures of the steps of workflows. Runs that ended before it have none."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.create_table(
        "steps",
        sa.Column("conversation", sa.Text, primary_key=True),
        sa.Column("run", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("step", sa.Text, primary_key=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("workflow", "status")),
        sa.Column("ended_at", sa.Double, nullable=False),
        sa.Column("elapsed", sa.Double),
        *(sa.Column(name, sa.Integer, nullable=False) for name in ("retries", "input_tokens", "output_tokens")),
        sa.Column("cost", sa.Double),
    )
    op.create_index("steps_ended", "steps", ["ended_at", "conversation", "run", "step"])
