"""What the writer is asked to do about agents."""

from __future__ import annotations

from changeover.stores.sql.database import Call, Session
from changeover.stores.sql.side_jobs import Beside


class AgentJob(Beside[None]):
    """Change what is said of one agent."""

    __slots__ = ("change",)

    def __init__(self, change: Call) -> None:
        # Alone in its transaction: it can wait for one row, and never two for each other.
        super().__init__(None, share=1.0)
        self.change = change


def change(session: Session, job: AgentJob) -> None:
    """Carry it out, or raise what the driver raises."""
    sql, row = job.change
    session.begin()
    session.commit([(sql, [row])])
