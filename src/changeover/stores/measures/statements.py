"""What the store asks a database when it counts. Times lie after `since`, and not after `until`."""

from __future__ import annotations

import sqlalchemy as sa

from changeover.stores.sql.compiler import Compiler, bind
from changeover.stores.sql.schema import breaker_openings, handoffs, ledgers, refusals

h, g, o, r = handoffs.c, ledgers.c, breaker_openings.c, refusals.c


class MeasureStatements:
    """Handoffs one by one, and everything else added up."""

    def __init__(self, say: Compiler) -> None:
        what = (h.sender, h.receiver, h.mode, h.state, h.offered_at, h.accepted_at, h.ended_at)
        course = sa.select(*what, h.reason.is_not(None), h.tokens_before, h.tokens_after, h.id)
        further = sa.tuple_(h.offered_at, h.id) > sa.tuple_(bind("after", sa.Double), bind("id", sa.Text))
        page = course.where(further, _within(h.offered_at)).order_by(h.offered_at, h.id)
        self.courses = say(page.limit(bind("limit", sa.Integer)).offset(sa.literal_column("0")))
        sums = (sa.func.sum(each) for each in (g.turns, g.retries, g.input_tokens, g.output_tokens, g.cost))
        spent = sa.select(g.agent, sa.func.count(), *sums, sa.func.count(g.cost))
        self.expenses = say(spent.where(_within(g.ended_at)).group_by(g.agent))
        refused = sa.select(r.sender, r.receiver, r.kind, sa.func.count()).where(_within(r.at))
        self.refused = say(refused.group_by(r.sender, r.receiver, r.kind))
        self.opened = say(sa.select(o.receiver, sa.func.count()).where(_within(o.at)).group_by(o.receiver))


def _within(time: sa.Column[float]) -> sa.ColumnElement[bool]:
    return sa.and_(time > bind("since", sa.Double), time <= bind("until", sa.Double))
