"""Migration 0006: events, their deliveries, and schedules."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "bus_events",
        sa.Column("number", sa.Integer, primary_key=True),
        *_texts("id", "team", "type", "source", "subject"),
        sa.Column("key", sa.Text),
        sa.Column("at", sa.Double, nullable=False),
        *_texts("data", "attributes"),
        sa.UniqueConstraint("id", name="bus_events_id"),
        sa.UniqueConstraint("team", "key", name="bus_events_key"),
    )
    op.create_index("bus_events_at", "bus_events", ["team", "number"])
    op.create_table(
        "bus_deliveries",
        sa.Column("event", sa.Integer, primary_key=True, nullable=False, autoincrement=False),
        sa.Column("subscriber", sa.Text, primary_key=True, nullable=False),
        *_texts("team", "source", "state"),
        sa.Column("ready", sa.Boolean, nullable=False),
        sa.Column("due", sa.Double, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("until", sa.Double),
        sa.Column("attempts", sa.Integer, nullable=False),
        *_texts("error", "started"),
        sa.Column("updated_at", sa.Double, nullable=False),
        sa.CheckConstraint("state IN ('waiting', 'done', 'dead')", name="bus_deliveries_state_check"),
    )
    _index("bus_deliveries_lane", ["team", "subscriber", "source", "event"], "state = 'waiting'")
    _index("bus_deliveries_ready", ["team", "subscriber", "event"], "state = 'waiting' AND ready")
    _index("bus_deliveries_dead", ["team", "event"], "state = 'dead'")
    _index("bus_deliveries_held", ["owner"], "owner IS NOT NULL")
    op.create_table(
        "schedules",
        *(sa.Column(name, sa.Text, primary_key=True, nullable=False) for name in ("team", "name")),
        sa.Column("handled", sa.Double, nullable=False),
        *_texts("plan"),
        sa.Column("paused", sa.Boolean, nullable=False),
        *_texts("last_event"),
    )


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def _index(name: str, columns: list[str], where: str) -> None:
    condition = sa.text(where)
    op.create_index(name, "bus_deliveries", columns, sqlite_where=condition, postgresql_where=condition)
