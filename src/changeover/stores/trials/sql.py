"""What the tables of a database say about experiments, and what users measure beside."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable

from changeover.routing.outcomes import Measured
from changeover.stores.sql.database import Call, Row
from changeover.stores.sql.trials import TrialStatements
from changeover.stores.sql.writer import Writer
from changeover.stores.trials.jobs import Measure

Ask = Callable[[Call], Awaitable[list[Row]]]


class TrialReader:
    """Counts in a database, however it is asked."""

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
    """Whoever measures asks the writer; whoever counts only reads."""

    def __init__(self, sql: TrialStatements, writer: Writer, ask: Ask) -> None:
        super().__init__(sql, ask)
        self._writer = writer

    async def measure(self, conversation: str, name: str, value: float, at: float) -> None:
        self._writer.put(measure := Measure((conversation, name, value, at)))
        await measure.future


def _spent(tokens: int, cost: float | None, unknown: int) -> tuple[int, float | None]:
    # One run whose cost nobody knows makes the sum unknown. PostgreSQL gives sums of whole numbers as it likes.
    return int(tokens), None if unknown else cost
