"""OutboxStatements: the SQL of events, deliveries and schedules."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from changeover.stores.sql.compiler import ONE, ZERO, Compiler, Statement, bind, now
from changeover.stores.sql.schema import bus_deliveries, bus_events, schedules

d, e, s = bus_deliveries.c, bus_events.c, schedules.c

EVENT = (e.id, e.type, e.source, e.subject, e.key, e.at, e.data, e.attributes)
DELIVERY = (d.team, d.subscriber, d.state, d.attempts, d.due, d.error, d.started, d.updated_at)
BOTH = sa.select(*EVENT, *DELIVERY).join_from(bus_deliveries, bus_events, e.number == d.event)
WAITING = d.state == sa.literal_column("'waiting'")
DEAD = d.state == sa.literal_column("'dead'")
READY = sa.text("state = 'waiting' AND ready")
"""Word for word as in the partial index of deliveries that can be taken."""
EMPTY: sa.ColumnElement[str] = sa.literal_column("''")
UNOWNED = {"owner": sa.null(), "until": sa.null()}
# The time comes from a subquery, which runs once: PostgreSQL does not search an index by a volatile function.
CURRENT = sa.select(now()).scalar_subquery()


class OutboxStatements:
    """The SQL of the tables `bus_events`, `bus_deliveries` and `schedules`."""

    def __init__(self, say: Compiler) -> None:
        self.listed, self.notify = say.listed, say.notify()
        lock = sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtextextended(bind("team", sa.Text), ZERO)))
        self.lock: Statement | None = say(lock) if say.postgresql else None
        """Makes transactions that change the order of a team's deliveries wait for each other; SQLite has one writer
        at a time."""
        self._events(say)
        self._deliveries(say)
        self._lists(say)
        self._schedules(say)

    def _events(self, say: Compiler) -> None:
        self.insert = say(say.insert(bus_events).on_conflict_do_nothing())
        self.keyed = say(sa.select(*EVENT).where(e.team == bind("team"), e.key == bind("key")))
        found = sa.select(*EVENT).where(say.among(e.id, "ids"), e.team == bind("team"))
        self.find = say(found.order_by(e.number.desc()))
        of_type = sa.func.coalesce(sa.func.nullif(bind("type", sa.Text), EMPTY), e.type) == e.type
        some = sa.select(*EVENT).where(e.team == bind("team"), of_type)
        newest = some.order_by(e.number.desc()).limit(bind("limit", sa.Integer)).offset(ZERO)
        other = bus_events.alias()
        last = sa.select(other.c.number).where(other.c.id == bind("before")).scalar_subquery()
        self.events, self.earlier = say(newest), say(newest.where(e.number < last))

    def _deliveries(self, say: Compiler) -> None:
        self.deliver = say(_deliver(say))
        free = sa.or_(d.owner.is_(None), d.until <= CURRENT)
        whose = d.team == bind("team"), d.subscriber == bind("subscriber")
        found = sa.select(d.event).where(*whose, READY, d.due <= bind("now", sa.Double), free)
        first = found.order_by(d.event).limit(bind("limit", sa.Integer)).offset(ZERO)
        chosen = _among(say, d.event, first.with_for_update(skip_locked=True))
        held = {"owner": bind("token"), "until": now() + bind("lease", sa.Double), "attempts": d.attempts + ONE}
        self.take = say(sa.update(bus_deliveries).where(*whose, READY, chosen).values(held))
        self.taken = say(BOTH.where(d.owner.is_not(None), d.owner == bind("token")).order_by(d.event))
        longer = {"until": now() + bind("lease", sa.Double)}
        theirs = sa.update(bus_deliveries).where(d.owner.is_not(None), d.owner == bind("token"))
        self.renew = say(theirs.values(longer))
        number = sa.select(e.number).where(e.id == bind("id")).scalar_subquery()
        mine = theirs.where(d.event == number, d.subscriber == bind("subscriber"))
        told = {"error": bind("error"), "updated_at": now(), **UNOWNED}
        ended = {"state": bind("state"), "started": bind("started"), **told}
        self.end = say(mine.values(ended).returning(ONE))
        later = {"due": bind("due", sa.Double), "attempts": d.attempts - bind("uncounted", sa.Integer), **told}
        self.put_off = say(mine.values(later).returning(ONE))
        lane = *whose, d.source == bind("source"), WAITING
        other = bus_deliveries.alias()
        same = (other.c.team == bind("team"), other.c.subscriber == bind("subscriber"))
        ahead = other.c.source == bind("source"), other.c.state == sa.literal_column("'waiting'")
        first_one = sa.select(sa.func.min(other.c.event)).where(*same, *ahead).scalar_subquery()
        self.follow = say(sa.update(bus_deliveries).where(*lane, d.event == first_one).values(ready=sa.true()))
        anyone = sa.func.coalesce(sa.func.nullif(bind("subscriber", sa.Text), EMPTY), d.subscriber) == d.subscriber
        dead = sa.update(bus_deliveries).where(DEAD, d.team == bind("team"), d.event == number, anyone)
        anew = {"state": sa.literal_column("'waiting'"), "ready": sa.true(), "attempts": ZERO, **UNOWNED}
        self.resend = say(dead.values(**anew, due=bind("now", sa.Double), updated_at=now()).returning(ONE))

    def _lists(self, say: Compiler) -> None:
        limit, team = bind("limit", sa.Integer), bind("team")
        order = d.event.desc(), d.subscriber
        self.deliveries = say(BOTH.where(say.among(e.id, "ids"), d.team == team).order_by(*order))
        self.dead = say(BOTH.where(DEAD, d.team == team).order_by(*order).limit(limit).offset(ZERO))
        ready = sa.select(sa.func.min(d.due)).where(d.team == team, READY, d.due > bind("now", sa.Double))
        lapse = sa.select(sa.func.min(d.until) - now()).where(d.team == team, READY, d.owner.is_not(None))
        self.rest = say(sa.select(ready.scalar_subquery(), lapse.scalar_subquery()))
        both = sa.case((WAITING, ONE), else_=ZERO), sa.case((DEAD, ONE), else_=ZERO)
        oldest = sa.func.min(sa.case((WAITING, d.event))).label("oldest")
        sums = (sa.func.sum(each).label(name) for each, name in zip(both, ("waiting", "dead"), strict=True))
        undone = sa.select(d.team, d.subscriber, *sums, oldest).where(sa.or_(WAITING, DEAD))
        c = undone.group_by(d.team, d.subscriber).subquery().c
        at = sa.select(e.at).where(e.number == c.oldest).scalar_subquery()
        self.counts = say(sa.select(c.team, c.subscriber, c.waiting, c.dead, at).order_by(c.team, c.subscriber))
        mine = sa.select(d.event).where(d.event == e.number, d.state != sa.literal_column("'done'"))
        last = sa.select(s.name).where(s.team == e.team, s.last_event == e.id)
        old = sa.select(e.number).where(e.team == team, e.at < bind("before", sa.Double))
        spent = old.where(~mine.exists(), ~last.exists())
        self.old = say(spent.order_by(e.number).limit(limit).offset(ZERO))
        texts = sa.cast(say.each("numbers"), sa.Integer)
        numbers = sa.select(texts)
        self.drop_deliveries = say(sa.delete(bus_deliveries).where(d.event.in_(numbers)))
        self.drop_events = say(sa.delete(bus_events).where(e.number.in_(numbers)))

    def _schedules(self, say: Compiler) -> None:
        which = s.team == bind("team"), s.name == bind("name")
        found = sa.select(s.name, s.handled, s.plan, s.paused, s.last_event)
        self.schedules = say(found.where(s.team == bind("team")))
        fresh = {"handled": bind("now", sa.Double), "paused": sa.false(), "last_event": EMPTY}
        put = say.insert(schedules, **fresh)
        anew = {"plan": put.excluded.plan, "handled": put.excluded.handled}
        changed = s.plan != put.excluded.plan
        self.note = say(put.on_conflict_do_update(index_elements=[s.team, s.name], set_=anew, where=changed))
        # What was due while it was paused is not made up for.
        resumed = sa.case((s.paused, bind("now", sa.Double)), else_=s.handled)
        paused = sa.update(schedules).where(*which)
        self.pause = say(paused.values(paused=bind("paused", sa.Boolean), handled=resumed).returning(ONE))
        last = sa.func.coalesce(sa.func.nullif(bind("last_event", sa.Text), EMPTY), s.last_event)
        self.start = say(sa.update(schedules).where(*which).values(last_event=bind("last_event")))
        due = sa.update(schedules).where(*which, ~s.paused, s.handled == bind("expected", sa.Double))
        self.fire = say(due.values(handled=bind("handled", sa.Double), last_event=last).returning(ONE))


def _deliver(say: Compiler) -> sa.ClauseElement:
    """Insert the delivery of an event that was stored; it is ready unless one of the same source is before it."""
    subscriber = bind("subscriber", sa.Text)
    other = bus_deliveries.alias()
    same = other.c.team == e.team, other.c.subscriber == subscriber, other.c.source == e.source
    before = sa.exists().where(*same, other.c.state == sa.literal_column("'waiting'"))
    values: dict[str, Any] = {
        "event": e.number,
        "subscriber": subscriber,
        "team": e.team,
        "source": e.source,
        "state": sa.literal_column("'waiting'"),
        "ready": sa.or_(e.source == EMPTY, ~before),
        "due": ZERO,
        "attempts": ZERO,
        "error": EMPTY,
        "started": EMPTY,
        "updated_at": now(),
    }
    rows = sa.select(*(value.label(f"v{number}") for number, value in enumerate(values.values())))
    put = say.insert_from(bus_deliveries, list(values), rows.where(e.id == bind("id")))
    return put.on_conflict_do_nothing()


def _among(say: Compiler, column: sa.ColumnElement[int], chosen: sa.Select[Any]) -> sa.ColumnElement[bool]:
    """True if a number is one of these; the subquery runs once."""
    if say.postgresql:
        return column == sa.func.any(sa.func.array(chosen.scalar_subquery()))
    return column.in_(chosen)
