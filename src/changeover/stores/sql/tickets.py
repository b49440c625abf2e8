"""The table `tickets`: its statements, its rows as records, and the tickets of a batch of appends."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any, NamedTuple

import sqlalchemy as sa

from changeover.errors import ClaimLost
from changeover.facts import Ticket
from changeover.ids import queue_topic
from changeover.relay.ports.log import Head
from changeover.relay.ports.queue import SPACING, Claim, Queued, Taken
from changeover.relay.projection.admission import lost
from changeover.stores.sql.compiler import ONE, ZERO, Compiler, bind, now, of_team
from changeover.stores.sql.database import Round, Row, Write
from changeover.stores.sql.jobs import Job
from changeover.stores.sql.schema import tickets

t = tickets.c

TICKET = (t.id, t.agent, t.conversation, t.place, t.root, t.team, t.priority, t.deadline, t.at)
WIDTH = len(TICKET)
KEYS = (t.priority, t.deadline, t.turn, t.id)
ORDER = (t.priority.desc(), t.deadline, t.turn, t.id)
SECONDS: sa.ColumnElement[float] = sa.literal_column(str(SPACING))
FREE = sa.text("owner IS NULL AND NOT rests")
"""Word for word as in the partial index of tickets that can be claimed."""
HELD = t.owner.is_not(None)
# The time comes from a subquery, which runs once: PostgreSQL does not search an index by a volatile function.
LAPSED = t.until <= sa.select(now()).scalar_subquery()
IN_TIME = t.until > sa.select(now()).scalar_subquery()
UNOWNED = {"owner": sa.null(), "until": sa.null()}
UNTRIED = {**UNOWNED, "attempts": ZERO}


class QueueStatements:
    """The SQL of claims, of lists, and of what entries do to tickets."""

    def __init__(self, say: Compiler) -> None:
        self.listed, self.notify = say.listed, say.notify()
        seen = sa.select(t.id, t.owner, t.agent, t.rests).where(say.among(t.id, "ids"))
        self.lock = say(seen.order_by(t.id).with_for_update())
        self._claims(say)
        self._lists(say)
        self._entries(say)

    def _claims(self, say: Compiler) -> None:
        lapsed = sa.select(t.id).where(HELD, LAPSED).with_for_update(skip_locked=True)
        self.free = say(sa.update(tickets).where(_among_these(say, lapsed)).values(UNOWNED).returning(t.agent))
        self.peek = say(_waiting(*KEYS))
        first = _waiting(t.id).with_for_update(skip_locked=True)
        held = {"owner": bind("token"), "until": _until(), "attempts": t.attempts + ONE}
        taken = sa.update(tickets).where(_among_these(say, first)).values(held)
        self.take = say(taken.returning(*TICKET, t.turn, t.attempts))
        self.taken = say(sa.select(*TICKET, t.turn, t.attempts).where(HELD, t.owner == bind("token")))
        theirs = sa.update(tickets).where(t.id == bind("ticket"), t.owner == bind("token"))
        self.renew = say(theirs.values(until=_until()).returning(t.id))
        less = t.attempts - bind("uncounted", sa.Integer)
        back = {**UNOWNED, "attempts": sa.case((less > ZERO, less), else_=ZERO)}
        self.give_back = say(theirs.values(back).returning(t.agent))
        this = sa.update(tickets).where(t.id == bind("ticket"))
        self.retry = say(this.values({**_reopened(say), "rests": sa.false()}).returning(t.agent))
        self.offer_again = say(this.values({**UNTRIED, "rests": sa.false()}).returning(t.agent))

    def _lists(self, say: Compiler) -> None:
        owner = sa.case((IN_TIME, t.owner)), sa.case((IN_TIME, t.until))
        queued = sa.select(*TICKET, t.attempts, *owner, t.rests).order_by(*ORDER)
        self.all = say(queued)
        self.one = say(queued.where(t.id == bind("ticket")))
        tried = queued.where(t.attempts > ZERO, t.attempts >= bind("least", sa.Integer), of_team(t.team))
        self.lapsed = say(tried.where(sa.or_(t.owner.is_(None), LAPSED)))
        self.lease_left = say(sa.select(sa.func.min(t.until) - now()).where(HELD, IN_TIME))

    def _entries(self, say: Compiler) -> None:
        this = t.id == bind("ticket")
        self.remove = say(sa.delete(tickets).where(this))
        self.put = say(_put(say))
        self.end = say(sa.update(tickets).where(this).values(_reopened(say)))
        self.rest = say(sa.update(tickets).where(this).values({**_reopened(say), "rests": sa.true()}))

    def row(self, ticket: Ticket) -> Row:
        """A ticket as `put` binds it."""
        values = {name: getattr(ticket, name) for name in Ticket.__struct_fields__}
        if ticket.deadline is None:
            values["deadline"] = inf
        return self.put(**values)[1]


def _put(say: Compiler) -> sa.ClauseElement:
    """Insert a ticket behind the last of its tree; if it exists, only end its rest."""
    last = sa.select(sa.func.max(t.turn) + SECONDS).where(t.root == bind("root"), t.turn > bind("at") - SECONDS)
    turn = sa.func.coalesce(last.scalar_subquery(), bind("at", sa.Double))
    put = say.insert(tickets, **UNTRIED, turn=turn, rests=sa.false())
    return put.on_conflict_do_update(index_elements=[t.id], set_={"rests": sa.false()}, where=t.rests)


def _waiting(*columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """The tickets that an agent's worker can claim, the most urgent first."""
    some = t.attempts < bind("most", sa.Integer), sa.or_(t.deadline > bind("now", sa.Double), t.attempts > ZERO)
    found = sa.select(*columns).where(t.team == bind("team"), t.agent == bind("agent"), FREE, *some)
    return found.order_by(*ORDER).limit(bind("limit", sa.Integer)).offset(ZERO)


def _reopened(say: Compiler) -> dict[str, Any]:
    """Clear the owner, the attempts and the claim deadline."""
    never = "'infinity'::double precision" if say.postgresql else "9e999"
    return {**UNTRIED, "deadline": sa.literal_column(never)}


def _until() -> sa.ColumnElement[float]:
    return now() + bind("lease", sa.Double)


def _among_these(say: Compiler, chosen: sa.Select[Any]) -> sa.ColumnElement[bool]:
    """True if a ticket is one of these; the subquery runs once."""
    if say.postgresql:
        # An array instead of a join: a join might run the subquery again for each row, and lock other tickets.
        return t.id == sa.func.any(sa.func.array(chosen.scalar_subquery()))
    return t.id.in_(chosen)


def ticket_of(row: Row) -> Ticket:
    """A ticket, from a row that begins with its columns."""
    id, agent, conversation, place, root, team, priority, deadline, at = row[:WIDTH]
    return Ticket(
        id=id,
        agent=agent,
        conversation=conversation,
        place=place,
        root=root,
        team=team,
        priority=priority,
        deadline=None if deadline == inf else deadline,
        at=at,
    )


def taken_of(row: Row, token: str) -> Taken:
    """A claimed ticket, from a row as `take` returns it."""
    return Taken(ticket_of(row), token, row[WIDTH + 1])


def queued_of(row: Row) -> Queued:
    """A ticket and its claim, from a row as `all` returns it."""
    attempts, owner, until, rests = row[WIDTH:]
    return Queued(ticket_of(row), attempts, owner or "", until, bool(rests))


def order_of(row: Row) -> Row:
    """The sort key of a row as `take` returns it."""
    priority, deadline, _, turn = row[WIDTH - 3 : WIDTH + 1]
    return urgency(priority, deadline, turn, row[0])


def urgency(priority: int, deadline: float, turn: float, id: str) -> Row:
    """The sort key of tickets: the most urgent comes first."""
    return -priority, deadline, turn, id


class Seen(NamedTuple):
    """A ticket as the transaction read or changed it."""

    owner: str | None
    agent: str
    rests: bool


class Tickets:
    """Locks the tickets that the jobs of a batch concern, and collects their changes."""

    def __init__(self, sql: QueueStatements) -> None:
        self._sql = sql
        self._seen: dict[str, Seen] = {}
        self._removed: set[str] = set()
        self._put: dict[str, Ticket] = {}
        self._ended: set[str] = set()
        self._resting: set[str] = set()
        self.bells: set[str] = set()
        """The topics of agents that may have a ticket to claim now."""

    def look(self, asked: Round, jobs: Sequence[Job[Any]]) -> None:
        """Lock and read the tickets of these jobs."""
        # All at once and by id: of two processes that lock the same, one waits for the other, and never each for the
        # other.
        if ids := {id for job in jobs for id in job.tickets}:
            asked.later(self._sql.lock(ids=self._sql.listed(sorted(ids))), self._see)

    def refusal(self, claim: Claim) -> ClaimLost | None:
        """Why this claim may not write; None if it holds."""
        seen = self._seen.get(claim.ticket)
        if seen and seen.owner == claim.token:
            return None
        return lost(claim, seen is not None, seen.owner if seen else None)

    def note(self, head: Head | None, claim: Claim | None) -> None:
        """Apply what an entry, which is going to be recorded, does to tickets."""
        if head is not None:
            for id in head.gone:
                self._remove(id)
            for ticket in head.tickets:
                self._open(ticket)
            for id in head.rests:
                self.rest(id)
        if claim is not None and claim.ends and (seen := self._seen.get(claim.ticket)) and seen.owner == claim.token:
            self._end(claim.ticket, seen.agent)

    def rest(self, id: str) -> None:
        """Clear the owner; the ticket cannot be claimed until its rest ends."""
        if seen := self._seen.get(id):
            self._seen[id] = seen._replace(owner=None, rests=True)
            self._ended.discard(id)
            self._resting.add(id)

    def writes(self) -> list[Write]:
        """The changes, in the one order in which they give the same rows as if they were made one by one."""
        if not (self._removed or self._put or self._ended or self._resting):
            return []
        sql = self._sql
        rows = (
            (sql.remove.sql, [(id,) for id in sorted(self._removed)]),
            (sql.put.sql, [sql.row(ticket) for ticket in self._put.values()]),
            (sql.end.sql, [(id,) for id in sorted(self._ended)]),
            (sql.rest.sql, [(id,) for id in sorted(self._resting)]),
        )
        return [write for write in rows if write[1]]

    def _see(self, rows: list[Row]) -> None:
        self._seen = {id: Seen(*columns) for id, *columns in rows}

    def _remove(self, id: str) -> None:
        self._seen.pop(id, None)
        self._put.pop(id, None)
        self._ended.discard(id)
        self._resting.discard(id)
        self._removed.add(id)

    def _open(self, ticket: Ticket) -> None:
        seen = self._seen.get(ticket.id)
        if seen and not seen.rests:
            return
        self._put[ticket.id] = ticket
        self._seen[ticket.id] = seen._replace(rests=False) if seen else Seen(None, ticket.agent, False)
        if ticket.id in self._resting:  # by another entry of this batch, which cleared the owner
            self._resting.remove(ticket.id)
            self._ended.add(ticket.id)
        self.bells.add(queue_topic(self._seen[ticket.id].agent))

    def _end(self, id: str, agent: str) -> None:
        self._seen[id] = self._seen[id]._replace(owner=None)
        self._ended.add(id)
        self.bells.add(queue_topic(agent))
