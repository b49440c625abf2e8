"""The table `unlearned` and the outcomes in `handoffs`: statements and the writer's jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from changeover.stores.sql.compiler import Compiler, bind
from changeover.stores.sql.database import Row, Session
from changeover.stores.sql.jobs import LARGEST, Job
from changeover.stores.sql.schema import handoffs, ledgers, unlearned
from changeover.stores.sql.side_jobs import Beside

h, g, u = handoffs.c, ledgers.c, unlearned.c

ZERO: sa.ColumnElement[int] = sa.literal_column("0")
TWO: sa.ColumnElement[int] = sa.literal_column("2")
NOTHING: sa.ColumnElement[str] = sa.literal_column("''")


class LessonStatements:
    """Looking back, and no longer counting what was."""

    def __init__(self, say: Compiler) -> None:
        asked = h.capability == bind("capability"), h.ended_at > bind("after", sa.Double)
        lessons = sa.select(h.id, h.receiver, h.state, h.accepted_at, h.ended_at, _cost())
        last = lessons.where(*asked, _is_outcome(), ~_unlearned()).order_by(h.ended_at.desc(), h.id.desc())
        self.outcomes = say(last.limit(bind("most", sa.Integer)).offset(ZERO))
        self.capabilities = say(sa.select(h.capability).distinct().where(h.capability.is_not(None)))
        self.unlearned = say(sa.select(u.capability, u.agent, u.at))
        put = say.insert(unlearned)
        later = u.at < put.excluded.at
        self.reset = say(
            put.on_conflict_do_update(index_elements=[u.capability, u.agent], set_={"at": put.excluded.at}, where=later)
        )


def _is_outcome() -> sa.ColumnElement[bool]:
    """Who comes back for no reason has what was asked for; who has one was called back, or wanted to know more."""
    over = h.state.in_([sa.literal_column(f"'{state}'") for state in ("COMPLETE", "FAILED", "TIMEOUT")])
    return sa.or_(over, sa.and_(h.state == sa.literal_column("'RETURNED'"), h.reason.is_(None)))


def _unlearned() -> sa.ColumnElement[bool]:
    named = u.capability.in_([NOTHING, h.capability]), u.agent.in_([NOTHING, h.receiver])
    return sa.exists().where(*named, u.at >= h.ended_at)


def _cost() -> sa.ColumnElement[float]:
    """What was spent in the delegate's conversation; one cost that nobody knows makes the sum unknown."""
    call = sa.func.substr(h.id, sa.func.length(h.conversation) + TWO)
    child = h.conversation + sa.literal_column("'/'") + call
    known = sa.case((sa.func.count() == sa.func.count(g.cost), sa.func.sum(g.cost)))
    return sa.select(known).where(g.conversation == child).scalar_subquery()


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
