"""SqlMeasures: handoffs, refusals, breaker openings and spending, counted for metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from math import inf

import sqlalchemy as sa

from changeover.relay.tables import Course, Expenses, Opened, Refused
from changeover.stores.sql.compiler import Compiler, bind
from changeover.stores.sql.database import Call, Row
from changeover.stores.sql.schema import breaker_openings, handoffs, ledgers, refusals

h, g, o, r = handoffs.c, ledgers.c, breaker_openings.c, refusals.c


class MeasureStatements:
    """The SQL of metrics: handoffs in pages, all other figures as sums."""

    def __init__(self, say: Compiler) -> None:
        what = (h.sender, h.receiver, h.mode, h.state, h.offered_at, h.accepted_at, h.ended_at)
        course = sa.select(*what, h.reason.is_not(None), h.tokens_before, h.tokens_after, h.id)
        further = sa.tuple_(h.offered_at, h.id) > sa.tuple_(bind("after", sa.Double), bind("id", sa.Text))
        page = course.where(further, _within(h.offered_at)).order_by(h.offered_at, h.id)
        self.courses = say(page.limit(bind("limit", sa.Integer)).offset(sa.literal_column("0")))
        sums = (sa.func.sum(each) for each in (g.turns, g.retries, g.input_tokens, g.output_tokens, g.cost))
        spent = sa.select(g.agent, sa.func.count(), *sums, sa.func.count(g.cost))
        self.expenses = say(spent.where(_within(g.ended_at)).group_by(g.agent))
        refused = sa.select(r.sender, r.receiver, r.kind, sa.func.count()).where(_within(r.at))
        self.refused = say(refused.group_by(r.sender, r.receiver, r.kind))
        self.opened = say(sa.select(o.receiver, sa.func.count()).where(_within(o.at)).group_by(o.receiver))


def _within(time: sa.Column[float]) -> sa.ColumnElement[bool]:
    return sa.and_(time > bind("since", sa.Double), time <= bind("until", sa.Double))


PAGE = 10_000
"""Handoffs that are read at once."""

Ask = Callable[[Call], Awaitable[list[Row]]]


class SqlMeasures:
    """Counts in a database."""

    def __init__(self, sql: MeasureStatements, ask: Ask, page: int = PAGE) -> None:
        self._sql, self._ask, self._page = sql, ask, page

    async def courses(self, since: float, until: float) -> AsyncIterator[list[Course]]:
        after, id, found = -inf, "", self._page
        while found == self._page:
            page = self._sql.courses(after=after, id=id, since=since, until=until, limit=self._page)
            rows = await self._ask(page)
            if rows:
                yield [_course(row) for row in rows]
                after, id = rows[-1][4], rows[-1][-1]
            found = len(rows)

    async def expenses(self, since: float, until: float) -> list[Expenses]:
        return [_expenses(row) for row in await self._ask(self._sql.expenses(since=since, until=until))]

    async def refused(self, since: float, until: float) -> list[Refused]:
        rows = await self._ask(self._sql.refused(since=since, until=until))
        return [Refused(sender, receiver, kind == "deadlock", count) for sender, receiver, kind, count in rows]

    async def opened(self, since: float, until: float) -> list[Opened]:
        return [Opened(*row) for row in await self._ask(self._sql.opened(since=since, until=until))]


def _course(row: Row) -> Course:
    sender, receiver, mode, state, offered_at, accepted_at, ended_at, explained, before, after, _ = row
    times = (offered_at, accepted_at, ended_at)
    return Course(sender, receiver, mode, state, *times, bool(explained), before, after)


def _expenses(row: Row) -> Expenses:
    agent, runs, turns, retries, input_tokens, output_tokens, cost, known = row
    # One run of unknown cost makes the sum unknown.
    return Expenses(agent, runs, turns, retries, input_tokens, output_tokens, cost if known == runs else None)
