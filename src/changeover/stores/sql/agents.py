"""What the store says to a database about agents."""

from __future__ import annotations

import sqlalchemy as sa

from changeover.stores.sql.compiler import Compiler, now
from changeover.stores.sql.schema import agents

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
