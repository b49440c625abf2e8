"""Writer: the thread that takes waiting jobs, commits them in batches and reports the results."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Sequence
from contextlib import suppress
from time import perf_counter
from typing import Any

from changeover.errors import LeaseLost, MisconfiguredError, StoreUnavailable
from changeover.relay.ports.health import Traffic
from changeover.stores.feed import Feed
from changeover.stores.sql.batch import Batch
from changeover.stores.sql.database import TRIES, Database, Session, Trouble, connect_again
from changeover.stores.sql.erasure import Forget
from changeover.stores.sql.jobs import LARGEST, Append, Job, SideJob, Waiting, tell
from changeover.stores.sql.lease import Lease
from changeover.stores.sql.locks import UNREAD, Places
from changeover.stores.sql.statements import Statements

logger = logging.getLogger("changeover.stores")


class Writer:
    """Group commit: while one transaction is being synced, jobs collect for the next one."""

    def __init__(
        self, database: Database, session: Session, sql: Statements, lease: Lease, feed: Feed, traffic: Traffic
    ) -> None:
        self._database, self._session, self._sql = database, session, sql
        self._lease, self._feed, self._traffic = lease, feed, traffic
        self._places = Places(sql)
        self._queue: queue.SimpleQueue[Job[Any] | None] = queue.SimpleQueue()
        self._left_over: list[Job[Any]] = []
        self._beside = Waiting()
        self._bells: set[str] = set()
        self._stopping = self._over = False
        self.commits = 0
        self._thread = threading.Thread(target=self._work, name="changeover-writer", daemon=True)
        self._thread.start()

    def put(self, job: Job[Any]) -> None:
        self._queue.put(job)
        if self._over:
            self._turn_away()

    def stop(self) -> None:
        """Write the jobs that wait, give up the lease and disconnect, then return."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        while not self._stopping or self._left_over or self._beside:
            self._carry_out(self._take())
            if self._beside:
                for jobs in self._beside.take():
                    self._carry_out(jobs)
        self._leave()
        self._session.close()
        self._over = True
        self._turn_away()

    def _carry_out(self, jobs: Sequence[Job[Any]]) -> None:
        try:
            self._write(jobs)
        except Exception as error:  # if this thread died, callers would wait forever
            self._fail(jobs, error)
        tell(jobs)
        if self._feed.listened:
            told = {job.root for job in jobs if isinstance(job, Append) and job.error is None}
            self._feed.tell(told | self._bells)
        self._bells.clear()

    def _turn_away(self) -> None:
        """Refuse the jobs that another event loop put after the end: they would wait forever."""
        with suppress(queue.Empty):
            while True:
                if job := self._queue.get_nowait():
                    job.error = StoreUnavailable(f"the store {self._database.shown} is closed")
                    tell([job])

    def _leave(self, again: bool = True) -> None:
        """Give up the lease. If that fails, other processes wait until it expires."""
        try:
            self._lease.give_up(self._session)
        except Exception as error:
            self._session.rollback()
            if again and self._database.trouble(error) is Trouble.LOST and self._reconnect(error):
                self._leave(again=False)
            else:
                logger.warning("the lease on %s was not given up: %s", self._database.shown, error)

    def _take(self) -> list[Job[Any]]:
        """The jobs of the next transaction of entries, at most one per conversation; none if the lease is due first.
        Side jobs are put aside."""
        waiting, self._left_over = self._left_over, []
        chosen: dict[str, Job[Any]] = {}
        for job in waiting:
            self._sort_in(job, chosen)
        try:
            if not waiting and not self._beside:
                self._sort_in(self._queue.get(timeout=self._lease.due_in), chosen)
            for _ in range(LARGEST - len(waiting)):
                self._sort_in(self._queue.get_nowait(), chosen)
        except queue.Empty:
            pass
        return list(chosen.values())

    def _sort_in(self, job: Job[Any] | None, chosen: dict[str, Job[Any]]) -> None:
        if job is None:
            self._stopping = True
        elif isinstance(job, SideJob):
            self._beside.put(job)
        elif chosen.setdefault(job.conversation, job) is not job:
            self._left_over.append(job)

    def _write(self, jobs: Sequence[Job[Any]], tries: int = TRIES, careful: bool = False) -> None:
        """Give each of these jobs a result or an error."""
        try:
            if jobs and isinstance(jobs[0], SideJob):
                self._write_beside([job for job in jobs if isinstance(job, SideJob)])
            else:
                self._write_entries(jobs, careful)
        except Exception as error:
            self._session.rollback()
            self._places.forget()
            if isinstance(error, LeaseLost):
                self._lease.lost()
                self._fail([job for job in jobs if isinstance(job, Append)], error)
                jobs = [job for job in jobs if not isinstance(job, Append)]
            if not self._tried_again(jobs, error, tries - 1, careful):
                self._fail(jobs, error)

    def _write_entries(self, jobs: Sequence[Job[Any]], careful: bool) -> None:
        if self._lease.is_due and (jobs or self._lease.epoch):
            self._lease.hold(self._session)
        if jobs:
            batch = Batch(self._session, self._sql, self._lease, self._places)
            batch.write(jobs, careful)
            self.commits += 1
            self._bells |= batch.bells
            self._traffic.published += len(batch.published)
            if batch.recorded:
                self._traffic.note_batch(len(batch.recorded), perf_counter() - batch.recorded[0].asked_at)

    def _write_beside(self, jobs: Sequence[SideJob[Any, Any]]) -> None:
        """Write jobs of one kind. They need no lease of this process, and never wait for a conversation."""
        self._bells.update(jobs[0].transaction(self._session, jobs) or ())
        self.commits += 1
        # The connection reports only the writes of others: drop what this one may have changed.
        self._places.edition = UNREAD
        if isinstance(jobs[0], Forget):
            self._places.forget()

    def _tried_again(self, jobs: Sequence[Job[Any]], error: Exception, tries: int, careful: bool) -> bool:
        """Retry if that may help; False if it was not retried."""
        trouble = Trouble.AGAIN if isinstance(error, LeaseLost) else self._database.trouble(error)
        match trouble:
            case Trouble.LOST if tries and self._reconnect(error):
                for job in jobs:
                    job.tried = True
                self._write(jobs, tries, careful=True)
            case Trouble.AGAIN | Trouble.CLASH if tries:
                self._write(jobs, tries, careful or trouble is Trouble.CLASH)
            case Trouble.MINE | Trouble.LARGE | None if len(jobs) > 1:
                for job in jobs:
                    self._write([job], tries, careful)
            case _:
                return False
        return True

    def _reconnect(self, why: Exception) -> bool:
        logger.warning("the connection to %s was lost: %s", self._database.shown, why)
        self._session.close()
        try:
            self._session = connect_again(self._database)
        except StoreUnavailable as error:
            logger.warning("%s", error)
            return False
        return True

    def _fail(self, jobs: Sequence[Job[Any]], error: Exception) -> None:
        """Give each job an exception of its own: a caller that catches it may change it."""
        if not jobs:
            logger.warning("the lease on %s was not renewed: %s", self._database.shown, error)
        for job in jobs:
            if isinstance(error, LeaseLost):
                job.error = LeaseLost(str(error))
            elif self._database.trouble(error) is Trouble.LARGE:
                job.error = MisconfiguredError(f"it is too large for the store {self._database.shown}: {error}")
                job.error.__cause__ = error
            else:
                job.error = StoreUnavailable(f"the store {self._database.shown} cannot be written: {error}")
                job.error.__cause__ = error
