"""What the writer is asked to do about outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from changeover.stores.sql.database import Row, Session
from changeover.stores.sql.experience import LessonStatements
from changeover.stores.sql.jobs import LARGEST, Job
from changeover.stores.sql.side_jobs import Beside


class Reset(Beside[None]):
    """Count what was no longer."""

    __slots__ = ("at", "names")

    def __init__(self, at: float, capability: str, agent: str) -> None:
        super().__init__(None, share=1 / LARGEST)
        self.at, self.names = at, (capability, agent)


def unlearn(session: Session, sql: LessonStatements, jobs: Sequence[Job[Any]]) -> None:
    """Do so, or raise what the driver raises."""
    wanted = [job for job in jobs if isinstance(job, Reset)]
    # In one order for everybody: of two who reset the same, one waits for the other, and never each for the other.
    rows: list[Row] = [
        sql.reset(capability=job.names[0], agent=job.names[1], at=job.at)[1]
        for job in sorted(wanted, key=lambda job: (job.names, job.at))
    ]
    session.begin()
    session.commit([(sql.reset.sql, rows)])
