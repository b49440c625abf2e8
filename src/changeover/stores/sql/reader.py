"""Reader: queries on threads and connections of their own, and concurrent log reads joined into one query."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from weakref import WeakKeyDictionary

from changeover.errors import StoreUnavailable
from changeover.stores.sql.database import PATIENCE, TRIES, Call, Database, Row, Session, Trouble, connect_again

THREADS = 4


class Reader:
    """Reads on threads, each with its own connection; small reads of a local file run at once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._near = database.connect() if database.near else None
        self._near_lock = threading.Lock()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="changeover-reader")
        self._sessions: dict[int, Session] = {}
        self._failed_at = -PATIENCE
        """When the database could not be reached; callers that come soon after need not wait for it too."""

    async def rows(self, call: Call) -> list[Row]:
        """The rows that a query finds."""
        found = self._glance(call)
        return found if found is not None else await self.large(call)

    async def large(self, call: Call) -> list[Row]:
        """The rows that a query finds, read on a thread: they may be many or large."""
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
        # Only tried: an event loop must not wait for the read of another one.
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
            patient = time.monotonic() - self._failed_at > PATIENCE
            try:
                self._sessions[thread] = connect_again(self._database) if patient else self._database.connect()
            except StoreUnavailable:
                self._failed_at = time.monotonic()
                raise
        return self._sessions[thread]


Wanted = list[tuple[str, asyncio.Future[list[Row]]]]
"""Conversations, each with the future that gets its entries."""


class Together:
    """Joins the reads of one iteration of an event loop into one query."""

    def __init__(self, reader: Reader, call: Callable[[Sequence[str]], Call]) -> None:
        self._reader = reader
        self._call = call
        """Builds the query for several conversations; each row begins with the id of one."""
        self._wanted: WeakKeyDictionary[asyncio.AbstractEventLoop, Wanted] = WeakKeyDictionary()

    async def rows(self, conversation: str) -> list[Row]:
        """The entries of a conversation, in order."""
        loop = asyncio.get_running_loop()
        found: asyncio.Future[list[Row]] = loop.create_future()
        if loop not in self._wanted:
            self._wanted[loop] = []
            loop.call_soon(self._ask, loop)
        self._wanted[loop].append((conversation, found))
        return await found

    def _ask(self, loop: asyncio.AbstractEventLoop) -> None:
        wanted = self._wanted.pop(loop)
        ids = list(dict.fromkeys(conversation for conversation, _ in wanted))
        asking = loop.create_task(self._reader.large(self._call(ids)))
        asking.add_done_callback(lambda asked: _tell(wanted, asked))


def _tell(wanted: Wanted, asked: asyncio.Task[list[Row]]) -> None:
    waiting = [(conversation, future) for conversation, future in wanted if not future.done()]
    if asked.cancelled():
        for _, future in waiting:
            future.cancel()
    elif error := asked.exception():
        for _, future in waiting:
            future.set_exception(_another(error))
    else:
        logs: dict[str, list[Row]] = {}
        for row in asked.result():
            logs.setdefault(row[0], []).append(row)
        for conversation, future in waiting:
            future.set_result(logs.get(conversation, []))


def _another(error: BaseException) -> BaseException:
    """A new exception for each caller: one that catches it may change it."""
    another = StoreUnavailable(str(error))
    another.__cause__ = error
    return another
