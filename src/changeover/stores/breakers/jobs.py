"""What the writer is asked to do about circuits by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from changeover.guards.breaker import closed, forced
from changeover.stores.breakers.statements import BreakerStatements
from changeover.stores.sql.breakers import Board
from changeover.stores.sql.database import Session
from changeover.stores.sql.jobs import LARGEST, Job
from changeover.stores.sql.side_jobs import Beside


class BreakerJob(Beside[bool]):
    """Open a circuit, or reset it; whether that changed anything."""

    __slots__ = ("at", "opens", "receiver")

    def __init__(self, receiver: str, at: float, opens: bool) -> None:
        super().__init__(False, share=1 / LARGEST)
        self.receiver, self.at, self.opens = receiver, at, opens


def turn(session: Session, sql: BreakerStatements, jobs: Sequence[Job[Any]]) -> None:
    """Give each job its result, or raise what the driver raises."""
    wanted = [job for job in jobs if isinstance(job, BreakerJob)]
    board = Board(sql)
    session.begin()
    board.lock(session, {job.receiver for job in wanted})
    for job in wanted:
        before = board.get(job.receiver)
        job.result = job.opens or not before.clean
        if job.result:
            board.put((forced if job.opens else closed)(before, job.at), job.at)
    session.commit(board.writes())
