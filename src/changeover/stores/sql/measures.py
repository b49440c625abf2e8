"""SqlMeasures: what the tables of a database say about how handoffs went."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from math import inf

from changeover.relay.tables import Course, Expenses, Opened, Refused
from changeover.stores.measures.statements import MeasureStatements
from changeover.stores.sql.database import Call, Row

PAGE = 10_000
"""How many handoffs are in memory at once."""

Ask = Callable[[Call], Awaitable[list[Row]]]


class SqlMeasures:
    """Counts in a database, however it is asked."""

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
    # One run whose cost nobody knows makes the sum unknown.
    return Expenses(agent, runs, turns, retries, input_tokens, output_tokens, cost if known == runs else None)
