"""The table `tickets`: its statements and the writer's jobs."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any, TypeVar

import sqlalchemy as sa

from changeover.facts import Ticket
from changeover.relay.queue import SPACING, Claim, Taken
from changeover.stores.sql.compiler import Compiler, bind, now
from changeover.stores.sql.database import Row
from changeover.stores.sql.jobs import LARGEST
from changeover.stores.sql.schema import tickets
from changeover.stores.sql.side_jobs import Beside

t = tickets.c

ZERO: sa.ColumnElement[int] = sa.literal_column("0")
TICKET = (t.id, t.agent, t.conversation, t.place, t.root, t.priority, t.deadline, t.at)
KEYS = (t.priority, t.deadline, t.turn, t.id)
ORDER = (t.priority.desc(), t.deadline, t.turn, t.id)
SECONDS: sa.ColumnElement[float] = sa.literal_column(str(SPACING))
FREE = sa.text("owner IS NULL AND NOT rests")
"""As in the index of those that can be taken, word for word."""
HELD = t.owner.is_not(None)
# The time from a query of its own, which is asked once: PostgreSQL looks for nothing in an index by a clock.
LAPSED = t.until <= sa.select(now()).scalar_subquery()
IN_TIME = t.until > sa.select(now()).scalar_subquery()
NOBODYS = {"owner": sa.null(), "until": sa.null()}
ANEW = {**NOBODYS, "attempts": ZERO}


class QueueStatements:
    """Taking, holding and listing."""

    def __init__(self, say: Compiler) -> None:
        seen = sa.select(t.id, t.owner, t.agent, t.rests).where(say.among(t.id, "ids"))
        self.lock = say(seen.order_by(t.id).with_for_update())
        lapsed = sa.select(t.id).where(HELD, LAPSED).with_for_update(skip_locked=True)
        self.free = say(sa.update(tickets).where(_among_these(say, lapsed)).values(NOBODYS))
        self.peek = say(_waiting(*KEYS))
        first = _waiting(t.id).with_for_update(skip_locked=True)
        held = {"owner": bind("token"), "until": _until(), "attempts": t.attempts + sa.literal_column("1")}
        taken = sa.update(tickets).where(_among_these(say, first)).values(held)
        self.take = say(taken.returning(*TICKET, t.turn, t.attempts))
        self.taken = say(sa.select(*TICKET, t.turn, t.attempts).where(HELD, t.owner == bind("token")))
        theirs = sa.update(tickets).where(t.id == bind("ticket"), t.owner == bind("token"))
        self.renew = say(theirs.values(until=_until()).returning(t.id))
        less = t.attempts - bind("uncounted", sa.Integer)
        back = {**NOBODYS, "attempts": sa.case((less > ZERO, less), else_=ZERO)}
        self.give_back = say(theirs.values(back).returning(t.agent))
        this = sa.update(tickets).where(t.id == bind("ticket"))
        self.retry = say(this.values({**_taken_up(say), "rests": sa.false()}).returning(t.agent))
        self.offer_again = say(this.values({**ANEW, "rests": sa.false()}).returning(t.agent))
        owner = sa.case((IN_TIME, t.owner)), sa.case((IN_TIME, t.until))
        queued = sa.select(*TICKET, t.attempts, *owner, t.rests).order_by(*ORDER)
        self.all = say(queued)
        self.one = say(queued.where(t.id == bind("ticket")))
        worn = queued.where(t.attempts > ZERO, t.attempts >= bind("most", sa.Integer))
        self.worn_out = say(worn.where(sa.or_(t.owner.is_(None), LAPSED)))


class TicketWrites:
    """What entries do to tickets, each bound to many rows at once."""

    def __init__(self, say: Compiler) -> None:
        this = t.id == bind("ticket")
        self.remove = say(sa.delete(tickets).where(this))
        self.put = say(_put(say))
        self.end = say(sa.update(tickets).where(this).values(_taken_up(say)))
        self.rest = say(sa.update(tickets).where(this).values({**_taken_up(say), "rests": sa.true()}))

    def row(self, ticket: Ticket) -> Row:
        """A ticket as it is put."""
        values = {name: getattr(ticket, name) for name in Ticket.__struct_fields__}
        if ticket.deadline is None:
            values["deadline"] = inf
        return self.put(**values)[1]


def _put(say: Compiler) -> sa.ClauseElement:
    """Put it into the queue, behind the last of its tree; if it is there, it only rests no longer."""
    last = sa.select(sa.func.max(t.turn) + SECONDS).where(t.root == bind("root"), t.turn > bind("at") - SECONDS)
    turn = sa.func.coalesce(last.scalar_subquery(), bind("at", sa.Double))
    put = say.insert(tickets, **ANEW, turn=turn, rests=sa.false())
    return put.on_conflict_do_update(index_elements=[t.id], set_={"rests": sa.false()}, where=t.rests)


def _waiting(*columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """What can be taken for an agent, the most urgent first."""
    some = t.attempts < bind("most", sa.Integer), sa.or_(t.deadline > bind("now", sa.Double), t.attempts > ZERO)
    found = sa.select(*columns).where(t.agent == bind("agent"), FREE, *some)
    return found.order_by(*ORDER).limit(bind("limit", sa.Integer)).offset(ZERO)


def _taken_up(say: Compiler) -> dict[str, Any]:
    """Nobody's, and until when somebody had to take it says nothing any more."""
    never = "'infinity'::double precision" if say.postgresql else "9e999"
    return {**ANEW, "deadline": sa.literal_column(never)}


def _until() -> sa.ColumnElement[float]:
    return now() + bind("lease", sa.Double)


def _among_these(say: Compiler, chosen: sa.Select[Any]) -> sa.ColumnElement[bool]:
    """Whether a ticket is one of these, which are looked for once."""
    if say.postgresql:
        # An array, and no join: that might look for them again with each row, and lock others then.
        return t.id == sa.func.any(sa.func.array(chosen.scalar_subquery()))
    return t.id.in_(chosen)


T = TypeVar("T")


class QueueJob(Beside[T]):
    """Something about tickets."""

    __slots__ = ()

    def __init__(self, result: T, tickets: Sequence[str] = ()) -> None:
        super().__init__(result, share=1 / LARGEST)
        self.tickets = tickets


class Take(QueueJob[list[Taken]]):
    """Claim what is most urgent."""

    __slots__ = ("agents", "lease", "limit", "most", "now", "token")

    def __init__(self, agents: Sequence[str], token: str, lease: float, limit: int, most: int, now: float) -> None:
        super().__init__([])
        self.agents, self.token, self.lease, self.limit = agents, token, lease, limit
        self.most, self.now = most, now


class Renew(QueueJob[list[str]]):
    """Hold tickets for longer."""

    __slots__ = ("claims", "lease")

    def __init__(self, claims: Sequence[Claim], lease: float) -> None:
        super().__init__([], [claim.ticket for claim in claims])
        self.claims, self.lease = claims, lease


class GiveBack(QueueJob[bool]):
    """Let anybody take a ticket."""

    __slots__ = ("claim", "counted")

    def __init__(self, claim: Claim, counted: bool) -> None:
        super().__init__(False, (claim.ticket,))
        self.claim, self.counted = claim, counted


class Retry(QueueJob[bool]):
    """Let anybody take a ticket, as if nobody ever had."""

    __slots__ = ("offered",)

    def __init__(self, ticket: str, offered: bool) -> None:
        super().__init__(False, (ticket,))
        self.offered = offered
