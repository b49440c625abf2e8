"""Reading beside the writer: on connections of its own, and without holding up the event loop."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from changeover.errors import StoreUnavailable
from changeover.stores.sql.database import TRIES, Call, Database, Row, Session, Trouble, connect_again

THREADS = 4


class Reader:
    """Reads on threads, each with a connection of its own; what is small and near is read on the spot."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._near = database.connect() if database.near else None
        self._near_lock = threading.Lock()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="changeover-reader")
        self._sessions: dict[int, Session] = {}

    async def rows(self, call: Call) -> list[Row]:
        """What this query finds."""
        found = self._glance(call)
        return found if found is not None else await self.large(call)

    async def large(self, call: Call) -> list[Row]:
        """What this query finds, which may be much also if it is but one row."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._read, call)
        except RuntimeError as error:
            raise StoreUnavailable(f"the store {self._database.shown} is closed") from error

    def close(self) -> None:
        self._threads.shutdown()
        for session in self._sessions.values():
            session.close()
        if self._near is not None:
            self._near.close()

    def _glance(self, call: Call) -> list[Row] | None:
        # The lock is only tried: another loop that reads just now must not hold up this one.
        if self._near is None or not self._near_lock.acquire(blocking=False):
            return None
        try:
            return self._near.glance(call)
        finally:
            self._near_lock.release()

    def _read(self, call: Call) -> list[Row]:
        for left in reversed(range(TRIES)):
            session = self._session()
            try:
                return session.ask(call)
            except Exception as error:
                if not left or self._database.trouble(error) is not Trouble.LOST:
                    raise StoreUnavailable(f"the store {self._database.shown} cannot be read: {error}") from error
                self._sessions.pop(threading.get_ident()).close()
        raise AssertionError("the last try returns or raises")

    def _session(self) -> Session:
        thread = threading.get_ident()
        if thread not in self._sessions:
            self._sessions[thread] = connect_again(self._database)
        return self._sessions[thread]
