"""The tables: the log, processes, read models and side tables, one schema for both databases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from msgspec.structs import fields
from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    Double,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    column,
    literal_column,
    text,
)
from sqlalchemy.types import TypeEngine

from changeover.ids import DEFAULT_TEAM
from changeover.relay.declarations import KINDS, STANDINGS, TOOL_TYPES
from changeover.stores.tables import AGENTS, AUDIT, BREAKERS, CONTEXTS, MEASURES, RESETS, TOKENS, TableSpec

VERSION = "0004"
"""The schema that this version of the code reads and writes; the name of the last migration."""

METADATA = MetaData()

_TYPES: dict[type, type[TypeEngine[Any]]] = {str: Text, int: Integer, float: Double, bool: Boolean}
_BYTES = Text().with_variant(Text(collation="C"), "postgresql")


def _text(name: str, *, key: bool = False) -> Column[str]:
    return Column(name, Text, primary_key=key, nullable=False)


def _prefixed(name: str) -> Column[str]:
    """A key that begins with the id of a conversation, so that a range of keys finds the rows of a conversation."""
    # Compared by byte, whatever the collation of the database: only then do keys with one prefix form a range.
    return Column(name, _BYTES, primary_key=True, nullable=False)


def _number(name: str, *, key: bool = False) -> Column[int]:
    return Column(name, Integer, primary_key=key, nullable=False, autoincrement=False)


def _time(name: str) -> Column[float]:
    """Seconds since the epoch."""
    return Column(name, Double, nullable=False)


def _added(name: str, kind: type[TypeEngine[Any]], default: str) -> Column[Any]:
    """A column that a migration added; the rows of older versions get this value."""
    return Column(name, kind, nullable=False, server_default=default)


def _team() -> Column[str]:
    """The name of a team; rows of versions without names belong to the default one."""
    return _added("team", Text, DEFAULT_TEAM)


def _declared(spec: TableSpec[Any]) -> Table:
    """The table of a TableSpec."""
    columns = []
    for field in fields(spec.row):
        kinds = get_args(field.type) or (field.type,)
        key, optional = field.name in spec.key, type(None) in kinds
        columns.append(Column(field.name, _TYPES[kinds[0]], primary_key=key, nullable=optional))
    return Table(spec.name, METADATA, *columns)


conversations = Table(
    "conversations",
    METADATA,
    # Ids are long and random; numbers keep the log small, and put new rows at the end of the index.
    Column("number", Integer, primary_key=True),
    _text("id"),
    _text("root"),
    Column("parent", Text),
    _text("status"),
    _text("agent"),
    Column("owner", Text),
    Column("due", Double),
    _number("position"),
    _number("seq"),
    _number("turns"),
    _number("handoffs"),
    _number("tokens"),
    Column("cost", Double),
    _text("agents"),
    _time("created_at"),
    _time("updated_at"),
    _team(),
    _added("user_name", Text, ""),
    _added("title", Text, ""),
    _added("said_at", Double, "0"),
    UniqueConstraint("id", name="conversations_id"),
)
"""Conversations: `position` is the end of the log, `due` the time at which one without an owner has to be taken up.
On the row of a root, `seq` is the last one of its tree, and `turns` to `agents` are what the tree of its run has spent,
once it has delegates; a cost of NULL is unknown. `user_name` is the user to whom a root belongs; `said_at` is the time
of the last message, by which lists are ordered: unlike `updated_at` it does not change with every append."""

Index("conversations_said", conversations.c.said_at, conversations.c.number)
_owned = column("user_name") != literal_column("''")
_by_user = (conversations.c.user_name, conversations.c.said_at, conversations.c.number)
Index("conversations_user", *_by_user, sqlite_where=_owned, postgresql_where=_owned)
# Few: a conversation that runs and completes is never among them.
_halted = text("status <> 'running' AND status <> 'completed'")
_by_status = (conversations.c.status, conversations.c.said_at, conversations.c.number)
Index("conversations_halted", *_by_status, sqlite_where=_halted, postgresql_where=_halted)
_delegated = column("parent").is_not(None)
Index("conversations_tree", conversations.c.root, sqlite_where=_delegated, postgresql_where=_delegated)
_running = column("status") == literal_column("'running'")
Index("conversations_running", conversations.c.owner, sqlite_where=_running, postgresql_where=_running)
_timed = column("due").is_not(None)
Index("conversations_due", conversations.c.due, sqlite_where=_timed, postgresql_where=_timed)

entries = Table(
    "entries",
    METADATA,
    _number("conversation", key=True),
    _number("position", key=True),
    Column("root", Integer),
    _text("cause"),
    _time("at"),
    _number("seq"),
    _number("schema"),
    _text("body"),
    UniqueConstraint("conversation", "cause", name="entries_cause"),
)
"""The log: one row per append, its events as JSON. `conversation` and `root` are numbers; a root has no `root`."""

_of_a_child = column("root").is_not(None)
# Partial: a root's own entries are found by its number, so a conversation without children pays nothing.
Index("entries_tree", entries.c.root, entries.c.seq, sqlite_where=_of_a_child, postgresql_where=_of_a_child)

processes = Table(
    "processes",
    METADATA,
    _text("id", key=True),
    _number("epoch"),
    _time("until"),
    _text("host"),
    _number("pid"),
    _time("started_at"),
)
"""Leases: one row per open store, renewed while its process lives. An owner is `<id>/<epoch>`."""

tasks = Table(
    "tasks",
    METADATA,
    _text("conversation", key=True),
    _number("position", key=True),
    _text("id"),
    _text("master_id"),
    Column("parent_id", Text),
    _text("run_id"),
    Column("handoff_id", Text),
    _text("agent"),
    _text("status"),
    _time("created_at"),
    _time("updated_at"),
    _text("context"),
    _text("input"),
    Column("output", Text),
)
"""One agent's part of a run per row: pending, running, waiting, completed, failed or cancelled."""

# With the key: the cursor of a page is the last time and key.
Index("tasks_created", tasks.c.created_at, tasks.c.conversation, tasks.c.position)

messages = Table(
    "messages",
    METADATA,
    _text("conversation", key=True),
    _number("position", key=True),
    _number("part", key=True),
    _number("seq"),
    _text("kind"),
    Column("task_id", Text),
    Column("agent", Text),
    Column("call", Text),
    _time("at"),
    _text("content"),
)
"""Messages, calls, results and notes in the order of the log; one event may add several rows."""

ledgers = Table(
    "ledgers",
    METADATA,
    _text("conversation", key=True),
    _number("run", key=True),
    _text("agent", key=True),
    _time("ended_at"),
    _time("elapsed"),
    _number("handoffs"),
    _number("turns"),
    _number("retries"),
    _number("input_tokens"),
    _number("output_tokens"),
    Column("cost", Double),
)
"""What each agent spent in each ended run of its own conversation: the rows of a tree add up. `elapsed` is the time of
the run; a cost of NULL is unknown."""

Index("ledgers_ended", ledgers.c.ended_at)

handoffs = Table(
    "handoffs",
    METADATA,
    _prefixed("id"),
    _text("conversation"),
    _text("run_id"),
    _text("sender_task_id"),
    Column("task_id", Text),
    _text("sender"),
    _text("receiver"),
    _text("mode"),
    _text("state"),
    _text("tool"),
    _text("strategy"),
    _text("merge"),
    _time("offered_at"),
    Column("accepted_at", Double),
    Column("ended_at", Double),
    Column("deadline", Double),
    _number("attempt"),
    Column("retry_of", Text),
    _text("variables"),
    _text("message"),
    Column("reason", Text),
    _number("tokens_before"),
    _number("tokens_after"),
    Column("strategy_error", Text),
    Column("capability", Text),
)
"""Every handoff that was offered; `task_id` is the receiver's task, a delegate's in its own conversation. `retry_of` is
the declined handoff before it; `reason` says why this one was declined or failed; the tokens are those of the sender's
context and of the part that the receiver got; `capability` is set if the receiver was found by a search."""

# With the id: the cursor of a page is the last time and id.
Index("handoffs_offered", handoffs.c.offered_at, handoffs.c.id)
_looked_for = column("capability").is_not(None)
_learnt = (handoffs.c.capability, handoffs.c.ended_at)
Index("handoffs_learnt", *_learnt, sqlite_where=_looked_for, postgresql_where=_looked_for)

unlearned = _declared(RESETS)
"""Resets of learned outcomes: those that ended by `at` do not count; an empty name means all."""

refusals = Table(
    "refusals",
    METADATA,
    _text("conversation", key=True),
    _number("position", key=True),
    _time("at"),
    _text("sender"),
    _text("receiver"),
    _text("kind"),
    _text("reason"),
)
"""Handoffs that a guard, a condition or a rule refused before the offer: a deadlock, or another reason."""

Index("refusals_at", refusals.c.at)

trials = Table(
    "trials",
    METADATA,
    _text("conversation", key=True),
    _text("experiment", key=True),
    _text("variant"),
    _time("at"),
)
"""The variant of each experiment in a root's tree, from its first use."""

Index("trials_experiment", trials.c.experiment)

measures = _declared(MEASURES)
"""Users' measures of their conversations, such as satisfaction."""

approvals = Table(
    "approvals",
    METADATA,
    _prefixed("id"),
    _text("kind"),
    _text("conversation"),
    _text("root"),
    _text("call"),
    _text("task_id"),
    _text("agent"),
    _text("tool"),
    _text("receiver"),
    _text("message"),
    _text("arguments"),
    _text("status"),
    _time("requested_at"),
    Column("expires_at", Double),
    _text("on_expiry"),
    Column("decided_at", Double),
    Column("decided_by", Text),
    Column("note", Text),
    _text("roles"),
)
"""Requests to people: pending, approved, rejected, edited, responded, expired or withdrawn."""

_pending = column("status") == literal_column("'pending'")
# By conversation: a withdrawal finds those of one conversation; a list reads them all.
Index("approvals_requested", approvals.c.requested_at, approvals.c.id)
Index("approvals_pending", approvals.c.conversation, sqlite_where=_pending, postgresql_where=_pending)

tickets = Table(
    "tickets",
    METADATA,
    _text("id", key=True),
    _text("agent"),
    _text("conversation"),
    _text("place"),
    _text("root"),
    _number("priority"),
    # Infinity if there is no deadline, so that one index orders all tickets.
    _time("deadline"),
    _time("at"),
    _time("turn"),
    Column("owner", Text),
    Column("until", Double),
    _number("attempts"),
    Column("rests", Boolean, nullable=False),
    _team(),
)
"""Work that waits for a claim: `at` is since when, `turn` the time by which it is ordered. `owner` is the token of the
last claim, which may have expired; `attempts` counts the claims since work last went on."""

_takeable = text("owner IS NULL AND NOT rests")
Index(
    "tickets_waiting",
    *(tickets.c.team, tickets.c.agent, text("priority DESC"), tickets.c.deadline, tickets.c.turn, tickets.c.id),
    tickets.c.attempts,
    sqlite_where=_takeable,
    postgresql_where=_takeable,
)
_held = column("owner").is_not(None)
Index("tickets_held", tickets.c.until, sqlite_where=_held, postgresql_where=_held)
_tried = column("attempts") > literal_column("0")
Index("tickets_tried", tickets.c.attempts, sqlite_where=_tried, postgresql_where=_tried)
Index("tickets_tree", tickets.c.root, tickets.c.turn)

contexts = _declared(CONTEXTS)
"""Contexts that receivers can fetch, per tree; without `expires_at` they do not expire."""

_expiring = column("expires_at").is_not(None)
Index("contexts_expiring", contexts.c.expires_at, sqlite_where=_expiring, postgresql_where=_expiring)

breakers = _declared(BREAKERS)
"""Circuit breaker state of each receiver that ever failed; open since `opened_at` if that is set."""

breaker_openings = Table(
    "breaker_openings", METADATA, _text("receiver", key=True), _number("number", key=True), _time("at")
)
"""The time of each opening of a circuit."""

agents = _declared(AGENTS)
"""Changes to agents beside their declarations: a profile as JSON, NULL if as declared. `version` counts the changes of
the row, which is never deleted."""

tokens = _declared(TOKENS)
"""Tokens of the server's callers; of each secret only a digest is stored."""

audit = _declared(AUDIT)
"""Who changed declarations and tokens; rows are only added."""

Index("audit_at", audit.c.at, audit.c.id)


def _among(column: str, values: Sequence[str], table: str) -> CheckConstraint:
    """The condition that a column holds one of these words."""
    listed = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({listed})", name=f"{table}_{column}_check")


declarations = Table(
    "declarations",
    METADATA,
    _text("kind", key=True),
    _text("name", key=True),
    _number("version", key=True),
    _number("edition"),
    _text("state"),
    _text("document"),
    _time("written_at"),
    _text("written_by"),
    _among("kind", KINDS, "declarations"),
    _among("state", STANDINGS, "declarations"),
)
"""Agents, tools, skills and team settings that are declared as data: one row for each version, the document as JSON.
Rows are never changed. `edition` numbers the changes of the whole store."""

Index("declarations_edition", declarations.c.edition)

tools = Table(
    "tools",
    METADATA,
    _text("name", key=True),
    _text("type"),
    _number("version"),
    _text("state"),
    _text("document"),
    _time("written_at"),
    _text("written_by"),
    _among("type", TOOL_TYPES, "tools"),
    _among("state", STANDINGS, "tools"),
)
"""The current version of each tool in `declarations`."""

forgotten = Table("forgotten", METADATA, _number("number", key=True))
"""The highest number of a removed conversation. SQLite would reuse it, and a process that cached the old conversation
would confuse the two; the sequence of PostgreSQL never repeats a number."""

version = Table(
    "changeover_version",
    METADATA,
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="changeover_version_pkc"),
)
"""The migration of this database, as Alembic stores it. Not `alembic_version`: that may be the user's own."""
