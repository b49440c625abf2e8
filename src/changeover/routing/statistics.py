"""The Beta distribution, worked out: what is believed of a rate, and, through it, Student's t.

The standard library can draw from it but not invert it, and a drawing needs a generator of its own. Turned round, one
number between 0 and 1 gives one sample: the same number the same sample, in every process.
"""

from __future__ import annotations

from math import exp, lgamma, log, log1p, sqrt

PRECISE = 1e-12
NEAR = 1e-7
"""Each step of Newton's squares what the last left to do: after one so small, nothing is left."""
TERMS = 10_000
"""Some hundreds are needed for rates known from a million outcomes; the end is for what is no number."""
STEPS = 100
TINY = 1e-300
AS_GOOD_AS_NORMAL = 10_000.0
"""Degrees of freedom from which on more of them change the fourth digit no longer."""


def beta_cdf(a: float, b: float, x: float) -> float:
    """How likely a rate is at most x."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    # The fraction converges quickly only below the mean; above it, the other end is seen from there.
    if x <= (a + 1) / (a + b + 2):
        return _lower_end(a, b, x)
    return 1 - _lower_end(b, a, 1 - x)


def beta_quantile(a: float, b: float, p: float) -> float:
    """The rate that is exceeded with a likelihood of 1 - p; for a random p, a sample."""
    if p <= 0 or p >= 1:
        return float(p >= 1)
    low, high, x = 0.0, 1.0, a / (a + b)
    for _ in range(STEPS):
        above = beta_cdf(a, b, x) - p
        step = above / max(exp(_log_density(a, b, x)), TINY)
        if abs(step) <= NEAR * min(x, 1 - x):
            return x - step
        low, high = (low, x) if above > 0 else (x, high)
        # Newton's step where it stays between what is known to be too low and too high, else half of the way.
        x = x - step if low < x - step < high else (low + high) / 2
    return x


def t_reach(confidence: float, freedom: float) -> float:
    """How many standard errors to either side hold a mean with this confidence."""
    freedom = min(freedom, AS_GOOD_AS_NORMAL)
    x = beta_quantile(freedom / 2, 0.5, 1 - confidence)
    return sqrt(freedom * (1 - x) / x)


def _lower_end(a: float, b: float, x: float) -> float:
    return exp(_log_density(a, b, x)) * x * (1 - x) / a * _fraction(a, b, x)


def _log_density(a: float, b: float, x: float) -> float:
    return lgamma(a + b) - lgamma(a) - lgamma(b) + (a - 1) * log(x) + (b - 1) * log1p(-x)


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, from its first term on (Lentz's method)."""
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
