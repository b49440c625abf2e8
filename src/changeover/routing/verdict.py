"""Verdict: what an experiment shows so far, with confidence intervals and one sentence."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from changeover.routing.experiment import Experiment
from changeover.routing.statistics import Outcomes, Tally, mean, mean_difference, rate, rate_difference

LOWER_IS_BETTER = ("tokens", "cost", "seconds")
UNITS = {"success": "points", "cost": "dollars", "seconds": "s"}
"""The units of differences; for other measures, the name of the measure."""
FEWEST = 10
"""Means of fewer values decide nothing: tokens, costs and times have long tails."""


class Arm(Struct, frozen=True, gc=False):
    """One variant: the number of conversations, their rate or mean, and its confidence interval; None if unknown."""

    variant: str
    n: int
    mean: float | None = None
    low: float | None = None
    high: float | None = None


class Comparison(Struct, frozen=True, gc=False):
    """The difference of a variant to the first, and its confidence interval; None if unknown."""

    variant: str
    against: str
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    better: str = ""
    """The better of the two; empty if they cannot be distinguished yet."""


class Verdict(Struct, frozen=True):
    """The result of an experiment for one measure; `sentence` says it in words."""

    experiment: str
    measure: str
    confidence: float
    arms: tuple[Arm, ...]
    comparisons: tuple[Comparison, ...]
    sentence: str


def verdict(experiment: Experiment, outcomes: Outcomes, measure: str = "success", confidence: float = 0.95) -> Verdict:
    """Compare every variant with the first. `confidence` holds for all intervals together (Bonferroni)."""
    tallies = {variant: outcomes.get(variant, {}).get(measure, Tally()) for variant in experiment.variants}
    first, *others = tallies
    each = 1 - (1 - confidence) / len(others)
    lower = measure in LOWER_IS_BETTER or measure in experiment.lower_is_better
    arms = tuple(_arm(variant, tally, measure, confidence) for variant, tally in tallies.items())
    comparisons = tuple(
        _compared((variant, tallies[variant]), (first, tallies[first]), measure, each, lower) for variant in others
    )
    sentence = _sentence(comparisons, tallies, measure, confidence)
    return Verdict(experiment.name, measure, confidence, arms, comparisons, sentence)


def _arm(variant: str, tally: Tally, measure: str, confidence: float) -> Arm:
    interval = rate if measure == "success" else mean
    return Arm(variant, tally.n, tally.mean if tally.n else None, *(interval(tally, confidence) or ()))


def _compared(
    one: tuple[str, Tally], first: tuple[str, Tally], measure: str, confidence: float, lower: bool
) -> Comparison:
    (variant, tally), (against, other) = one, first
    fewest = min(tally.n, other.n)
    if not fewest:
        return Comparison(variant, against)
    difference = tally.mean - other.mean
    interval = (rate_difference if measure == "success" else mean_difference)(tally, other, confidence)
    if interval is None:
        return Comparison(variant, against, difference)
    low, high = interval
    distinct = not low <= 0 <= high and (measure == "success" or fewest >= FEWEST)
    ahead = variant if (low > 0) != lower else against
    return Comparison(variant, against, difference, low, high, ahead if distinct else "")


def _sentence(
    comparisons: tuple[Comparison, ...], tallies: Mapping[str, Tally], measure: str, confidence: float
) -> str:
    if not any(tally.n for tally in tallies.values()):
        return "no conversations yet"
    alone = len(comparisons) == 1
    return "; ".join(
        _better(each, measure, confidence, alone) if each.better else _open(each, tallies, alone)
        for each in comparisons
    )


def _open(comparison: Comparison, tallies: Mapping[str, Tally], alone: bool) -> str:
    counts = f"{tallies[comparison.against].n:,} and {tallies[comparison.variant].n:,} conversations"
    which = "" if alone else f"{comparison.against} and {comparison.variant} are "
    return f"{which}not yet distinguishable ({counts})"


def _better(comparison: Comparison, measure: str, confidence: float, alone: bool) -> str:
    ahead = comparison.better
    behind = comparison.against if ahead == comparison.variant else comparison.variant
    scale = 100 if measure == "success" else 1
    amount, *ends = (scale * abs(value or 0.0) for value in (comparison.difference, comparison.low, comparison.high))
    than = "" if alone else f" than {behind}"
    sure = f"{100 * confidence:g} %: {_shown(min(ends))} to {_shown(max(ends))}"
    return f"{ahead} is better{than} by {_shown(amount)} {UNITS.get(measure, measure)} ({sure})"


def _shown(value: float) -> str:
    """A number with about two significant digits."""
    if value >= 10:
        return f"{value:,.0f}"
    return f"{value:.1f}".removesuffix(".0") if value >= 1 else f"{value:.2g}"
