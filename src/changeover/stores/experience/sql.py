"""SqlLessons: what became of tasks whose receivers were looked for, by the tables of a database."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from changeover.facts import State
from changeover.relay.experience import MOST, Lesson, Unlearned
from changeover.routing.utility import Outcome
from changeover.stores.experience.jobs import Reset
from changeover.stores.sql.database import Row
from changeover.stores.sql.experience import LessonStatements
from changeover.stores.sql.reader import Reader
from changeover.stores.sql.writer import Writer

SUCCESSES = (State.COMPLETE, State.RETURNED)


class SqlLessons:
    """Whoever resets asks the writer; whoever looks back only reads."""

    def __init__(self, sql: LessonStatements, writer: Writer, reader: Reader, check: Callable[[], None]) -> None:
        self._sql, self._writer, self._reader = sql, writer, reader
        self._check = check
        """Raises if the store is closed."""

    async def outcomes(self, capability: str, after: float = -inf, most: int = MOST) -> list[Lesson]:
        self._check()
        rows = await self._reader.rows(self._sql.outcomes(capability=capability, after=after, most=most))
        return [_lesson(capability, row) for row in reversed(rows)]

    async def capabilities(self) -> list[str]:
        self._check()
        return sorted(name for (name,) in await self._reader.large(self._sql.capabilities()))

    async def unlearned(self) -> list[Unlearned]:
        self._check()
        rows = await self._reader.rows(self._sql.unlearned())
        return [Unlearned(*row) for row in sorted(rows)]

    async def reset(self, at: float, capability: str = "", agent: str = "") -> None:
        self._check()
        self._writer.put(reset := Reset(at, capability, agent))
        await reset.future


def _lesson(capability: str, row: Row) -> Lesson:
    id, agent, state, accepted_at, ended_at, cost = row
    seconds = None if accepted_at is None else ended_at - accepted_at
    return Lesson(id, ended_at, Outcome(capability, agent, state in SUCCESSES, seconds, cost))
