"""MemoryTrials: results of experiments, computed from the trees of a log in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from math import fsum
from typing import NamedTuple

from changeover.errors import ConversationNotFound
from changeover.relay.events import Entry, VariantChosen
from changeover.relay.ports import Spending
from changeover.relay.state import State
from changeover.routing.statistics import Measured


class Tree(NamedTuple):
    """A root and all below it, as far as anybody counts them."""

    root: str
    entries: list[Entry]
    spent: dict[tuple[str, int, str], Spending]
    """By conversation, run and agent."""
    over: bool
    own: dict[str, float]
    """What users measured of it; the very one that is kept."""

    @property
    def chosen(self) -> dict[str, str]:
        """The first variant of each experiment."""
        events = [event for entry in self.entries for event in entry.events if isinstance(event, VariantChosen)]
        return {event.experiment: event.variant for event in reversed(events)}

    def measured(self, variant: str) -> Measured:
        """What came of it."""
        state = State(self.root).fold(entry for entry in self.entries if entry.conversation == self.root)
        last = state.last
        shares = [each.share for each in self.spent.values()]
        costs = [share.cost for share in shares if share.cost is not None]
        # One run whose cost nobody knows makes the sum unknown.
        cost = fsum(costs) if len(costs) == len(shares) else None
        tokens = sum(share.usage.input_tokens + share.usage.output_tokens for share in shares)
        seconds = fsum(outcome.at - outcome.run.at for outcome in state.outcomes.values())
        success = last is not None and last.fault is None and not last.cancelled
        return Measured(variant, success, tokens, cost, seconds, dict(self.own))


class MemoryTrials:
    """Asks for the trees of a log: for all of them, or for that of one root, if there is one."""

    def __init__(self, trees: Callable[[str | None], list[Tree]]) -> None:
        self._trees = trees

    async def measure(self, conversation: str, name: str, value: float, at: float) -> None:
        found = self._trees(conversation)
        if not found:
            raise ConversationNotFound(conversation)
        found[0].own[name] = value

    async def measured(self, experiment: str) -> list[Measured]:
        return [
            tree.measured(tree.chosen[experiment])
            for tree in sorted(self._trees(None), key=lambda tree: tree.root)
            if tree.over and experiment in tree.chosen
        ]

    async def variants(self) -> dict[str, list[str]]:
        found: defaultdict[str, set[str]] = defaultdict(set)
        for experiment, variant in self._chosen():
            found[experiment].add(variant)
        return {experiment: sorted(found[experiment]) for experiment in sorted(found)}

    def _chosen(self) -> Iterator[tuple[str, str]]:
        for tree in self._trees(None):
            yield from tree.chosen.items()
