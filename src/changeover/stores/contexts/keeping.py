"""One transaction of those who keep contexts, or sweep away what has expired."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from changeover.stores.sql.contexts import Put, Sweep
from changeover.stores.sql.database import Session
from changeover.stores.sql.jobs import Job
from changeover.stores.sql.statements import Statements

SWEPT = 100
"""How many are removed in one transaction: whoever appends waits for it."""


def keep(session: Session, sql: Statements, jobs: Sequence[Job[Any]]) -> None:
    """Give each job its result, or raise what the driver raises."""
    session.begin()
    for job in jobs:
        if isinstance(job, Sweep):
            job.result = len(session.run([sql.contexts.sweep(now=job.now, limit=SWEPT)])[0])
    # In one order for everybody: of two who keep the same, one waits for the other, and never each for the other.
    rows = sorted((job.row for job in jobs if isinstance(job, Put)), key=lambda row: row[:2])
    session.commit([(sql.contexts.put.sql, rows)] if rows else [])
