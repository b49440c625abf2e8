"""The tables `trials` and `measures`: their statements."""

from __future__ import annotations

import sqlalchemy as sa

from changeover.relay.projection.admission import ENDED
from changeover.stores.sql.compiler import Compiler, bind
from changeover.stores.sql.schema import conversations, ledgers, measures, tasks, trials

c, g, k, m, t = conversations.c, ledgers.c, tasks.c, measures.c, trials.c


class TrialStatements:
    """Who took part, what they spent, how long they took, and what users measured of them."""

    def __init__(self, say: Compiler) -> None:
        here = t.experiment == bind("experiment")
        ended = c.status.in_([sa.literal_column(f"'{status}'") for status in sorted(ENDED)])
        over = sa.select(t.conversation, t.variant, c.status).where(here, c.id == t.conversation, ended)
        self.over = say(over)
        sums = (
            sa.func.sum(g.input_tokens + g.output_tokens),
            sa.func.sum(g.cost),
            sa.func.count() - sa.func.count(g.cost),
        )
        spent = sa.select(c.root, *sums).where(here, c.root == t.conversation, g.conversation == c.id)
        self.spent = say(spent.group_by(c.root))
        # By tasks: a run in which nobody spent anything has them too.
        took = (sa.func.max(k.updated_at) - sa.func.min(k.created_at)).label("took")
        of_root = sa.select(k.conversation, took).where(here, k.conversation == t.conversation)
        runs = of_root.group_by(k.conversation, k.run_id).subquery()
        lasted = sa.select(runs.c.conversation, sa.func.sum(runs.c.took))
        self.lasted = say(lasted.group_by(runs.c.conversation))
        self.own = say(sa.select(m.conversation, m.name, m.value).where(here, m.conversation == t.conversation))
        self.variants = say(sa.select(t.experiment, t.variant).distinct())
        put = say.insert(measures)
        anew = {name: put.excluded[name] for name in ("value", "at")}
        self.measure = say(put.on_conflict_do_update(index_elements=[m.conversation, m.name], set_=anew))
