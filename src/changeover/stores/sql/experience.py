"""What the store says to a database about outcomes."""

from __future__ import annotations

import sqlalchemy as sa

from changeover.stores.sql.compiler import Compiler, bind
from changeover.stores.sql.schema import handoffs, ledgers, unlearned

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
