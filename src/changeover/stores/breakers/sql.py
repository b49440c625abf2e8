"""SqlBreakers: how the receivers of handoffs do, in the database of a log."""

from __future__ import annotations

from collections.abc import Callable

from changeover.guards.breaker import Circuit
from changeover.stores.breakers.jobs import BreakerJob
from changeover.stores.breakers.statements import BreakerStatements, circuit_of
from changeover.stores.sql.reader import Reader
from changeover.stores.sql.writer import Writer


class SqlBreakers:
    """Whoever opens or resets asks the writer; whoever lists only reads."""

    calm = False
    """Others write too, and to ask them takes as long as to tell."""

    def __init__(self, sql: BreakerStatements, writer: Writer, reader: Reader, check: Callable[[], None]) -> None:
        self._sql, self._writer, self._reader = sql, writer, reader
        self._check = check
        """Raises if the store is closed."""

    async def listed(self) -> list[Circuit]:
        self._check()
        found = [circuit_of(row) for row in await self._reader.rows(self._sql.all())]
        # Not those whose row was only made to be locked.
        return sorted((each for each in found if each != Circuit(each.receiver)), key=lambda each: each.receiver)

    async def force(self, receiver: str, at: float) -> None:
        self._check()
        self._writer.put(opening := BreakerJob(receiver, at, opens=True))
        await opening.future

    async def reset(self, receiver: str, at: float) -> bool:
        self._check()
        self._writer.put(closing := BreakerJob(receiver, at, opens=False))
        return await closing.future
