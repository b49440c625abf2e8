"""All that the store says to a database."""

from __future__ import annotations

from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from changeover.stores.compiling import Compiler, bind, now
from changeover.stores.schema import conversations, entries, handoffs, messages, processes, tasks

c, e, h, m, p, t = conversations.c, entries.c, handoffs.c, messages.c, processes.c, tasks.c

ENTRY = sa.select(c.id, c.root, e.position, e.cause, e.at, e.body, e.seq, e.schema).where(e.conversation == c.number)
ONE: sa.ColumnElement[int] = sa.literal_column("1")
ZERO: sa.ColumnElement[int] = sa.literal_column("0")
RUNNING = c.status == sa.literal_column("'running'")


class LogStatements:
    """Appending and reading."""

    def __init__(self, say: Compiler) -> None:
        self.open = say(say.insert(conversations).on_conflict_do_nothing().returning(c.seq, c.number))
        self.slip_in = say(_moved().returning(c.seq, c.number))
        head = {name: bind(name) for name in ("status", "agent", "owner")}
        self.advance = say(_moved().where(_free()).values(head).returning(c.seq, c.number))
        counted = sa.update(conversations).where(c.id == bind("id")).values(seq=c.seq + _number("count"))
        self.count_in_root = say(counted.returning(c.seq, c.number))
        self.record = say(say.insert(entries))
        self.standing = say(sa.select(c.position, c.owner).where(c.id == bind("id")))
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
        me = sa.and_(p.id == bind("id"), p.epoch == _number("epoch"))
        until = now() + bind("lease", sa.Double)
        self.held = say(sa.select(ONE).where(me, p.until > now()))
        self.renew = say(sa.update(processes).where(me, p.until > now()).values(until=until).returning(p.epoch))
        registered = say.insert(processes, until=until, started_at=now())
        anew = {"epoch": registered.excluded.epoch, "until": registered.excluded.until}
        self.register = say(registered.on_conflict_do_update(index_elements=[p.id], set_=anew))
        self.leave = say(sa.delete(processes).where(p.id == bind("id")))
        self.bury = say(sa.delete(processes).where(p.until <= now()))
        claimed = sa.update(conversations).where(c.id == bind("id"), _free()).values(owner=bind("me"))
        self.claim = say(claimed.returning(c.id))
        owned = sa.select(c.id).where(RUNNING, c.owner == bind("me")).order_by(c.id).with_for_update()
        self.release = say(sa.update(conversations).where(c.id.in_(owned)).values(owner=sa.null()))


class PostgresStatements:
    """What only several writers at once need."""

    def __init__(self, say: Compiler) -> None:
        ids = bind("ids", ARRAY(sa.Text))
        # In one order for everybody: of two batches, one waits for the other, and never each for the other.
        self.lock = say(sa.select(c.id).where(c.id == sa.func.any(ids)).order_by(c.id).with_for_update())
        self.notify = say(sa.select(sa.func.pg_notify(bind("channel", sa.Text), sa.func.unnest(ids))))


class ViewStatements:
    """Read models."""

    def __init__(self, say: Compiler) -> None:
        last = sa.select(t.position, t.run_id, t.handoff_id, t.agent, t.status)
        last = last.where(t.conversation == bind("conversation")).order_by(t.position.desc()).limit(ONE).offset(ZERO)
        self.leg = say(last)
        self.leg_with_texts = say(last.add_columns(t.context, t.input))
        self.offer = say(sa.select(h.merge, h.variables).where(h.id == bind("id")))
        self.writes = {
            "add_task": say(say.insert(tasks)),
            "move_task": say(_update(tasks, ("conversation", "position"), ("status", "output", "updated_at"))),
            "add_message": say(say.insert(messages)),
            "give_message": say(_update(messages, ("conversation", "position"), ("task_id",))),
            "add_handoff": say(say.insert(handoffs)),
            "accept_handoff": say(_update(handoffs, ("id",), ("state", "task_id", "accepted_at"))),
            "end_handoff": say(_update(handoffs, ("id",), ("state", "ended_at"))),
        }


class Statements:
    """For one dialect."""

    def __init__(self, dialect: str) -> None:
        say = Compiler(dialect)
        self.log, self.feed, self.lease = LogStatements(say), FeedStatements(say), LeaseStatements(say)
        self.views = ViewStatements(say)
        self.postgres = PostgresStatements(say) if say.postgresql else None


@cache
def statements(dialect: str) -> Statements:
    return Statements(dialect)


def _number(name: str) -> sa.BindParameter[int]:
    return bind(name, sa.Integer)


def _moved() -> sa.Update:
    """The end of a conversation's log goes forward, if it is where the writer thinks, and the cause is a new one."""
    recorded = sa.exists().where(e.conversation == c.number, e.cause == bind("cause"))
    moved = {
        "position": c.position + _number("count"),
        "seq": c.seq + _number("grown"),
        "updated_at": bind("updated_at"),
    }
    here = sa.and_(c.id == bind("id"), c.position == bind("position"), ~recorded)
    return sa.update(conversations).where(here).values(moved)


def _alive() -> sa.Exists:
    """Whether the process that owns a conversation still renews its lease."""
    name = p.id + sa.literal_column("'/'") + sa.cast(p.epoch, sa.Text)
    return sa.exists().where(name == c.owner, p.until > now())


def _left() -> sa.ColumnElement[bool]:
    """Nobody works on the conversation."""
    return sa.or_(c.owner.is_(None), ~_alive())


def _free() -> sa.ColumnElement[bool]:
    """Nobody else works on the conversation."""
    return sa.or_(c.owner == bind("me"), _left())


def _update(table: sa.Table, key: tuple[str, ...], changed: tuple[str, ...]) -> sa.Update:
    where = [table.c[name] == bind(name) for name in key]
    values: dict[str, Any] = {name: bind(name) for name in changed}
    return sa.update(table).where(*where).values(values)
