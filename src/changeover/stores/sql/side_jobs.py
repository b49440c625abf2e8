"""Side jobs: writes that need a transaction of their own kind, their waiting line, and OpenStore, which sends them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Sequence
from typing import Any, Generic, TypeVar

from changeover.errors import StoreClosed, StoreUnavailable
from changeover.stores.sql.database import Call, Database, Row, Session
from changeover.stores.sql.jobs import LARGEST, Job
from changeover.stores.sql.reader import Reader

D = TypeVar("D")
T = TypeVar("T")

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
    """How many of the first jobs share a transaction."""
    filled = jobs[0].share
    for count, job in enumerate(jobs[1:], 1):
        filled += job.share
        if filled > 1:
            return count
    return len(jobs)


class OpenStore:
    """How the side tables of an open store read and write. Every method raises StoreClosed once it is closed."""

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
