"""All that the store says to a database."""

from __future__ import annotations

from functools import cache

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from changeover.stores.compiling import Compiler, Statement, bind, now
from changeover.stores.database import CHANNEL
from changeover.stores.rows import FIELDS
from changeover.stores.schema import conversations, entries, handoffs, messages, processes, tasks

c, e, h, p, t = conversations.c, entries.c, handoffs.c, processes.c, tasks.c

ENTRY = sa.select(c.id, c.root, e.position, e.cause, e.at, e.body, e.seq, e.schema).where(e.conversation == c.number)
ONE: sa.ColumnElement[int] = sa.literal_column("1")
ZERO: sa.ColumnElement[int] = sa.literal_column("0")
RUNNING = c.status == sa.literal_column("'running'")


class LogStatements:
    """Appending and reading."""

    def __init__(self, say: Compiler) -> None:
        self.alive = say(sa.select(_name()).where(p.until > now()))
        places = sa.select(c.number, c.id, c.position, c.seq, c.status, c.agent, c.owner, c.updated_at)
        self.places = say(places.where(say.among(c.id, "ids")).order_by(c.id).with_for_update())
        self.numbers = say(say.new_numbers())
        here = c.id == bind("conversation")
        found = sa.select(e.position, e.at, e.seq, e.body).where(e.conversation == c.number)
        self.find = say(found.where(here, e.cause == bind("cause")))
        self.read = say(ENTRY.where(here, e.position >= _number("after")).order_by(e.position))
        upto = ENTRY.where(here, e.position <= _number("position")).order_by(e.position.desc())
        self.entry_at = say(upto.limit(ONE).offset(ZERO))
        self.unfinished = say(sa.select(c.id).where(RUNNING, c.id == c.root, _left()).order_by(c.id))


class FeedStatements:
    """What is new in the tree of a root."""

    def __init__(self, say: Compiler) -> None:
        self.last_seq = say(sa.select(c.seq).where(c.id == bind("root")))
        new, root = ENTRY.where(e.seq > _number("seq")), conversations.alias("root")
        own = new.where(c.id == bind("root"), e.position >= _number("position"))
        of_children = new.where(root.c.id == bind("root"), e.root == root.c.number)
        self.news = say(sa.union_all(own, of_children).order_by(sa.literal_column("7")))


class LeaseStatements:
    """Who is alive, and who works on what."""

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
    """Read models."""

    def __init__(self, say: Compiler) -> None:
        leg = sa.select(t.position, t.run_id, t.handoff_id, t.agent, t.status, t.context, t.input)
        last = leg.where(t.conversation == bind("conversation")).order_by(t.position.desc())
        self.leg = say(last.limit(ONE).offset(ZERO))
        self.offer = say(sa.select(h.merge, h.variables).where(h.id == bind("id")))


def writes(say: Compiler) -> dict[str, Statement]:
    """What writes many rows at once, by the name that `Rows` gives it; bound in the order of the row's fields."""
    return {
        "new_conversations": say(say.insert(conversations, number=bind("number"))),
        "moved_conversations": say(_update(conversations, FIELDS["moved_conversations"])),
        "changed_conversations": say(_update(conversations, FIELDS["changed_conversations"])),
        "entries": say(say.insert(entries)),
        "tasks": say(say.insert(tasks)),
        "moved_tasks": say(_update(tasks, FIELDS["moved_tasks"], keys=2)),
        "messages": say(say.insert(messages)),
        "given_messages": say(_update(messages, FIELDS["given_messages"], keys=2)),
        "handoffs": say(say.insert(handoffs)),
        "accepted_handoffs": say(_update(handoffs, FIELDS["accepted_handoffs"])),
        "ended_handoffs": say(_update(handoffs, FIELDS["ended_handoffs"])),
    }


class Statements:
    """For one dialect."""

    def __init__(self, dialect: str) -> None:
        say = Compiler(dialect)
        self.log, self.feed, self.lease = LogStatements(say), FeedStatements(say), LeaseStatements(say)
        self.views, self.writes, self.listed = ViewStatements(say), writes(say), say.listed
        roots = sa.func.unnest(bind("roots", ARRAY(sa.Text)))
        self.notify = (
            say(sa.select(sa.func.pg_notify(sa.literal_column(f"'{CHANNEL}'"), roots))) if say.postgresql else None
        )


@cache
def statements(dialect: str) -> Statements:
    return Statements(dialect)


def _number(name: str) -> sa.BindParameter[int]:
    return bind(name, sa.Integer)


def _name() -> sa.ColumnElement[str]:
    """A process as it is named where it owns something."""
    return p.id + sa.literal_column("'/'") + sa.cast(p.epoch, sa.Text)


def _left() -> sa.ColumnElement[bool]:
    """Nobody alive works on the conversation."""
    return sa.or_(c.owner.is_(None), ~sa.exists().where(_name() == c.owner, p.until > now()))


def _update(table: sa.Table, fields: tuple[str, ...], keys: int = 1) -> sa.Update:
    """Bound in the order of these fields, of which the last ones say which row it is."""
    update = sa.update(table).where(*(table.c[name] == bind(name) for name in fields[-keys:]))
    return update.ordered_values(*((table.c[name], bind(name)) for name in fields[:-keys]))
