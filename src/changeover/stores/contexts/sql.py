"""SqlContexts: what is kept whole beside a log, in its database."""

from __future__ import annotations

from collections.abc import Callable

from changeover.relay.contexts import Kept
from changeover.stores.contexts.statements import ContextStatements
from changeover.stores.sql.contexts import Put, Sweep
from changeover.stores.sql.reader import Reader
from changeover.stores.sql.writer import Writer


class SqlContexts:
    """Whoever keeps or sweeps asks the writer; whoever gets only reads."""

    def __init__(self, sql: ContextStatements, writer: Writer, reader: Reader, check: Callable[[], None]) -> None:
        self._sql, self._writer, self._reader = sql, writer, reader
        self._check = check
        """Raises if the store is closed."""

    async def put(self, root: str, id: str, body: str, expires_at: float | None = None) -> None:
        self._check()
        self._writer.put(put := Put(root, id, body, expires_at))
        await put.future

    async def get(self, root: str, id: str) -> Kept | None:
        self._check()
        rows = await self._reader.large(self._sql.get(root=root, id=id))
        return Kept(*rows[0]) if rows else None

    async def sweep(self, now: float) -> int:
        swept = 0
        while removed := await self._sweep(now):
            swept += removed
        return swept

    async def _sweep(self, now: float) -> int:
        self._check()
        self._writer.put(sweep := Sweep(now))
        return await sweep.future
