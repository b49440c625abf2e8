"""What an experiment says: numbers, how sure they are, and one sentence."""

from itertools import permutations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeover.routing.experiment import Experiment
from changeover.routing.statistics import (
    Measured,
    Outcomes,
    Tally,
    counted,
    draws,
    mean,
    mean_difference,
    merged,
    rate,
    rate_difference,
)
from changeover.routing.verdict import Verdict, verdict

TWO = Experiment("summary-or-full", variants={"summary": None, "full": None}, lower_is_better=("complaints",))
THREE = Experiment("three", variants={"summary": None, "full": None, "brief": None})


def rates(**counts: tuple[int, int]) -> Outcomes:
    """By variant: so many successes of so many conversations."""
    return {variant: {"success": Tally(n, good, good)} for variant, (good, n) in counts.items()}


def values(measure: str, **found: list[float]) -> Outcomes:
    return {variant: {measure: Tally.of(each)} for variant, each in found.items()}


def successes(rate: float, n: int, *seed: str) -> Tally:
    """A made-up variant that succeeds so often."""
    drawn = draws(*seed)
    good = sum(next(drawn) < rate for _ in range(n))
    return Tally(n, good, good)


def long_tailed(n: int, *seed: str) -> Tally:
    """Values as costs are: most are small, few are large."""
    drawn = draws(*seed)
    return Tally.of([1 / (0.1 + next(drawn)) for _ in range(n)])


def calls(one: float, other: float, n: int, repeats: int) -> int:
    """In how many of the repeats a difference is called."""
    found = 0
    for repeat in range(repeats):
        tallies = successes(one, n, "one", str(repeat)), successes(other, n, "other", str(repeat))
        outcomes = {variant: {"success": tally} for variant, tally in zip(TWO.variants, tallies, strict=True)}
        found += bool(verdict(TWO, outcomes).comparisons[0].better)
    return found


@pytest.mark.parametrize(("n", "rate"), [(20, 0.9), (100, 0.6)])
def test_two_equal_variants_are_rarely_distinguished(n, rate):
    assert calls(rate, rate, n, repeats=500) <= 40


def test_a_difference_of_twenty_points_is_seen_in_four_hundred_conversations():
    assert calls(0.5, 0.7, n=200, repeats=300) >= 270


def test_three_equal_variants_are_distinguished_no_more_often_than_two():
    found = 0
    for repeat in range(500):
        outcomes = {each: {"success": successes(0.6, 100, each, str(repeat))} for each in THREE.variants}
        found += any(each.better for each in verdict(THREE, outcomes).comparisons)
    assert found <= 40


def test_equal_means_are_rarely_distinguished_even_with_long_tails():
    found = 0
    for repeat in range(500):
        outcomes = {each: {"cost": long_tailed(30, each, str(repeat))} for each in TWO.variants}
        found += bool(verdict(TWO, outcomes, "cost").comparisons[0].better)
    assert found <= 40


@pytest.mark.parametrize(
    ("outcomes", "sentence"),
    [
        ({}, "no conversations yet"),
        (rates(summary=(7, 12), full=(9, 14)), "not yet distinguishable (12 and 14 conversations)"),
        (rates(summary=(7, 12)), "not yet distinguishable (12 and 0 conversations)"),
        (rates(summary=(280, 400), full=(328, 400)), "full is better by 12 points (95 %: 6.1 to 18)"),
        (rates(summary=(40, 50), full=(20, 50)), "summary is better by 40 points (95 %: 21 to 55)"),
    ],
)
def test_one_sentence_says_what_is_known_of_the_rates(outcomes, sentence):
    assert verdict(TWO, outcomes).sentence == sentence


@pytest.mark.parametrize(
    ("measure", "sentence"),
    [
        ("tokens", "summary is better by 1,000 tokens (95 %: 934 to 1,066)"),
        ("cost", "summary is better by 1,000 dollars (95 %: 934 to 1,066)"),
        ("complaints", "summary is better by 1,000 complaints (95 %: 934 to 1,066)"),
        ("stars", "full is better by 1,000 stars (95 %: 934 to 1,066)"),
    ],
)
def test_lower_costs_are_better_and_higher_own_measures_unless_declared_otherwise(measure, sentence):
    outcomes = values(measure, summary=[900, 1_100] * 10, full=[1_900, 2_100] * 10)
    assert verdict(TWO, outcomes, measure).sentence == sentence


def test_means_of_few_values_decide_nothing():
    outcomes = values("cost", summary=[1.0, 1.0, 1.1], full=[9.0, 9.0, 9.1])
    found = verdict(TWO, outcomes, "cost")
    assert found.sentence == "not yet distinguishable (3 and 3 conversations)"
    assert found.comparisons[0].low == pytest.approx(7.87, abs=0.01)


def test_a_single_value_gives_no_interval():
    (found,) = verdict(TWO, values("cost", summary=[1.0], full=[9.0]), "cost").comparisons
    assert (found.difference, found.low, found.high, found.better) == (8, None, None, "")


def test_constant_values_can_be_distinguished():
    outcomes = values("tokens", summary=[0.1] * 30, full=[0.3] * 30)
    assert verdict(TWO, outcomes, "tokens").sentence == "summary is better by 0.2 tokens (95 %: 0.2 to 0.2)"


def test_several_variants_are_each_compared_with_the_first():
    outcomes = rates(summary=(200, 400), full=(280, 400), brief=(205, 400))
    found = verdict(THREE, outcomes)
    assert found.sentence == (
        "full is better than summary by 20 points (95 %: 12 to 27);"
        " summary and brief are not yet distinguishable (400 and 400 conversations)"
    )
    assert [(arm.variant, arm.n, arm.mean) for arm in found.arms] == [
        ("summary", 400, 0.5),
        ("full", 400, 0.7),
        ("brief", 400, 0.5125),
    ]


def test_more_comparisons_widen_each_interval():
    (alone,) = verdict(TWO, rates(summary=(50, 100), full=(64, 100))).comparisons
    among, _ = verdict(THREE, rates(summary=(50, 100), full=(64, 100), brief=(50, 100))).comparisons
    assert (alone.better, among.better) == ("full", "")
    assert alone.low is not None
    assert among.low is not None
    assert among.low < alone.low


def test_the_intervals_are_those_of_the_literature():
    # Newcombe's example of 56 of 70 against 48 of 80, and Wilson's interval of 1 of 29.
    assert rate_difference(Tally(70, 56, 56), Tally(80, 48, 48), 0.95) == pytest.approx((0.0524, 0.3339), abs=1e-4)
    assert rate(Tally(29, 1, 1), 0.95) == pytest.approx((0.0061, 0.1718), abs=1e-4)
    assert rate(Tally(10, 0, 0), 0.95) == pytest.approx((0, 0.2775), abs=1e-4)


def test_the_interval_of_a_mean_is_students():
    assert mean(Tally.of([1, 2, 3, 4, 5]), 0.95) == pytest.approx((1.0368, 4.9632), abs=1e-4)


def covered(n: int, other: int, repeats: int) -> int:
    """How often Welch's interval holds the true difference of two that spread differently."""
    found = 0
    for repeat in range(repeats):
        drawn = draws("welch", str(repeat))
        one = Tally.of([next(drawn) for _ in range(n)])
        wide = Tally.of([10 * next(drawn) for _ in range(other)])
        low, high = mean_difference(one, wide, 0.95) or (0, 0)
        found += low <= 0.5 - 5 <= high
    return found


def test_the_interval_of_a_difference_holds_the_true_one_as_often_as_it_says():
    assert covered(40, 12, 600) == pytest.approx(570, abs=22)


COUNTS = st.integers(0, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
AMOUNTS = st.lists(st.floats(0, 1e6), min_size=2, max_size=20)


@given(COUNTS, COUNTS, st.floats(0.5, 0.999))
def test_the_interval_of_two_rates_holds_their_difference(one, other, confidence):
    (found,) = verdict(TWO, rates(summary=one, full=other), confidence=confidence).comparisons
    if found.difference is None:
        assert 0 in (one[1], other[1])
        return
    assert found.low is not None
    assert found.high is not None
    assert -1 - 1e-9 <= found.low <= found.difference <= found.high <= 1 + 1e-9


@given(AMOUNTS, AMOUNTS)
def test_the_interval_of_two_means_holds_their_difference(one, other):
    (found,) = verdict(TWO, values("cost", summary=one, full=other), "cost").comparisons
    assert found.low is not None
    assert found.high is not None
    assert found.difference is not None
    assert found.low <= found.difference <= found.high


# Quarters: their sums are exact, so that nothing but the order could make a difference.
QUARTERS = st.integers(0, 4_000_000).map(lambda number: number / 4)
MEASURED = st.builds(
    Measured,
    st.sampled_from(list(THREE.variants)),
    st.booleans(),
    st.none() | QUARTERS,
    st.none() | QUARTERS,
    st.none() | QUARTERS,
    st.dictionaries(st.just("stars"), QUARTERS),
)


@given(st.lists(st.lists(MEASURED, max_size=12), min_size=1, max_size=3))
def test_outcomes_merged_in_any_order_give_the_same_verdict(parts):
    together = counted(each for part in parts for each in part)
    for order in permutations([counted(part) for part in parts]):
        for measure in ("success", "cost", "stars"):
            assert verdict(THREE, merged(*order), measure) == verdict(THREE, together, measure)


def test_only_what_was_measured_is_counted():
    outcomes = counted([Measured("full", True, tokens=10), Measured("full", False, cost=float("nan"))])
    assert outcomes == {"full": {"success": Tally(2, 1, 1), "tokens": Tally(1, 10, 100)}}


def test_an_own_measure_cannot_replace_a_built_in_one():
    assert counted([Measured("full", False, metrics={"success": 1.0})]) == {"full": {"success": Tally(1, 0, 0)}}


def test_outcomes_and_verdicts_survive_as_json():
    outcomes = counted([Measured("full", True, tokens=10), Measured("summary", False)])
    assert msgspec.json.decode(msgspec.json.encode(outcomes), type=Outcomes) == outcomes
    for measure in ("success", "tokens"):
        found = verdict(TWO, outcomes, measure)
        assert msgspec.json.decode(msgspec.json.encode(found), type=Verdict) == found
