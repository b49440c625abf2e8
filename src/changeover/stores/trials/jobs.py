"""What the writer is asked to keep of what users measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from changeover.errors import ConversationNotFound
from changeover.stores.sql.database import Row, Session
from changeover.stores.sql.jobs import LARGEST, Job
from changeover.stores.sql.side_jobs import Beside
from changeover.stores.sql.statements import Statements


class Measure(Beside[None]):
    """Keep one measure of a conversation."""

    __slots__ = ("row",)

    def __init__(self, row: Row) -> None:
        super().__init__(None, share=1 / LARGEST, root=row[0])
        self.row = row
        """The conversation, the name, the value, and when it was measured."""


def keep_measures(session: Session, sql: Statements, jobs: Sequence[Job[Any]]) -> None:
    """Give each job its result, or raise what the driver raises."""
    wanted = sorted((job for job in jobs if isinstance(job, Measure)), key=lambda job: job.root)
    session.begin()
    # Locked, and in one order for everybody: whoever forgets a conversation must not leave a measure of it behind.
    found = {
        root: bool(session.run([sql.forget.root(root=root)])[0]) for root in dict.fromkeys(each.root for each in wanted)
    }
    for job in wanted:
        if not found[job.root]:
            job.error = ConversationNotFound(job.root)
    # The last of each name: a database changes no row twice in one statement.
    rows = {job.row[:2]: job.row for job in jobs if isinstance(job, Measure) and found[job.root]}
    session.commit([(sql.trials.measure.sql, list(rows.values()))] if rows else [])
