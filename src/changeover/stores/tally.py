"""What the tree of a run has spent of what it may."""

from __future__ import annotations

import msgspec

from changeover.errors import Exhausted
from changeover.faults import LimitName
from changeover.relay.ports import Reserve


class Tally:
    """The counters of a root: they start again with each of its runs."""

    __slots__ = ("agents", "cost", "handoffs", "tokens", "turns")

    def __init__(
        self, turns: int = 0, handoffs: int = 0, tokens: int = 0, cost: float | None = 0.0, agents: str = ""
    ) -> None:
        self.turns, self.handoffs, self.tokens, self.cost = turns, handoffs, tokens, cost
        self.agents: frozenset[str] = frozenset(msgspec.json.decode(agents, type=list[str]) if agents else ())

    @property
    def row(self) -> tuple[int, int, int, float | None, str]:
        """The same as it is kept."""
        agents = msgspec.json.encode(sorted(self.agents)).decode() if self.agents else ""
        return self.turns, self.handoffs, self.tokens, self.cost, agents

    def refusal(self, reserve: Reserve) -> Exhausted | None:
        """Why this may not be spent; None if it may."""
        spent = Tally() if reserve.anew else self
        if 0 < reserve.handoffs > reserve.max_handoffs - spent.handoffs:
            return _lack("max_handoffs", reserve.max_handoffs, spent.handoffs)
        if reserve.max_agents is not None and reserve.agents and spent.crowd(reserve) > reserve.max_agents:
            left = max(0, reserve.max_agents - len(spent.agents))
            return Exhausted("max_agents", reserve.max_agents, left, agents=sorted(spent.agents))
        if 0 < reserve.turns > reserve.max_turns - spent.turns:
            return _lack("max_turns", reserve.max_turns, spent.turns)
        return spent.shortage(reserve) if reserve.turns > 0 else None

    def crowd(self, reserve: Reserve) -> int:
        """How many agents would work then; those who do already count for nothing."""
        together = self.agents.union(reserve.agents)
        return len(together) if len(together) > len(self.agents) else 0

    def shortage(self, reserve: Reserve) -> Exhausted | None:
        """Why no model may be called any more: what was spent until now is too much already."""
        tokens = self.tokens + reserve.tokens
        if reserve.max_tokens is not None and tokens >= reserve.max_tokens:
            return Exhausted("max_tokens", reserve.max_tokens, spent=tokens)
        cost = None if self.cost is None or reserve.cost is None else self.cost + reserve.cost
        if reserve.max_cost is not None and (cost is None or cost >= reserve.max_cost):
            return Exhausted("max_cost", reserve.max_cost, spent=cost)
        return None

    def take(self, reserve: Reserve) -> None:
        """Count this as spent."""
        if reserve.anew:
            self.turns = self.handoffs = self.tokens = 0
            self.cost, self.agents = 0.0, frozenset()
        self.turns += reserve.turns
        self.handoffs += reserve.handoffs
        self.tokens += reserve.tokens
        self.cost = None if self.cost is None or reserve.cost is None else self.cost + reserve.cost
        self.agents = self.agents.union(reserve.agents) if reserve.agents else self.agents


def _lack(limit: LimitName, most: int, spent: int) -> Exhausted:
    return Exhausted(limit, most, max(0, most - spent))
