"""Statements: all SQL of the log, the feed, leases, read models and erasure, per dialect."""

from __future__ import annotations

from functools import cache
from typing import Any

import sqlalchemy as sa

from changeover.relay.projection.rows import FIELDS, TALLY, Name
from changeover.stores.sql.breakers import BreakerStatements
from changeover.stores.sql.compiler import ONE, ZERO, Compiler, Statement, bind, now, of_team
from changeover.stores.sql.declarations import DeclarationStatements
from changeover.stores.sql.experience import LessonStatements
from changeover.stores.sql.measures import MeasureStatements
from changeover.stores.sql.outbox_statements import OutboxStatements
from changeover.stores.sql.schema import (
    approvals,
    conversations,
    entries,
    forgotten,
    handoffs,
    ledgers,
    limits,
    measures,
    messages,
    processes,
    refusals,
    steps,
    tasks,
    tickets,
    trials,
)
from changeover.stores.sql.table import TableStatements
from changeover.stores.sql.tickets import QueueStatements
from changeover.stores.sql.trials import TrialStatements
from changeover.stores.tables import AGENTS, AUDIT, CONTEXTS, RESETS, TOKENS, WORKERS

conversation_columns, entry_columns, f = conversations.c, entries.c, forgotten.c

STANDING = (
    conversation_columns.number,
    conversation_columns.id,
    conversation_columns.status,
    conversation_columns.owner,
)


class ForgetStatements:
    """Checks whether a tree has ended, and removes it."""

    def __init__(self, say: Compiler) -> None:
        is_it = sa.and_(conversation_columns.id == bind("root"), conversation_columns.root == bind("root"))
        self.root = say(sa.select(*STANDING).where(is_it).with_for_update())
        below = sa.select(entry_columns.conversation).where(entry_columns.root == bind("number"))
        self.below = say(
            sa.select(*STANDING)
            .where(conversation_columns.number.in_(below))
            .order_by(conversation_columns.id)
            .with_for_update()
        )
        self.tickets = say(sa.select(tickets.c.conversation).where(tickets.c.root == bind("root")))
        self.entries = say(sa.delete(entries).where(entry_columns.conversation == bind("number")))
        self.conversations = say(sa.delete(conversations).where(conversation_columns.number == bind("number")))
        self.by_conversation = [
            say(sa.delete(table).where(table.c.conversation == bind("conversation")))
            for table in (tasks, messages, ledgers, steps, refusals, limits, trials, measures)
        ]
        self.by_id = [say(_of_a_conversation(table)) for table in (handoffs, approvals)]
        newest = sa.select(sa.func.max(f.number)).scalar_subquery()
        self.remember = None if say.postgresql else say(say.insert(forgotten).on_conflict_do_nothing())
        self.remember_only = None if say.postgresql else say(sa.delete(forgotten).where(f.number < newest))


def _of_a_conversation(table: sa.Table) -> sa.Delete:
    """Deletes the rows of one conversation, whose ids lie in a range."""
    begin = table.c.id >= bind("begin"), table.c.id < bind("beyond")
    which: list[sa.ColumnElement[Any]] = [*begin, table.c.conversation == bind("conversation")]
    return sa.delete(table).where(*which)


a, c, e, h, p = approvals.c, conversations.c, entries.c, handoffs.c, processes.c

ENTRY = sa.select(c.id, c.root, e.position, e.cause, e.at, e.body, e.seq, e.schema).where(e.conversation == c.number)
RUNNING = c.status == sa.literal_column("'running'")
PENDING = a.status == sa.literal_column("'pending'")


HELD = ("number", "position", "seq", "status", "owner")
"""The columns by which a cached row of a conversation is compared with the stored one."""

UNMOVED = f"""
WITH known AS (SELECT * FROM json_populate_recordset(CAST(NULL AS conversations), :known)), held AS (
  SELECT c.number FROM conversations AS c JOIN known ON c.number = known.number
  WHERE {" AND ".join(f"c.{name} = known.{name}" for name in HELD[1:])} ORDER BY c.id FOR UPDATE OF c)
SELECT 1 / CAST((SELECT count(*) FROM held) = (SELECT count(*) FROM known) AS integer)
"""
"""Locks the rows of conversations that this process has cached. It divides by zero if one differs from the cache: a
transaction that is sent whole, with its COMMIT, has no other way to stop."""


class LogStatements:
    """Appends to the log and reads it."""

    def __init__(self, say: Compiler) -> None:
        self.alive = say(sa.select(_name()).where(p.until > now()))
        columns = (c.number, c.id, c.position, c.seq, c.status, c.agent, c.owner, c.due, c.updated_at)
        places = sa.select(*columns, *(c[name] for name in TALLY)).where(say.among(c.id, "ids"))
        self.places = say(places.order_by(c.id).with_for_update())
        self.numbers = say(say.new_numbers())
        self.unmoved = say(sa.text(UNMOVED)) if say.postgresql else None
        leased = _name() == bind("me"), p.until > now()
        self.still_leased = say(sa.select(ONE / sa.func.count()).select_from(processes).where(*leased))
        here = c.id == bind("conversation")
        found = sa.select(e.position, e.at, e.seq, e.body).where(e.conversation == c.number)
        self.find = say(found.where(here, e.cause == bind("cause")))
        self.read = say(_log(e.position >= _number("after")).where(here))
        self.read_all = say(_of_each(say.each("ids"))) if say.postgresql else None
        # The time comes from a scalar subquery, evaluated once: PostgreSQL uses no index for a volatile function.
        due = c.due <= sa.select(now()).scalar_subquery()
        mine = left(), of_team(c.team)
        unowned = sa.select(c.id, c.root).where(RUNNING, *mine), sa.select(c.root, c.root).where(due, *mine)
        # Not ordered: that would read all conversations by id.
        self.unfinished = say(sa.union_all(*unowned))
        held = sa.select(p.host, p.pid, (p.until - now()).label("left"))
        self.holder = say(held.where(here, _name() == c.owner, p.until > now()))
        self.at_work = say(sa.select(c.id).where(RUNNING, c.agent == bind("agent"), of_team(c.team)))
        self.owned = say(sa.select(c.id, c.position).where(RUNNING, c.owner == bind("me")))


class FeedStatements:
    """Reads the entries of a tree, and new ones."""

    def __init__(self, say: Compiler) -> None:
        self.root = say(sa.select(c.number, c.seq).where(c.id == bind("root")))
        # By number: if the tree is removed, a later one with the same id is not confused with it.
        own, of_children = ENTRY.where(c.number == _number("root")), ENTRY.where(e.root == _number("root"))
        new = e.seq > _number("seq")
        self.news = _by_seq(say, own.where(new, e.position >= _number("position")), of_children.where(new))
        self.rest = _by_seq(say, own.where(e.position >= _own_before()), of_children.where(e.seq >= _children_before()))
        self.tree = _by_seq(say, ENTRY.where(c.id == bind("conversation")), _below())


class LeaseStatements:
    """Acquires, renews and ends the leases of processes."""

    def __init__(self, say: Compiler) -> None:
        me = sa.and_(p.id == bind("id"), p.epoch == _number("epoch"), p.until > now())
        until = now() + bind("lease", sa.Double)
        self.renew = say(sa.update(processes).where(me).values(until=until).returning(p.epoch))
        registered = say.insert(processes, until=until, started_at=now())
        anew = {"epoch": registered.excluded.epoch, "until": registered.excluded.until}
        self.register = say(registered.on_conflict_do_update(index_elements=[p.id], set_=anew))
        self.leave = say(sa.delete(processes).where(p.id == bind("id")))
        self.bury = say(sa.delete(processes).where(p.until <= now()))
        owned = sa.select(c.id).where(RUNNING, c.owner == bind("me")).order_by(c.id).with_for_update()
        self.release = say(sa.update(conversations).where(c.id.in_(owned)).values(owner=sa.null()))


class ViewStatements:
    """Reads the read models."""

    def __init__(self, say: Compiler) -> None:
        what = (a.conversation, a.call, a.agent, a.tool, a.arguments, a.receiver, a.message, a.kind)
        mine = c.id == a.conversation, of_team(c.team)
        pending = sa.select(*what, a.requested_at, a.expires_at, a.on_expiry, a.roles).where(PENDING, *mine)
        self.approvals = say(pending.order_by(a.requested_at, a.conversation, sa.func.length(a.call), a.call))


def writes(say: Compiler) -> dict[Name, Statement]:
    """The statement that writes each kind of row, by its name in `Rows`; parameters are in the order of the fields."""
    return {
        "new_conversations": say(say.insert(conversations, number=bind("number"))),
        "moved_conversations": say(_update(conversations, FIELDS["moved_conversations"])),
        "changed_conversations": say(_update(conversations, FIELDS["changed_conversations"])),
        "heard_conversations": say(_update(conversations, FIELDS["heard_conversations"])),
        "renamed_conversations": say(_update(conversations, FIELDS["renamed_conversations"])),
        "entries": say(say.insert(entries)),
        "tasks": say(say.insert(tasks)),
        "moved_tasks": say(_update(tasks, FIELDS["moved_tasks"], keys=2)),
        "widened_tasks": say(_update(tasks, FIELDS["widened_tasks"], keys=2)),
        "messages": say(say.insert(messages)),
        "given_messages": say(_update(messages, FIELDS["given_messages"], keys=2)),
        "handoffs": say(say.insert(handoffs)),
        "packed_handoffs": say(_update(handoffs, FIELDS["packed_handoffs"])),
        "accepted_handoffs": say(_update(handoffs, FIELDS["accepted_handoffs"])),
        "closed_handoffs": say(_update(handoffs, FIELDS["closed_handoffs"])),
        "fallen_handoffs": say(_moved("PENDING", "ACCEPTED", "WORKING")),
        "retaken_handoffs": say(_moved("WORKING", "PENDING")),
        "ended_handoffs": say(_update(handoffs, FIELDS["ended_handoffs"])),
        "approvals": say(_asked(say)),
        "decided_approvals": say(_update(approvals, FIELDS["decided_approvals"]).where(PENDING)),
        "withdrawn_approvals": say(_withdrawn(a.conversation == bind("conversation"))),
        "recalled_approvals": say(_withdrawn(a.conversation == bind("conversation"), a.call == bind("call"))),
        "ledgers": say(_latest(say, ledgers)),
        "refusals": say(say.insert(refusals)),
        "limits": say(say.insert(limits)),
        # The first row is kept: a delegate that works at the same time may write the same one.
        "trials": say(say.insert(trials).on_conflict_do_nothing()),
        "steps": say(_latest(say, steps)),
    }


class Statements:
    """All statements in one dialect."""

    def __init__(self, dialect: str) -> None:
        say = Compiler(dialect)
        self.log, self.feed, self.lease = LogStatements(say), FeedStatements(say), LeaseStatements(say)
        self.views, self.listed = ViewStatements(say), say.listed
        self.writes = {name: statement.sql for name, statement in writes(say).items()}
        self.queue, self.notify = QueueStatements(say), say.notify()
        self.agents, self.contexts = TableStatements(AGENTS, say), TableStatements(CONTEXTS, say)
        self.resets, self.forget = TableStatements(RESETS, say), ForgetStatements(say)
        self.breakers, self.measures = BreakerStatements(say), MeasureStatements(say)
        self.trials, self.declarations = TrialStatements(say), DeclarationStatements(say)
        self.lessons, self.workers = LessonStatements(say), TableStatements(WORKERS, say)
        self.tokens, self.audit = TableStatements(TOKENS, say), TableStatements(AUDIT, say)
        self.outbox = OutboxStatements(say)


@cache
def statements(dialect: str) -> Statements:
    return Statements(dialect)


def _number(name: str) -> sa.BindParameter[int]:
    return bind(name, sa.Integer)


def _name() -> sa.ColumnElement[str]:
    """The name of a process as an owner."""
    return p.id + sa.literal_column("'/'") + sa.cast(p.epoch, sa.Text)


def left() -> sa.ColumnElement[bool]:
    """True if no live process owns the conversation."""
    return sa.or_(c.owner.is_(None), ~sa.exists().where(_name() == c.owner, p.until > now()))


def _latest(say: Compiler, table: sa.Table) -> sa.Insert:
    """The upsert of figures of a run: a run that is resumed ends again, with other figures."""
    put = say.insert(table)
    keys = [column.name for column in table.primary_key]
    latest = {column.name: put.excluded[column.name] for column in table.c if column.name not in keys}
    return put.on_conflict_do_update(index_elements=keys, set_=latest)


def _update(table: sa.Table, fields: tuple[str, ...], keys: int = 1) -> sa.Update:
    """An update whose parameters are bound in the order of `fields`; the last `keys` of them identify the row."""
    update = sa.update(table).where(*(table.c[name] == bind(name) for name in fields[-keys:]))
    return update.ordered_values(*((table.c[name], bind(name)) for name in fields[:-keys]))


def _log(*which: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Entries in order, each row with the head of the log; a row without an entry if there is none."""
    joined = conversations.outerjoin(entries, sa.and_(e.conversation == c.number, *which))
    columns = (c.id, c.root, e.position, e.cause, e.at, e.body, e.seq, e.schema, c.position.label("head"))
    return sa.select(*columns).select_from(joined).order_by(e.position)


def _of_each(id: sa.ColumnElement[str]) -> sa.Select[Any]:
    """The entries of each of these conversations, looked up one conversation at a time."""
    # OFFSET keeps the planner from a join that, with old statistics, would read all entries.
    one = _log().where(c.id == id).offset(ZERO).lateral()
    return sa.select(*one.c).select_from(id.table, one)


def _by_seq(say: Compiler, *parts: sa.Select[Any]) -> Statement:
    """The entries of several queries, by seq."""
    return say(sa.union_all(*parts).order_by(sa.literal_column(str(1 + list(ENTRY.selected_columns).index(e.seq)))))


def _own_before() -> sa.ColumnElement[int]:
    """The position of the last of a root's own entries that began no later than this seq."""
    entry = entries.alias()
    found = sa.select(entry.c.position).where(entry.c.conversation == _number("root"), entry.c.seq <= _number("seq"))
    return sa.func.coalesce(found.order_by(entry.c.position.desc()).limit(ONE).offset(ZERO).scalar_subquery(), ZERO)


def _children_before() -> sa.ColumnElement[int]:
    """The seq of the last entry of a root's children that began no later than this one."""
    entry = entries.alias()
    found = sa.select(sa.func.max(entry.c.seq)).where(entry.c.root == _number("root"), entry.c.seq <= _number("seq"))
    return sa.func.coalesce(found.scalar_subquery(), ZERO)


def _below() -> sa.Select[Any]:
    """The entries of the conversations below one, whose ids begin with this prefix."""
    here, root = conversations.alias(), conversations.alias()
    number = sa.select(root.c.number).where(here.c.id == bind("conversation"), root.c.id == here.c.root)
    begins = sa.func.substr(c.id, ONE, _number("length")) == bind("prefix", sa.Text)
    return ENTRY.where(e.root == number.scalar_subquery(), begins)


def _asked(say: Compiler) -> sa.ClauseElement:
    """The upsert of an approval request; one that is made again is pending again."""
    asked = say.insert(approvals)
    anew = {name: asked.excluded[name] for name in FIELDS["approvals"] if name != "id"}
    return asked.on_conflict_do_update(index_elements=[a.id], set_=anew)


def _moved(to: str, *before: str) -> sa.Update:
    """Moves a handoff to the state `to` if it is in one of the states `before`."""
    here = sa.update(handoffs).where(h.id == bind("id"), h.state.in_(_states(*before)))
    return here.values(state=sa.literal_column(f"'{to}'"))


def _states(*names: str) -> list[sa.ColumnElement[str]]:
    return [sa.literal_column(f"'{name}'") for name in names]


def _withdrawn(*which: sa.ColumnElement[bool]) -> sa.Update:
    pending = sa.update(approvals).where(*which, PENDING)
    return pending.values(status=sa.literal_column("'withdrawn'"))
