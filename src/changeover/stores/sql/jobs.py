"""Jobs: requests to the writer and their results; side jobs have a transaction of their own kind."""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from time import perf_counter
from typing import Any, Generic, TypeVar

from changeover.errors import StoreClosed, StoreUnavailable
from changeover.relay.events import Entry
from changeover.relay.ports.log import Circuits, Head, Reserve
from changeover.relay.ports.queue import Claim
from changeover.relay.projection.admission import about_tickets
from changeover.relay.projection.rows import Rows
from changeover.stores.codec import encode
from changeover.stores.sql.database import Call, Database, Row, Session
from changeover.stores.sql.reader import Reader

T = TypeVar("T")

LARGEST = 1_000
"""The most jobs of one transaction."""


class Job(Generic[T]):
    """A request to the writer; the caller's event loop awaits its result."""

    __slots__ = ("circuits", "conversation", "error", "future", "result", "root", "tickets", "tried")

    def __init__(self, conversation: str, root: str, result: T) -> None:
        self.conversation, self.root, self.result = conversation, root, result
        self.future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.error: Exception | None = None
        self.tickets: Sequence[str] = ()
        """The tickets that it locks."""
        self.circuits: Circuits | None = None
        """Its report to circuit breakers, if it has one."""
        self.tried = False
        """True if it may be done already, by a commit whose result was lost."""

    @property
    def begins(self) -> bool:
        """True if a run begins with it, which must know the last declarations."""
        return False


class Append(Job[None]):
    """Record an entry."""

    __slots__ = ("asked_at", "body", "claim", "entry", "epoch", "head", "reserve", "rows")

    def __init__(
        self,
        entry: Entry,
        head: Head | None,
        reserve: Reserve | None,
        claim: Claim | None,
        circuits: Circuits | None,
        rows: Rows | None,
    ) -> None:
        self.body, events = encode(entry.events)
        super().__init__(entry.conversation, entry.root, None)
        self.entry, self.head, self.reserve, self.claim = entry, head, reserve, claim
        self.rows = rows if rows is None or events is entry.events else rows.storable()
        self.circuits = circuits
        self.asked_at = perf_counter()
        self.epoch = 0
        """The epoch of the lease under which it was asked for."""
        if about_tickets(head, claim):
            self.tickets = _tickets(head, claim)

    @property
    def begins(self) -> bool:
        return self.head is not None and self.head.edition is not None


class Own(Job[bool]):
    """Own a conversation."""

    __slots__ = ()

    def __init__(self, conversation: str) -> None:
        super().__init__(conversation, conversation, False)


class Release(Job[bool]):
    """Give up a conversation, if its log still ends at this position."""

    __slots__ = ("due", "position", "rests")

    def __init__(self, conversation: str, position: int, rests: str, due: float | None) -> None:
        super().__init__(conversation, conversation, True)
        self.position, self.rests, self.due = position, rests, due
        if rests:
            self.tickets = (rests,)


def _tickets(head: Head | None, claim: Claim | None) -> list[str]:
    ids = [claim.ticket] if claim else []
    return [*ids, *(ticket.id for ticket in head.tickets), *head.rests, *head.gone] if head else ids


def tell(jobs: Iterable[Job[Any]]) -> None:
    """Give each caller its result: one message per event loop, however many callers wait in it."""
    by_loop: defaultdict[asyncio.AbstractEventLoop, list[Job[Any]]] = defaultdict(list)
    for job in jobs:
        by_loop[job.future.get_loop()].append(job)
    for loop, told in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, told)
        except RuntimeError:
            continue  # the loop is closed, so no caller waits in it


def _resolve(jobs: list[Job[Any]]) -> None:
    for job in jobs:
        if job.future.done():
            continue  # the caller was cancelled
        if job.error is None:
            job.future.set_result(job.result)
        else:
            job.future.set_exception(job.error)


D = TypeVar("D")

Transaction = Callable[[Session, Sequence["SideJob[D, T]"]], Collection[str] | None]
"""Gives each of these jobs its result in one transaction, or raises the driver's error. Returns topics to wake."""


class SideJob(Job[T], Generic[D, T]):
    """A request that is written apart from entries, whether or not this process holds its lease."""

    __slots__ = ("data", "share", "transaction")

    def __init__(self, transaction: Transaction[D, T], data: D, result: T, share: float = 1 / LARGEST) -> None:
        super().__init__("", "", result)
        self.transaction, self.data = transaction, data
        self.share = share
        """The part of a transaction that it fills; 1 or more fills one."""


class Waiting:
    """Side jobs that wait, by their kind of transaction: each transaction is of one kind."""

    def __init__(self) -> None:
        self._jobs: dict[Transaction[Any, Any], list[SideJob[Any, Any]]] = {}

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def put(self, job: SideJob[Any, Any]) -> None:
        self._jobs.setdefault(job.transaction, []).append(job)

    def take(self) -> list[list[SideJob[Any, Any]]]:
        """The jobs of one transaction of each kind; a job that is too large for any has one to itself."""
        taken = []
        for kind, jobs in list(self._jobs.items()):
            count = _fitting(jobs)
            taken.append(jobs[:count])
            self._jobs[kind] = jobs[count:]
            if not self._jobs[kind]:
                del self._jobs[kind]
        return taken


def _fitting(jobs: list[SideJob[Any, Any]]) -> int:
    """Number of jobs, from the first on, that share a transaction."""
    filled = jobs[0].share
    for count, job in enumerate(jobs[1:], 1):
        filled += job.share
        if filled > 1:
            return count
    return len(jobs)


class OpenStore:
    """Reads and writes for the side tables of an open store. All methods but `send` raise StoreClosed once it is
    closed."""

    def __init__(self, database: Database, reader: Reader, put: Callable[[Job[Any]], None]) -> None:
        self._shown, self._reader, self._put = database.shown, reader, put
        self._pid = os.getpid()
        self.closed = False

    def check(self) -> None:
        """Raise StoreClosed, or StoreUnavailable in a process that was forked from the one that opened the store."""
        if self.closed:
            raise StoreClosed(f"the store {self._shown} is closed")
        if os.getpid() != self._pid:
            raise StoreUnavailable(f"the store {self._shown} was opened before a fork; open it in each process")

    async def rows(self, call: Call) -> list[Row]:
        """The rows that a query finds."""
        self.check()
        return await self._reader.rows(call)

    async def large(self, call: Call) -> list[Row]:
        """The rows that a query finds, if they may be many or large."""
        self.check()
        return await self._reader.large(call)

    def write(
        self, transaction: Transaction[D, T], data: D, result: T, share: float = 1 / LARGEST
    ) -> asyncio.Future[T]:
        """Have the writer run this transaction; `result` is the job's, unless the transaction gives it another."""
        self.check()
        return self.send(SideJob(transaction, data, result, share))

    def send(self, job: SideJob[D, T]) -> asyncio.Future[T]:
        """The same for a job, also while the store is being closed."""
        self._put(job)
        return job.future
