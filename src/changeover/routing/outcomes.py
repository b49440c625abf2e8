"""What came of the conversations of an experiment: counts that can be added up, in any order and anywhere."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import TypeAlias

from msgspec import Struct

ROUNDING = 1e-12
"""A spread this small beside the values is none: it is what sums of fractions leave behind."""


class Tally(Struct, frozen=True, gc=False):
    """Values, as their number, their sum and the sum of their squares: a row, if a store keeps it."""

    n: int = 0
    total: float = 0.0
    squares: float = 0.0

    @staticmethod
    def of(values: Iterable[float]) -> Tally:
        """These values, counted."""
        found = list(values)
        return Tally(len(found), float(sum(found)), float(sum(value * value for value in found)))

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.n + other.n, self.total + other.total, self.squares + other.squares)

    @property
    def mean(self) -> float:
        return self.total / self.n if self.n else 0.0

    @property
    def variance(self) -> float:
        """How far the values spread, as far as a sample can tell; 0 for fewer than two."""
        spread = self.squares - self.total * self.mean
        return spread / (self.n - 1) if self.n > 1 and spread > ROUNDING * self.squares else 0.0


class Measured(Struct, frozen=True):
    """What came of one conversation. Count each once: what is said in one conversation is not said independently."""

    variant: str
    success: bool
    tokens: float | None = None
    cost: float | None = None
    seconds: float | None = None
    metrics: dict[str, float] = {}
    """Measures of your own, by name."""

    def values(self) -> dict[str, float]:
        """All that was measured."""
        own: dict[str, float | None] = {"tokens": self.tokens, "cost": self.cost, "seconds": self.seconds}
        measured = {**self.metrics, **own, "success": float(self.success)}
        # What cannot be squared would make a sum out of which nothing can be read any more.
        return {name: value for name, value in measured.items() if value is not None and isfinite(value * value)}


Outcomes: TypeAlias = dict[str, dict[str, Tally]]
"""By variant, and by measure in it."""


def counted(measured: Iterable[Measured]) -> Outcomes:
    """What these conversations come to."""
    found: Outcomes = {}
    for each in measured:
        tallies = found.setdefault(each.variant, {})
        for measure, value in each.values().items():
            tallies[measure] = tallies.get(measure, Tally()) + Tally.of([value])
    return found


def merged(*several: Outcomes) -> Outcomes:
    """What was counted in several places, together."""
    found: Outcomes = {}
    for outcomes in several:
        for variant, tallies in outcomes.items():
            together = found.setdefault(variant, {})
            for measure, tally in tallies.items():
                together[measure] = together.get(measure, Tally()) + tally
    return found
