"""Who spends what in a run."""

from __future__ import annotations

from collections.abc import Mapping

from changeover.facts import Share, Usage


class Account:
    """What one agent has spent so far."""

    __slots__ = ("cost", "handoffs", "input_tokens", "output_tokens", "requests", "retries", "turns")

    def __init__(self) -> None:
        self.handoffs = self.turns = self.retries = 0
        self.input_tokens = self.output_tokens = self.requests = 0
        self.cost: float | None = 0.0
        """None from the first call on whose price is unknown."""

    def pay(self, usage: Usage) -> None:
        """Count what a model was asked."""
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens
        self.requests += usage.requests
        if self.cost is not None:
            self.cost = None if usage.cost is None else self.cost + usage.cost

    @property
    def own_usage(self) -> Usage:
        return Usage(self.input_tokens, self.output_tokens, self.requests, self.cost if self.requests else None)

    def share(self) -> Share:
        """The same, to be kept."""
        return Share(self.handoffs, self.turns, self.retries, self.own_usage)


def joined(one: Mapping[str, Share], other: Mapping[str, Share]) -> dict[str, Share]:
    """What each spent of both."""
    both = dict(one)
    for agent, share in other.items():
        both[agent] = both[agent] + share if agent in both else share
    return both
