"""The table `agents`: its statements and the writer's jobs."""

from __future__ import annotations

import sqlalchemy as sa

from changeover.stores.sql.compiler import Compiler, now
from changeover.stores.sql.database import Call, Session
from changeover.stores.sql.schema import agents
from changeover.stores.sql.side_jobs import Beside

a = agents.c

ONE: sa.ColumnElement[int] = sa.literal_column("1")


class AgentStatements:
    """Keeping, switching, removing and listing."""

    def __init__(self, say: Compiler) -> None:
        self.all = say(sa.select(a.id, a.profile, a.enabled, a.removed, a.updated_at).order_by(a.id))
        # Each row counts its own changes and is never deleted: of two who change different ones at once, neither
        # waits for the other, and whoever adds up cannot miss either.
        self.version = say(sa.select(sa.func.coalesce(sa.func.sum(a.version), sa.literal_column("0"))))
        self.put = say(_changed(say, "profile", "enabled", "removed"))
        self.switch = say(_changed(say, "enabled", "removed"))
        self.remove = say(_changed(say, "removed"))


def _changed(say: Compiler, *columns: str) -> sa.ClauseElement:
    """Make the row of an agent; if it is there, change only these columns of it."""
    row = say.insert(agents, updated_at=now(), version=ONE)
    anew = {name: row.excluded[name] for name in (*columns, "updated_at")}
    return row.on_conflict_do_update(index_elements=[a.id], set_={**anew, "version": a.version + ONE})


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
