"""How sure one can be of a rate, a mean, and the difference of two."""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist
from typing import TypeAlias

from changeover.routing.outcomes import Tally
from changeover.routing.statistics import t_reach

Interval: TypeAlias = tuple[float, float]


def rate(tally: Tally, confidence: float) -> Interval:
    """Where a rate lies (Wilson's interval: also for few, and for none or all of them, it stays between 0 and 1)."""
    if not tally.n:
        return 0.0, 1.0
    z, n, p = NormalDist().inv_cdf((1 + confidence) / 2), tally.n, tally.mean
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    reach = z / (1 + z * z / n) * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    # Rounding must not put the rate itself outside.
    return max(0.0, min(p, middle - reach)), min(1.0, max(p, middle + reach))


def rate_difference(one: Tally, other: Tally, confidence: float) -> Interval:
    """Where the difference of two rates lies (Newcombe's interval, made of Wilson's: right for few, too)."""
    (low, high), (other_low, other_high) = rate(one, confidence), rate(other, confidence)
    difference = one.mean - other.mean
    below = sqrt((one.mean - low) ** 2 + (other_high - other.mean) ** 2)
    above = sqrt((high - one.mean) ** 2 + (other.mean - other_low) ** 2)
    return difference - below, difference + above


def mean(tally: Tally, confidence: float) -> Interval | None:
    """Where a mean lies (Student's interval); fewer than two values say nothing about that."""
    if tally.n < 2:
        return None
    reach = t_reach(confidence, tally.n - 1) * sqrt(tally.variance / tally.n)
    return tally.mean - reach, tally.mean + reach


def mean_difference(one: Tally, other: Tally, confidence: float) -> Interval | None:
    """Where the difference of two means lies (Welch's interval: the two may spread differently)."""
    if min(one.n, other.n) < 2:
        return None
    difference = one.mean - other.mean
    errors = one.variance / one.n, other.variance / other.n
    if not (whole := sum(errors)):
        return difference, difference
    # By their shares: the squares of the smallest errors are too small for any number.
    freedom = 1 / ((errors[0] / whole) ** 2 / (one.n - 1) + (errors[1] / whole) ** 2 / (other.n - 1))
    reach = t_reach(confidence, freedom) * sqrt(whole)
    return difference - reach, difference + reach
