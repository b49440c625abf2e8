"""Account: what one agent has spent in a run, and the shares of several agents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from changeover.facts import Share, Usage


class Account(Struct, gc=False):
    """The spending of one agent so far."""

    handoffs: int = 0
    turns: int = 0
    retries: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0
    cost: float | None = 0.0
    """None once the price of one call is unknown."""

    def pay(self, usage: Usage) -> None:
        """Add the usage of a model call."""
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens
        self.requests += usage.requests
        if self.cost is not None:
            self.cost = None if usage.cost is None else self.cost + usage.cost

    @property
    def own_usage(self) -> Usage:
        return Usage(self.input_tokens, self.output_tokens, self.requests, self.cost if self.requests else None)

    def share(self) -> Share:
        """The account as an immutable value."""
        return Share(self.handoffs, self.turns, self.retries, self.own_usage)


class Unreckoned(Mapping[str, Share]):
    """Shares by agent, computed on first access: guards run with every handoff, and most do not read them."""

    __slots__ = ("_found", "_reckon")

    def __init__(self, reckon: Callable[[], Mapping[str, Share]]) -> None:
        self._reckon = reckon
        self._found: Mapping[str, Share] | None = None

    @property
    def _shares(self) -> Mapping[str, Share]:
        if self._found is None:
            self._found = self._reckon()
        return self._found

    def __getitem__(self, agent: str) -> Share:
        return self._shares[agent]

    def __iter__(self) -> Iterator[str]:
        return iter(self._shares)

    def __len__(self) -> int:
        return len(self._shares)


def joined(one: Mapping[str, Share], other: Mapping[str, Share]) -> dict[str, Share]:
    """The shares of both mappings, added by agent."""
    both = dict(one)
    for agent, share in other.items():
        both[agent] = both[agent] + share if agent in both else share
    return both
