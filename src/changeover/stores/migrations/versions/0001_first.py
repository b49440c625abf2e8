"""Migration 0001: the log, processes, the read models and the side tables."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

BYTES = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    _log()
    _processes()
    _read_models()
    _trials()
    _approvals()
    _tickets()
    _contexts()
    _breakers()
    _agents()
    op.create_table("forgotten", sa.Column("number", sa.Integer, primary_key=True, autoincrement=False))


def _log() -> None:
    op.create_table(
        "conversations",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("root", sa.Text, nullable=False),
        sa.Column("parent", sa.Text),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("due", sa.Double),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("turns", sa.Integer, nullable=False),
        sa.Column("handoffs", sa.Integer, nullable=False),
        sa.Column("tokens", sa.Integer, nullable=False),
        sa.Column("cost", sa.Double),
        sa.Column("agents", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("updated_at", sa.Double, nullable=False),
        sa.UniqueConstraint("id", name="conversations_id"),
    )
    _partial_index("conversations_running", "conversations", ["owner"], "status = 'running'")
    _partial_index("conversations_due", "conversations", ["due"], "due IS NOT NULL")
    op.create_table(
        "entries",
        sa.Column("conversation", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("root", sa.Integer),
        sa.Column("cause", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("schema", sa.Integer, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.UniqueConstraint("conversation", "cause", name="entries_cause"),
    )
    _partial_index("entries_tree", "entries", ["root", "seq"], "root IS NOT NULL")


def _processes() -> None:
    op.create_table(
        "processes",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("until", sa.Double, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("started_at", sa.Double, nullable=False),
    )


def _read_models() -> None:
    op.create_table(
        "tasks",
        sa.Column("conversation", sa.Text, primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("master_id", sa.Text, nullable=False),
        sa.Column("parent_id", sa.Text),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("handoff_id", sa.Text),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("updated_at", sa.Double, nullable=False),
        sa.Column("context", sa.Text, nullable=False),
        sa.Column("input", sa.Text, nullable=False),
        sa.Column("output", sa.Text),
    )
    op.create_table(
        "messages",
        sa.Column("conversation", sa.Text, primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("part", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("task_id", sa.Text),
        sa.Column("agent", sa.Text),
        sa.Column("call", sa.Text),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
    )
    op.create_table(
        "ledgers",
        sa.Column("conversation", sa.Text, primary_key=True),
        sa.Column("run", sa.Integer, primary_key=True),
        sa.Column("agent", sa.Text, primary_key=True),
        sa.Column("ended_at", sa.Double, nullable=False),
        sa.Column("elapsed", sa.Double, nullable=False),
        sa.Column("handoffs", sa.Integer, nullable=False),
        sa.Column("turns", sa.Integer, nullable=False),
        sa.Column("retries", sa.Integer, nullable=False),
        sa.Column("input_tokens", sa.Integer, nullable=False),
        sa.Column("output_tokens", sa.Integer, nullable=False),
        sa.Column("cost", sa.Double),
    )
    op.create_index("ledgers_ended", "ledgers", ["ended_at"])
    _handoffs()


def _handoffs() -> None:
    op.create_table(
        "handoffs",
        sa.Column("id", BYTES, primary_key=True),
        sa.Column("conversation", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("sender_task_id", sa.Text, nullable=False),
        sa.Column("task_id", sa.Text),
        sa.Column("sender", sa.Text, nullable=False),
        sa.Column("receiver", sa.Text, nullable=False),
        sa.Column("mode", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("tool", sa.Text, nullable=False),
        sa.Column("strategy", sa.Text, nullable=False),
        sa.Column("merge", sa.Text, nullable=False),
        sa.Column("offered_at", sa.Double, nullable=False),
        sa.Column("accepted_at", sa.Double),
        sa.Column("ended_at", sa.Double),
        sa.Column("deadline", sa.Double),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("retry_of", sa.Text),
        sa.Column("variables", sa.Text, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("tokens_before", sa.Integer, nullable=False),
        sa.Column("tokens_after", sa.Integer, nullable=False),
        sa.Column("strategy_error", sa.Text),
        sa.Column("capability", sa.Text),
    )
    op.create_index("handoffs_offered", "handoffs", ["offered_at", "id"])
    _partial_index("handoffs_learnt", "handoffs", ["capability", "ended_at"], "capability IS NOT NULL")
    op.create_table(
        "unlearned",
        sa.Column("capability", sa.Text, primary_key=True),
        sa.Column("agent", sa.Text, primary_key=True),
        sa.Column("at", sa.Double, nullable=False),
    )
    op.create_table(
        "refusals",
        sa.Column("conversation", sa.Text, primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("sender", sa.Text, nullable=False),
        sa.Column("receiver", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
    )
    op.create_index("refusals_at", "refusals", ["at"])


def _trials() -> None:
    op.create_table(
        "trials",
        sa.Column("conversation", sa.Text, primary_key=True),
        sa.Column("experiment", sa.Text, primary_key=True),
        sa.Column("variant", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
    )
    op.create_index("trials_experiment", "trials", ["experiment"])
    op.create_table(
        "measures",
        sa.Column("conversation", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.Double, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
    )


def _approvals() -> None:
    op.create_table(
        "approvals",
        sa.Column("id", BYTES, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("conversation", sa.Text, nullable=False),
        sa.Column("root", sa.Text, nullable=False),
        sa.Column("call", sa.Text, nullable=False),
        sa.Column("task_id", sa.Text, nullable=False),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("tool", sa.Text, nullable=False),
        sa.Column("receiver", sa.Text, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("arguments", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("requested_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double),
        sa.Column("on_expiry", sa.Text, nullable=False),
        sa.Column("decided_at", sa.Double),
        sa.Column("decided_by", sa.Text),
        sa.Column("note", sa.Text),
        sa.Column("roles", sa.Text, nullable=False),
    )
    _partial_index("approvals_pending", "approvals", ["conversation"], "status = 'pending'")


def _tickets() -> None:
    op.create_table(
        "tickets",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("conversation", sa.Text, nullable=False),
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("root", sa.Text, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("deadline", sa.Double, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("turn", sa.Double, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("until", sa.Double),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("rests", sa.Boolean, nullable=False),
    )
    order: list[str | sa.TextClause] = ["agent", sa.text("priority DESC"), "deadline", "turn", "id", "attempts"]
    _partial_index("tickets_waiting", "tickets", order, "owner IS NULL AND NOT rests")
    _partial_index("tickets_held", "tickets", ["until"], "owner IS NOT NULL")
    _partial_index("tickets_tried", "tickets", ["attempts"], "attempts > 0")
    op.create_index("tickets_tree", "tickets", ["root", "turn"])


def _contexts() -> None:
    op.create_table(
        "contexts",
        sa.Column("root", sa.Text, primary_key=True),
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("expires_at", sa.Double),
        sa.Column("body", sa.Text, nullable=False),
    )
    _partial_index("contexts_expiring", "contexts", ["expires_at"], "expires_at IS NOT NULL")


def _breakers() -> None:
    op.create_table(
        "breakers",
        sa.Column("receiver", sa.Text, primary_key=True),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("openings", sa.Integer, nullable=False),
        sa.Column("opened_at", sa.Double),
        sa.Column("until", sa.Double),
        sa.Column("probe", sa.Text, nullable=False),
        sa.Column("cooldown", sa.Double, nullable=False),
        sa.Column("closed_at", sa.Double, nullable=False),
        sa.Column("forced", sa.Boolean, nullable=False),
    )
    op.create_table(
        "breaker_openings",
        sa.Column("receiver", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Double, nullable=False),
    )


def _agents() -> None:
    op.create_table(
        "agents",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("profile", sa.Text),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("removed", sa.Boolean, nullable=False),
        sa.Column("updated_at", sa.Double, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
    )


def _partial_index(name: str, table: str, columns: Sequence[str | sa.TextClause], where: str) -> None:
    condition = sa.text(where)
    op.create_index(name, table, columns, sqlite_where=condition, postgresql_where=condition)
