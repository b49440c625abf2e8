"""The tables: the log, processes, read models and side tables, one schema for both databases."""

from __future__ import annotations

from typing import Any, TypeAlias

from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    Double,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    TextClause,
    UniqueConstraint,
    column,
    literal_column,
    text,
)

from changeover.relay.ports.declarations import KINDS, STANDINGS, TOOL_TYPES
from changeover.stores.sql.columns import (
    added_column,
    declared,
    number_column,
    one_of,
    prefixed_key,
    team_column,
    text_column,
    time_column,
)
from changeover.stores.tables import AGENTS, AUDIT, BREAKERS, CONTEXTS, MEASURES, RESETS, TOKENS, WORKERS

VERSION = "0008"
"""The schema that this version of the code reads and writes; the name of the last migration."""

METADATA = MetaData()


Expression: TypeAlias = ColumnElement[Any] | TextClause


def _index(name: str, query: str, *columns: Expression, where: Expression | None = None) -> None:
    """An index, and a query that needs it: a statement, or a list. An index costs every row that is written."""
    Index(name, *columns, sqlite_where=where, postgresql_where=where, info={"query": query})


conversations = Table(
    "conversations",
    METADATA,
    # Ids are long and random; numbers keep the log small, and put new rows at the end of the index.
    Column("number", Integer, primary_key=True),
    text_column("id"),
    text_column("root"),
    Column("parent", Text),
    text_column("status"),
    text_column("agent"),
    Column("owner", Text),
    Column("due", Double),
    number_column("position"),
    number_column("seq"),
    number_column("turns"),
    number_column("handoffs"),
    number_column("tokens"),
    Column("cost", Double),
    text_column("agents"),
    time_column("created_at"),
    time_column("updated_at"),
    team_column(),
    added_column("user_name", Text, ""),
    added_column("title", Text, ""),
    added_column("said_at", Double, "0"),
    UniqueConstraint("id", name="conversations_id"),
)
"""Conversations: `position` is the end of the log, `due` the time at which one without an owner has to be taken up.
On the row of a root, `seq` is the last one of its tree, and `turns` to `agents` are what the tree of its run has spent,
once it has delegates; a cost of NULL is unknown. `user_name` is the user to whom a root belongs; `said_at` is the time
of the last message, by which lists are ordered: unlike `updated_at` it does not change with every append."""

_index("conversations_said", "list conversations", conversations.c.said_at, conversations.c.number)
_owned = column("user_name") != literal_column("''")
_by_user = (conversations.c.user_name, conversations.c.said_at, conversations.c.number)
_index("conversations_user", "list conversations by user", *_by_user, where=_owned)
# Few: a conversation that runs and completes is never among them.
_halted = text("status <> 'running' AND status <> 'completed'")
_by_status = (conversations.c.status, conversations.c.said_at, conversations.c.number)
_index("conversations_halted", "list conversations by status", *_by_status, where=_halted)
_delegated = column("parent").is_not(None)
_index("conversations_tree", "list conversations within", conversations.c.root, where=_delegated)
_running = column("status") == literal_column("'running'")
_index("conversations_running", "log.unfinished", conversations.c.owner, where=_running)
_timed = column("due").is_not(None)
_index("conversations_due", "log.unfinished", conversations.c.due, where=_timed)

entries = Table(
    "entries",
    METADATA,
    number_column("conversation", key=True),
    number_column("position", key=True),
    Column("root", Integer),
    text_column("cause"),
    time_column("at"),
    number_column("seq"),
    number_column("schema"),
    text_column("body"),
    UniqueConstraint("conversation", "cause", name="entries_cause"),
)
"""The log: one row per append, its events as JSON. `conversation` and `root` are numbers; a root has no `root`."""

_of_a_child = column("root").is_not(None)
# Partial: a root's own entries are found by its number, so a conversation without children pays nothing.
_index("entries_tree", "feed.news", entries.c.root, entries.c.seq, where=_of_a_child)

processes = Table(
    "processes",
    METADATA,
    text_column("id", key=True),
    number_column("epoch"),
    time_column("until"),
    text_column("host"),
    number_column("pid"),
    time_column("started_at"),
)
"""Leases: one row per open store, renewed while its process lives. An owner is `<id>/<epoch>`."""

tasks = Table(
    "tasks",
    METADATA,
    text_column("conversation", key=True),
    number_column("position", key=True),
    text_column("id"),
    text_column("master_id"),
    Column("parent_id", Text),
    text_column("run_id"),
    Column("handoff_id", Text),
    text_column("agent"),
    text_column("status"),
    time_column("created_at"),
    time_column("updated_at"),
    text_column("context"),
    text_column("input"),
    Column("output", Text),
)
"""One agent's part of a run per row: pending, running, waiting, completed, failed or cancelled."""

# With the key: the cursor of a page is the last time and key.
_index("tasks_created", "list tasks", tasks.c.created_at, tasks.c.conversation, tasks.c.position)

messages = Table(
    "messages",
    METADATA,
    text_column("conversation", key=True),
    number_column("position", key=True),
    number_column("part", key=True),
    number_column("seq"),
    text_column("kind"),
    Column("task_id", Text),
    Column("agent", Text),
    Column("call", Text),
    time_column("at"),
    text_column("content"),
)
"""Messages, calls, results and notes in the order of the log; one event may add several rows."""

ledgers = Table(
    "ledgers",
    METADATA,
    text_column("conversation", key=True),
    number_column("run", key=True),
    text_column("agent", key=True),
    time_column("ended_at"),
    time_column("elapsed"),
    number_column("handoffs"),
    number_column("turns"),
    number_column("retries"),
    number_column("input_tokens"),
    number_column("output_tokens"),
    Column("cost", Double),
)
"""What each agent spent in each ended run of its own conversation: the rows of a tree add up. `elapsed` is the time of
the run; a cost of NULL is unknown."""

_index("ledgers_ended", "measures.expenses", ledgers.c.ended_at)

steps = Table(
    "steps",
    METADATA,
    text_column("conversation", key=True),
    number_column("run", key=True),
    text_column("step", key=True),
    text_column("workflow"),
    text_column("status"),
    time_column("ended_at"),
    Column("elapsed", Double),
    number_column("retries"),
    number_column("input_tokens"),
    number_column("output_tokens"),
    Column("cost", Double),
)
"""The steps of each ended run of a workflow, but for those that did not begin. `ended_at` is the end of the run,
`elapsed` the time from the first attempt at the step to its end, NULL if it was skipped or cancelled; a cost of NULL is
unknown."""

# With the key: the cursor of a page is the last of these.
_index("steps_ended", "measures.steps", steps.c.ended_at, steps.c.conversation, steps.c.run, steps.c.step)

handoffs = Table(
    "handoffs",
    METADATA,
    prefixed_key("id"),
    text_column("conversation"),
    text_column("run_id"),
    text_column("sender_task_id"),
    Column("task_id", Text),
    text_column("sender"),
    text_column("receiver"),
    text_column("mode"),
    text_column("state"),
    text_column("tool"),
    text_column("strategy"),
    text_column("merge"),
    time_column("offered_at"),
    Column("accepted_at", Double),
    Column("ended_at", Double),
    Column("deadline", Double),
    number_column("attempt"),
    Column("retry_of", Text),
    text_column("variables"),
    text_column("message"),
    Column("reason", Text),
    number_column("tokens_before"),
    number_column("tokens_after"),
    Column("strategy_error", Text),
    Column("capability", Text),
)
"""Every handoff that was offered; `task_id` is the receiver's task, a delegate's in its own conversation. `retry_of` is
the declined handoff before it; `reason` says why this one was declined or failed; the tokens are those of the sender's
context and of the part that the receiver got; `capability` is set if the receiver was found by a search."""

# With the id: the cursor of a page is the last time and id.
_index("handoffs_offered", "list handoffs", handoffs.c.offered_at, handoffs.c.id)
_looked_for = column("capability").is_not(None)
_learnt = (handoffs.c.capability, handoffs.c.ended_at)
_index("handoffs_learnt", "lessons.outcomes", *_learnt, where=_looked_for)

unlearned = declared(RESETS, METADATA)
"""Resets of learned outcomes: those that ended by `at` do not count; an empty name means all."""

refusals = Table(
    "refusals",
    METADATA,
    text_column("conversation", key=True),
    number_column("position", key=True),
    time_column("at"),
    text_column("sender"),
    text_column("receiver"),
    text_column("kind"),
    text_column("reason"),
)
"""Handoffs that a guard, a condition or a rule refused before the offer: a deadlock, or another reason."""

_index("refusals_at", "measures.refused", refusals.c.at)

limits = Table(
    "limits",
    METADATA,
    text_column("conversation", key=True),
    number_column("position", key=True),
    time_column("at"),
    text_column("agent"),
    text_column("kind"),
)
"""Limits that conversations have reached, such as max_handoffs, and the agent that worked then; one row for each event
that says so."""

_index("limits_at", "measures.limits", limits.c.at)

trials = Table(
    "trials",
    METADATA,
    text_column("conversation", key=True),
    text_column("experiment", key=True),
    text_column("variant"),
    time_column("at"),
)
"""The variant of each experiment in a root's tree, from its first use."""

_index("trials_experiment", "trials.own", trials.c.experiment)

measures = declared(MEASURES, METADATA)
"""Users' measures of their conversations, such as satisfaction."""

approvals = Table(
    "approvals",
    METADATA,
    prefixed_key("id"),
    text_column("kind"),
    text_column("conversation"),
    text_column("root"),
    text_column("call"),
    text_column("task_id"),
    text_column("agent"),
    text_column("tool"),
    text_column("receiver"),
    text_column("message"),
    text_column("arguments"),
    text_column("status"),
    time_column("requested_at"),
    Column("expires_at", Double),
    text_column("on_expiry"),
    Column("decided_at", Double),
    Column("decided_by", Text),
    Column("note", Text),
    text_column("roles"),
)
"""Requests to people: pending, approved, rejected, edited, responded, expired or withdrawn."""

_pending = column("status") == literal_column("'pending'")
_index("approvals_requested", "list approvals", approvals.c.requested_at, approvals.c.id)
# By conversation: a withdrawal finds those of one conversation; a list reads them all.
_index("approvals_pending", "views.approvals", approvals.c.conversation, where=_pending)

tickets = Table(
    "tickets",
    METADATA,
    text_column("id", key=True),
    text_column("agent"),
    text_column("conversation"),
    text_column("place"),
    text_column("root"),
    number_column("priority"),
    # Infinity if there is no deadline, so that one index orders all tickets.
    time_column("deadline"),
    time_column("at"),
    time_column("turn"),
    Column("owner", Text),
    Column("until", Double),
    number_column("attempts"),
    Column("rests", Boolean, nullable=False),
    team_column(),
)
"""Work that waits for a claim: `at` is when it began to wait, `turn` the time by which it is ordered. `owner` is the
token of the last claim, which may have expired; `attempts` counts the claims since work last went on."""

_takeable = text("owner IS NULL AND NOT rests")
_by_turn = (tickets.c.team, tickets.c.agent, text("priority DESC"), tickets.c.deadline, tickets.c.turn, tickets.c.id)
_index("tickets_waiting", "queue.take", *_by_turn, tickets.c.attempts, where=_takeable)
_held = column("owner").is_not(None)
_index("tickets_held", "queue.lease_left", tickets.c.until, where=_held)
_tried = column("attempts") > literal_column("0")
_index("tickets_tried", "queue.lapsed", tickets.c.attempts, where=_tried)
_index("tickets_tree", "forget.tickets", tickets.c.root, tickets.c.turn)

workers = declared(WORKERS, METADATA)
"""Workers and the agents that they serve, as JSON; one that has not renewed its row by `until` is gone."""

contexts = declared(CONTEXTS, METADATA)
"""Contexts that receivers can fetch, per tree; without `expires_at` they do not expire."""

_expiring = column("expires_at").is_not(None)
_index("contexts_expiring", "contexts.sweep", contexts.c.expires_at, where=_expiring)

breakers = declared(BREAKERS, METADATA)
"""Circuit breaker state of each receiver that ever failed or was opened by hand; open since `opened_at` if that is
set."""

breaker_openings = Table(
    "breaker_openings",
    METADATA,
    text_column("receiver", key=True),
    number_column("number", key=True),
    time_column("at"),
)
"""The time of each opening of a circuit."""

agents = declared(AGENTS, METADATA)
"""Changes to agents beside their declarations: a profile as JSON, NULL if as declared. `version` counts the changes of
the row, which is never deleted."""

tokens = declared(TOKENS, METADATA)
"""Tokens of the server's callers; of each secret only a digest is stored."""

audit = declared(AUDIT, METADATA)
"""Changes to declarations and tokens, each with the user who made it; rows are only added."""

_index("audit_at", "list audit", audit.c.at, audit.c.id)


declarations = Table(
    "declarations",
    METADATA,
    text_column("kind", key=True),
    text_column("name", key=True),
    number_column("version", key=True),
    number_column("edition"),
    number_column("rank"),
    text_column("state"),
    text_column("document"),
    time_column("written_at"),
    text_column("written_by"),
    one_of("kind", KINDS, "declarations"),
    one_of("state", STANDINGS, "declarations"),
)
"""Agents, tools, skills, workflows and team settings that are declared as data: one row for each version, the document
as JSON. Rows are never changed. `edition` numbers the changes of the whole store, `rank` the declarations in the order
in which they were first written."""

_index("declarations_edition", "declarations.edition", declarations.c.edition)

tools = Table(
    "tools",
    METADATA,
    text_column("name", key=True),
    text_column("type"),
    number_column("version"),
    text_column("state"),
    text_column("document"),
    time_column("written_at"),
    text_column("written_by"),
    one_of("type", TOOL_TYPES, "tools"),
    one_of("state", STANDINGS, "tools"),
)
"""The current version of each tool in `declarations`."""

bus_events = Table(
    "bus_events",
    METADATA,
    Column("number", Integer, primary_key=True),
    text_column("id"),
    text_column("team"),
    text_column("type"),
    text_column("source"),
    text_column("subject"),
    Column("key", Text),
    time_column("at"),
    text_column("data"),
    text_column("attributes"),
    UniqueConstraint("id", name="bus_events_id"),
    UniqueConstraint("team", "key", name="bus_events_key"),
)
"""Published events in the order of publication; data and attributes are JSON, and an event without a key has NULL."""

_index("bus_events_at", "outbox.events", bus_events.c.team, bus_events.c.number)

bus_deliveries = Table(
    "bus_deliveries",
    METADATA,
    number_column("event", key=True),
    text_column("subscriber", key=True),
    text_column("team"),
    text_column("source"),
    text_column("state"),
    Column("ready", Boolean, nullable=False),
    time_column("due"),
    Column("owner", Text),
    Column("until", Double),
    number_column("attempts"),
    text_column("error"),
    text_column("started"),
    time_column("updated_at"),
    one_of("state", ("waiting", "done", "dead"), "bus_deliveries"),
)
"""An event (by number) and a subscriber per row: waiting, done or dead. It is `ready` once the earlier events of the
same source are done or dead, and `due` for its next attempt. `owner` is the token of the last process that took it,
whose lease lasts until `until`."""

_lane = (bus_deliveries.c.team, bus_deliveries.c.subscriber, bus_deliveries.c.source, bus_deliveries.c.event)
_undone = column("state") == literal_column("'waiting'")
_index("bus_deliveries_lane", "outbox.follow", *_lane, where=_undone)
_open_now = text("state = 'waiting' AND ready")
_by_number = (bus_deliveries.c.team, bus_deliveries.c.subscriber, bus_deliveries.c.event)
_index("bus_deliveries_ready", "outbox.take", *_by_number, where=_open_now)
_given_up = column("state") == literal_column("'dead'")
_index("bus_deliveries_dead", "outbox.dead", bus_deliveries.c.team, bus_deliveries.c.event, where=_given_up)
_given_out = column("owner").is_not(None)
_index("bus_deliveries_held", "outbox.renew", bus_deliveries.c.owner, where=_given_out)

schedules = Table(
    "schedules",
    METADATA,
    text_column("team", key=True),
    text_column("name", key=True),
    time_column("handled"),
    text_column("plan"),
    Column("paused", Boolean, nullable=False),
    text_column("last_event"),
)
"""Schedules: due times up to `handled` are handled; `plan` is the cron expression and the time zone that this counts
for."""

forgotten = Table("forgotten", METADATA, number_column("number", key=True))
"""The highest number of a removed conversation. SQLite would reuse it, and a process that cached the old conversation
would confuse the two; the sequence of PostgreSQL never repeats a number."""

version = Table(
    "changeover_version",
    METADATA,
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="changeover_version_pkc"),
)
"""The migration of this database, as Alembic stores it. Not `alembic_version`: that may be the user's own."""
