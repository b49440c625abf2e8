"""Statistics: seeded draws, tallies of outcomes, the Beta distribution, and confidence intervals.

The standard library can sample a Beta distribution, but has no quantile of it. The quantile turns one number from 0 to
1 into one sample, which is the same in every process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import count
from math import exp, isfinite, lgamma, log, log1p, sqrt
from typing import TypeAlias

from msgspec import Struct

PRECISE = 1e-12
NEAR = 1e-7
"""Newton's method converges quadratically: after a relative step this small, the error is negligible."""
TERMS = 10_000
"""An upper bound of terms, for arguments that are not numbers; a million outcomes need some hundreds."""
STEPS = 100
TINY = 1e-300
AS_GOOD_AS_NORMAL = 10_000.0
"""Degrees of freedom above which Student's distribution equals the normal one in four digits."""


def beta_cdf(a: float, b: float, x: float) -> float:
    """The probability that a Beta(a, b) value is at most x."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    # The fraction converges fast only below the mean; above it, the symmetry of the function is used.
    if x <= (a + 1) / (a + b + 2):
        return _lower_end(a, b, x)
    return 1 - _lower_end(b, a, 1 - x)


def beta_quantile(a: float, b: float, p: float) -> float:
    """The value that a Beta(a, b) value does not exceed with probability p; for a random p, a sample."""
    if p <= 0 or p >= 1:
        return float(p >= 1)
    low, high, x = 0.0, 1.0, a / (a + b)
    for _ in range(STEPS):
        above = beta_cdf(a, b, x) - p
        step = above / max(exp(_log_density(a, b, x)), TINY)
        if abs(step) <= NEAR * min(x, 1 - x):
            return x - step
        low, high = (low, x) if above > 0 else (x, high)
        # Newton's step if it stays inside the bracket, else bisection.
        x = x - step if low < x - step < high else (low + high) / 2
        if not 0 < x < 1:
            break  # no float lies between x and the end of the range
    return x


def t_reach(confidence: float, freedom: float) -> float:
    """The two-sided quantile of Student's t distribution: the half-width of an interval, in standard errors."""
    freedom = min(freedom, AS_GOOD_AS_NORMAL)
    x = beta_quantile(freedom / 2, 0.5, 1 - confidence)
    return sqrt(freedom * (1 - x) / x)


def _lower_end(a: float, b: float, x: float) -> float:
    return exp(_log_density(a, b, x)) * x * (1 - x) / a * _fraction(a, b, x)


def _log_density(a: float, b: float, x: float) -> float:
    return lgamma(a + b) - lgamma(a) - lgamma(b) + (a - 1) * log(x) + (b - 1) * log1p(-x)


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    numerator, denominator = 1.0, 1.0 / _not_zero(1 - (a + b) * x / (a + 1))
    value = denominator
    for m in range(1, TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            denominator = 1 / _not_zero(1 + term * denominator)
            numerator = _not_zero(1 + term / numerator)
            value *= numerator * denominator
        if abs(numerator * denominator - 1) < PRECISE:
            break
    return value


def _not_zero(value: float) -> float:
    return value if abs(value) > TINY else TINY


ROUNDING = 1e-12
"""A relative spread below this is a rounding error."""


class Tally(Struct, frozen=True, gc=False):
    """The number of values, their sum, and the sum of their squares."""

    n: int = 0
    total: float = 0.0
    squares: float = 0.0

    @staticmethod
    def of(values: Iterable[float]) -> Tally:
        """The tally of these values."""
        found = list(values)
        return Tally(len(found), float(sum(found)), float(sum(value * value for value in found)))

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.n + other.n, self.total + other.total, self.squares + other.squares)

    @property
    def mean(self) -> float:
        return self.total / self.n if self.n else 0.0

    @property
    def variance(self) -> float:
        """The sample variance; 0 for fewer than two values."""
        spread = self.squares - self.total * self.mean
        return spread / (self.n - 1) if self.n > 1 and spread > ROUNDING * self.squares else 0.0


class Measured(Struct, frozen=True):
    """The measures of one conversation. Count each conversation once: its turns are not independent."""

    variant: str
    success: bool
    tokens: float | None = None
    cost: float | None = None
    seconds: float | None = None
    metrics: dict[str, float] = {}
    """Your own measures, by name."""

    def values(self) -> dict[str, float]:
        """All measures that are known, by name."""
        own: dict[str, float | None] = {"tokens": self.tokens, "cost": self.cost, "seconds": self.seconds}
        measured = {**self.metrics, **own, "success": float(self.success)}
        # A value whose square is infinite would make the sums useless.
        return {name: value for name, value in measured.items() if value is not None and isfinite(value * value)}


Outcomes: TypeAlias = dict[str, dict[str, Tally]]
"""Tallies by variant and measure."""


def counted(measured: Iterable[Measured]) -> Outcomes:
    """The tallies of these conversations."""
    found: Outcomes = {}
    for each in measured:
        tallies = found.setdefault(each.variant, {})
        for measure, value in each.values().items():
            tallies[measure] = tallies.get(measure, Tally()) + Tally.of([value])
    return found


def merged(*several: Outcomes) -> Outcomes:
    """The sum of several outcomes."""
    found: Outcomes = {}
    for outcomes in several:
        for variant, tallies in outcomes.items():
            together = found.setdefault(variant, {})
            for measure, tally in tallies.items():
                together[measure] = together.get(measure, Tally()) + tally
    return found


Interval: TypeAlias = tuple[float, float]


def rate(tally: Tally, confidence: float) -> Interval:
    """Wilson's confidence interval of a rate; valid for few values, and always between 0 and 1."""
    if not tally.n:
        return 0.0, 1.0
    from statistics import NormalDist  # here: it imports decimals and fractions

    z, n, p = NormalDist().inv_cdf((1 + confidence) / 2), tally.n, tally.mean
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    reach = z / (1 + z * z / n) * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    # Rounding must not exclude the rate itself.
    return max(0.0, min(p, middle - reach)), min(1.0, max(p, middle + reach))


def rate_difference(one: Tally, other: Tally, confidence: float) -> Interval:
    """Newcombe's confidence interval of the difference of two rates; valid for few values."""
    (low, high), (other_low, other_high) = rate(one, confidence), rate(other, confidence)
    difference = one.mean - other.mean
    below = sqrt((one.mean - low) ** 2 + (other_high - other.mean) ** 2)
    above = sqrt((high - one.mean) ** 2 + (other.mean - other_low) ** 2)
    return difference - below, difference + above


def mean(tally: Tally, confidence: float) -> Interval | None:
    """Student's confidence interval of a mean; None for fewer than two values."""
    if tally.n < 2:
        return None
    reach = t_reach(confidence, tally.n - 1) * sqrt(tally.variance / tally.n)
    return tally.mean - reach, tally.mean + reach


def mean_difference(one: Tally, other: Tally, confidence: float) -> Interval | None:
    """Welch's confidence interval of the difference of two means; None if either has fewer than two values."""
    if min(one.n, other.n) < 2:
        return None
    difference = one.mean - other.mean
    errors = one.variance / one.n, other.variance / other.n
    if not (whole := sum(errors)):
        return difference, difference
    # With relative errors: the squares of very small errors would underflow.
    freedom = 1 / ((errors[0] / whole) ** 2 / (one.n - 1) + (errors[1] / whole) ** 2 / (other.n - 1))
    reach = t_reach(confidence, freedom) * sqrt(whole)
    return difference - reach, difference + reach


Draws: TypeAlias = Iterator[float]
"""An endless iterator of random numbers from 0 to 1, passed to pure code that needs them."""


def draws(*seed: str) -> Draws:
    """Endless numbers in [0, 1), the same for the same texts in every process."""
    for number in count():
        yield draw(*seed, str(number))


def draw(*seed: str) -> float:
    """A number in [0, 1), the same for the same texts in every process."""
    digest = blake2b(digest_size=8)
    for part in seed:
        text = part.encode("utf-8", "surrogatepass")
        # With the length: ("ab", "c") and ("a", "bc") are different seeds.
        digest.update(len(text).to_bytes(8, "big") + text)
    return (int.from_bytes(digest.digest(), "big") >> 11) / 2**53
