"""The Beta distribution, against what is known of it otherwise."""

from math import comb, pi, sin, sqrt
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeover.routing.statistics import beta_cdf, beta_quantile, t_reach

PARAMETERS = st.floats(1, 500)


@pytest.mark.parametrize(("a", "b"), [(1, 1), (2, 7), (90.5, 12.25), (1, 200)])
def test_samples_have_the_mean_and_the_spread_of_the_distribution(a, b):
    chance = Random(4)
    samples = [beta_quantile(a, b, chance.random()) for _ in range(3_000)]
    mean, spread = a / (a + b), sqrt(a * b / (a + b + 1)) / (a + b)
    found = sum(samples) / len(samples)
    assert found == pytest.approx(mean, abs=4 * spread / sqrt(len(samples)))
    assert sqrt(sum((each - found) ** 2 for each in samples) / len(samples)) == pytest.approx(spread, rel=0.06)


@pytest.mark.parametrize("x", [0.05, 0.3, 0.5, 0.77, 0.99])
def test_for_whole_numbers_it_is_a_sum_of_binomials(x):
    whole = sum(comb(11, k) * x**k * (1 - x) ** (11 - k) for k in range(4, 12))
    assert beta_cdf(4, 8, x) == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("p", [0.001, 0.2, 0.5, 0.93])
def test_the_arcsine_distribution_is_a_special_case(p):
    assert beta_quantile(0.5, 0.5, p) == pytest.approx(sin(pi * p / 2) ** 2, rel=1e-10)


@given(PARAMETERS, PARAMETERS, st.floats(1e-9, 1 - 1e-9))
def test_the_quantile_undoes_the_distribution(a, b, p):
    assert beta_cdf(a, b, beta_quantile(a, b, p)) == pytest.approx(p, abs=1e-9)


@pytest.mark.parametrize(("a", "b"), [(2, 1), (3, 1), (500, 1), (0.5, 0.5)])
def test_a_draw_next_to_1_gives_a_sample_next_to_1(a, b):
    assert beta_quantile(a, b, 1 - 2**-53) == pytest.approx(1, abs=1e-9)


@given(PARAMETERS, PARAMETERS, st.floats(0, 1), st.floats(0, 1))
def test_a_larger_draw_never_gives_a_smaller_sample(a, b, one, other):
    least, most = sorted((one, other))
    assert 0 <= beta_quantile(a, b, least) <= beta_quantile(a, b, most) + 1e-9 <= 1 + 1e-9


@pytest.mark.parametrize(
    ("confidence", "freedom", "known"),
    [(0.95, 1, 12.7062), (0.95, 9, 2.2622), (0.99, 30, 2.7500), (0.9, 120, 1.6577), (0.95, 1e9, 1.9600)],
)
def test_students_t_is_that_of_the_printed_tables(confidence, freedom, known):
    assert t_reach(confidence, freedom) == pytest.approx(known, abs=3e-4)
