"""SqlLessons: outcomes of routed handoffs, read from the table `handoffs`."""

from __future__ import annotations

from math import inf

import sqlalchemy as sa

from changeover.facts import State as HandoffState
from changeover.relay.ports.tables import MOST, Lesson, Unlearned
from changeover.routing.experience import Outcome
from changeover.stores.sql.compiler import ZERO, Compiler, bind
from changeover.stores.sql.database import Row
from changeover.stores.sql.jobs import OpenStore
from changeover.stores.sql.schema import handoffs, ledgers, unlearned
from changeover.stores.tables import Table

h, g, u = handoffs.c, ledgers.c, unlearned.c

TWO: sa.ColumnElement[int] = sa.literal_column("2")
NOTHING: sa.ColumnElement[str] = sa.literal_column("''")


class LessonStatements:
    """The SQL of outcomes and capabilities."""

    def __init__(self, say: Compiler) -> None:
        asked = h.capability == bind("capability"), h.ended_at > bind("after", sa.Double)
        lessons = sa.select(h.id, h.receiver, h.state, h.accepted_at, h.ended_at, _cost())
        last = lessons.where(*asked, _is_outcome(), ~_unlearned()).order_by(h.ended_at.desc(), h.id.desc())
        self.outcomes = say(last.limit(bind("most", sa.Integer)).offset(ZERO))
        self.capabilities = say(sa.select(h.capability).distinct().where(h.capability.is_not(None)))


def _is_outcome() -> sa.ColumnElement[bool]:
    """True if the handoff has an outcome. A receiver that returns without a reason brings the result; with one, it was
    recalled or asked for more."""
    over = h.state.in_([sa.literal_column(f"'{state}'") for state in ("COMPLETE", "FAILED", "TIMEOUT")])
    return sa.or_(over, sa.and_(h.state == sa.literal_column("'RETURNED'"), h.reason.is_(None)))


def _unlearned() -> sa.ColumnElement[bool]:
    named = u.capability.in_([NOTHING, h.capability]), u.agent.in_([NOTHING, h.receiver])
    return sa.exists().where(*named, u.at >= h.ended_at)


def _cost() -> sa.ColumnElement[float]:
    """The cost of the delegate's conversation; one unknown cost makes the sum unknown."""
    call = sa.func.substr(h.id, sa.func.length(h.conversation) + TWO)
    child = h.conversation + sa.literal_column("'/'") + call
    known = sa.case((sa.func.count() == sa.func.count(g.cost), sa.func.sum(g.cost)))
    return sa.select(known).where(g.conversation == child).scalar_subquery()


SUCCESSES = (HandoffState.COMPLETE, HandoffState.RETURNED)


class SqlLessons:
    """Outcomes in a database; `resets` holds the times before which they no longer count."""

    def __init__(self, sql: LessonStatements, store: OpenStore, resets: Table[Unlearned]) -> None:
        self._sql, self._store, self._resets = sql, store, resets

    async def outcomes(self, capability: str, after: float = -inf, most: int = MOST) -> list[Lesson]:
        rows = await self._store.rows(self._sql.outcomes(capability=capability, after=after, most=most))
        return [_lesson(capability, row) for row in reversed(rows)]

    async def capabilities(self) -> list[str]:
        return sorted(name for (name,) in await self._store.large(self._sql.capabilities()))

    async def unlearned(self) -> list[Unlearned]:
        return await self._resets.all()

    async def reset(self, at: float, capability: str = "", agent: str = "") -> None:
        await self._resets.put(Unlearned(capability, agent, at))


def _lesson(capability: str, row: Row) -> Lesson:
    id, agent, state, accepted_at, ended_at, cost = row
    seconds = None if accepted_at is None else ended_at - accepted_at
    return Lesson(id, ended_at, Outcome(capability, agent, state in SUCCESSES, seconds, cost))
