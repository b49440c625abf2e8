"""What the tree of a run has spent of what it may."""

from __future__ import annotations

from changeover.errors import Exhausted
from changeover.facts import LimitName
from changeover.relay.ports import Reserve


class Tally:
    """The counters of a root: they start again with each of its runs."""

    __slots__ = ("handoffs", "turns")

    def __init__(self, turns: int = 0, handoffs: int = 0) -> None:
        self.turns, self.handoffs = turns, handoffs

    def refusal(self, reserve: Reserve) -> Exhausted | None:
        """Why this may not be spent; None if it may."""
        turns, handoffs = (0, 0) if reserve.anew else (self.turns, self.handoffs)
        if 0 < reserve.handoffs > reserve.max_handoffs - handoffs:
            return _lack("max_handoffs", reserve.max_handoffs, handoffs)
        if 0 < reserve.turns > reserve.max_turns - turns:
            return _lack("max_turns", reserve.max_turns, turns)
        return None

    def take(self, reserve: Reserve) -> None:
        """Count this as spent."""
        if reserve.anew:
            self.turns = self.handoffs = 0
        self.turns += reserve.turns
        self.handoffs += reserve.handoffs


def _lack(limit: LimitName, most: int, spent: int) -> Exhausted:
    return Exhausted(limit, most, max(0, most - spent))
