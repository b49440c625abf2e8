"""MemoryTrials: results of experiments, computed from the trees of a log in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from math import fsum
from typing import NamedTuple

from changeover.relay.events import Entry, VariantChosen
from changeover.relay.ports.log import Spending
from changeover.relay.state import State
from changeover.routing.statistics import Measured
from changeover.stores.tables import MeasureRow


class Tree(NamedTuple):
    """A root and all conversations below it."""

    root: str
    entries: list[Entry]
    spent: dict[tuple[str, int, str], Spending]
    """By conversation, run and agent."""
    over: bool
    measures: list[MeasureRow]

    @property
    def chosen(self) -> dict[str, str]:
        """The first variant of each experiment."""
        events = [event for entry in self.entries for event in entry.events if isinstance(event, VariantChosen)]
        return {event.experiment: event.variant for event in reversed(events)}

    def measured(self, variant: str) -> Measured:
        """The result of the tree."""
        state = State(self.root).fold(entry for entry in self.entries if entry.conversation == self.root)
        last = state.last
        shares = [each.share for each in self.spent.values()]
        costs = [share.cost for share in shares if share.cost is not None]
        # One run of unknown cost makes the sum unknown.
        cost = fsum(costs) if len(costs) == len(shares) else None
        tokens = sum(share.usage.input_tokens + share.usage.output_tokens for share in shares)
        seconds = fsum(outcome.at - outcome.run.at for outcome in state.outcomes.values())
        success = last is not None and last.fault is None and not last.cancelled
        return Measured(variant, success, tokens, cost, seconds, {each.name: each.value for each in self.measures})


class MemoryTrials:
    """Experiments in memory. `trees` returns all trees of the log; `measure` keeps a measure of a root, or raises
    ConversationNotFound."""

    def __init__(self, trees: Callable[[], list[Tree]], measure: Callable[[MeasureRow], None]) -> None:
        self._trees, self._measure = trees, measure

    async def measure(self, conversation: str, name: str, value: float, at: float) -> None:
        self._measure(MeasureRow(conversation, name, value, at))

    async def measured(self, experiment: str) -> list[Measured]:
        return [
            tree.measured(tree.chosen[experiment])
            for tree in sorted(self._trees(), key=lambda tree: tree.root)
            if tree.over and experiment in tree.chosen
        ]

    async def variants(self) -> dict[str, list[str]]:
        found: defaultdict[str, set[str]] = defaultdict(set)
        for tree in self._trees():
            for experiment, variant in tree.chosen.items():
                found[experiment].add(variant)
        return {experiment: sorted(found[experiment]) for experiment in sorted(found)}
