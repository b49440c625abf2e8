"""SqlTrials: results of experiments and users' measures, with the statements of `trials` and `measures`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence

import sqlalchemy as sa

from changeover.errors import ConversationNotFound
from changeover.relay.projection.admission import ENDED
from changeover.routing.statistics import Measured
from changeover.stores.sql.compiler import ONE, Compiler, bind
from changeover.stores.sql.database import Call, Row, Session
from changeover.stores.sql.jobs import OpenStore, SideJob
from changeover.stores.sql.schema import conversations, ledgers, measures, tasks, trials
from changeover.stores.sql.table import TableStatements
from changeover.stores.tables import MEASURES, MeasureRow

c, g, k, m, t = conversations.c, ledgers.c, tasks.c, measures.c, trials.c

Ask = Callable[[Call], Awaitable[list[Row]]]
"""Runs a query."""


class TrialStatements:
    """The SQL of the conversations of an experiment: their variant, spending, duration and measures."""

    def __init__(self, say: Compiler) -> None:
        here = t.experiment == bind("experiment")
        ended = c.status.in_([sa.literal_column(f"'{status}'") for status in sorted(ENDED)])
        over = sa.select(t.conversation, t.variant, c.status).where(here, c.id == t.conversation, ended)
        self.over = say(over)
        figures = (t.conversation, (g.input_tokens + g.output_tokens).label("tokens"), g.cost)
        own = sa.select(*figures).where(here, g.conversation == t.conversation)
        # Apart from the roots, which are most: each part is found by an index.
        beneath = sa.select(*figures).where(
            here, c.root == t.conversation, c.parent.is_not(None), g.conversation == c.id
        )
        all_ = sa.union_all(own, beneath).subquery().c
        unknown = sa.func.count() - sa.func.count(all_.cost)
        spent = sa.select(all_.conversation, sa.func.sum(all_.tokens), sa.func.sum(all_.cost), unknown)
        self.spent = say(spent.group_by(all_.conversation))
        # By tasks: a run in which no agent spent anything has them too.
        took = (sa.func.max(k.updated_at) - sa.func.min(k.created_at)).label("took")
        of_root = sa.select(k.conversation, took).where(here, k.conversation == t.conversation)
        runs = of_root.group_by(k.conversation, k.run_id).subquery()
        lasted = sa.select(runs.c.conversation, sa.func.sum(runs.c.took))
        self.lasted = say(lasted.group_by(runs.c.conversation))
        self.own = say(sa.select(m.conversation, m.name, m.value).where(here, m.conversation == t.conversation))
        self.variants = say(sa.select(t.experiment, t.variant).distinct())
        self.lock = say(sa.select(ONE).where(c.id == bind("root"), c.root == bind("root")).with_for_update())
        self.measures = TableStatements(MEASURES, say)


class TrialReader:
    """Counts experiments in a database."""

    def __init__(self, sql: TrialStatements, ask: Ask) -> None:
        self._sql, self._ask = sql, ask

    async def measured(self, experiment: str) -> list[Measured]:
        over = await self._ask(self._sql.over(experiment=experiment))
        spent = {row[0]: _spent(*row[1:]) for row in await self._ask(self._sql.spent(experiment=experiment))}
        lasted: dict[str, float] = dict(await self._ask(self._sql.lasted(experiment=experiment)))
        own: defaultdict[str, dict[str, float]] = defaultdict(dict)
        for root, name, value in await self._ask(self._sql.own(experiment=experiment)):
            own[root][name] = value
        found = []
        for root, variant, status in sorted(over):
            tokens, cost = spent.get(root, (0, 0.0))
            found.append(Measured(variant, status == "completed", tokens, cost, lasted.get(root, 0.0), own[root]))
        return found

    async def variants(self) -> dict[str, list[str]]:
        found: defaultdict[str, list[str]] = defaultdict(list)
        for experiment, variant in sorted(await self._ask(self._sql.variants())):
            found[experiment].append(variant)
        return dict(found)


class SqlTrials(TrialReader):
    """Experiments in a database."""

    def __init__(self, sql: TrialStatements, store: OpenStore) -> None:
        super().__init__(sql, store.large)
        self._store = store

    async def measure(self, conversation: str, name: str, value: float, at: float) -> None:
        await self._store.write(self._put, MeasureRow(conversation, name, value, at), None)

    def _put(self, session: Session, jobs: Sequence[SideJob[MeasureRow, None]]) -> None:
        session.begin()
        # The roots are locked, so that no measure outlives a conversation that is forgotten at this moment; by name:
        # of two processes that lock the same, one waits for the other, and never each for the other.
        roots = sorted({job.data.conversation for job in jobs})
        found = {root for root in roots if session.run([self._sql.lock(root=root)])[0]}
        table = self._sql.measures
        rows = [table.bound(job.data) for job in jobs if job.data.conversation in found]
        for job in jobs:
            if job.data.conversation not in found:
                job.error = ConversationNotFound(job.data.conversation)
        session.commit([(table.put.sql, rows)] if rows else [])


def _spent(tokens: int, cost: float | None, unknown: int) -> tuple[int, float | None]:
    # One run of unknown cost makes the sum unknown. PostgreSQL returns sums of integers as Decimal.
    return int(tokens), None if unknown else cost
