"""Variants of one thing, and which conversation gets which."""

import subprocess
import sys
from collections import Counter
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeover.handoffs.strategies import Full, Recent
from changeover.handoffs.summary import Summary
from changeover.routing.experiment import Experiment
from changeover.routing.statistics import draw, draws

TWO = Experiment("summary-or-full", variants={"summary": Summary(), "full": Full()})
MANY = [f"conversation-{number}" for number in range(4_000)]


def split(**weights: float) -> Experiment:
    return Experiment("shares", variants=dict.fromkeys(weights, "text"), split=weights, on="instructions")


@pytest.mark.parametrize("weights", [{"a": 1, "b": 1}, {"a": 9, "b": 1}, {"a": 0.2, "b": 0.3, "c": 0.5}])
def test_each_variant_gets_its_share_of_the_conversations(weights):
    experiment = split(**weights)
    found = Counter(experiment.variant_of(each) for each in MANY)
    for variant, share in experiment.shares.items():
        error = sqrt(share * (1 - share) / len(MANY))
        assert found[variant] / len(MANY) == pytest.approx(share, abs=3.5 * error)


def test_without_a_split_all_shares_are_equal():
    assert TWO.shares == {"summary": 0.5, "full": 0.5}


def test_a_variant_without_weight_gets_no_conversation():
    assert {split(a=0, b=1).variant_of(each) for each in MANY[:200]} == {"b"}


def test_a_conversation_has_the_same_variant_in_every_process():
    here = [TWO.variant_of(each) for each in MANY[:40]]
    code = (
        "from changeover.routing.experiment import Experiment\n"
        "experiment = Experiment('summary-or-full', variants={'full': None, 'summary': None})\n"
        "print(*(experiment.variant_of(f'conversation-{number}') for number in range(40)))"
    )
    there = subprocess.run([sys.executable, "-c", code], check=True, timeout=30, capture_output=True, text=True)
    assert there.stdout.split() == here


def test_variants_stay_what_they_are_in_later_versions():
    expected = ["summary", "summary", "full", "full", "summary", "full"]
    assert [TWO.variant_of(each) for each in MANY[:6]] == expected


def test_experiments_are_independent_of_each_other():
    other = Experiment("another", variants=TWO.variants)
    both = Counter((TWO.variant_of(each), other.variant_of(each)) for each in MANY)
    assert len(both) == 4
    assert all(count == pytest.approx(1_000, abs=110) for count in both.values())


def test_when_the_split_changes_as_few_conversations_as_possible_move():
    before, after = split(a=1, b=1), split(a=1, b=3)
    moves = Counter((before.variant_of(each), after.variant_of(each)) for each in MANY)
    assert moves["b", "a"] == 0
    assert moves["a", "b"] == pytest.approx(1_000, abs=110)


def test_when_a_variant_is_added_no_conversation_moves_between_the_others():
    before, after = split(a=1, b=1), split(a=1, b=1, c=1)
    moved = {after.variant_of(each) for each in MANY if after.variant_of(each) != before.variant_of(each)}
    assert moved == {"c"}


@given(st.text(), st.text())
def test_any_conversation_and_any_name_get_a_variant(name, conversation):
    assert Experiment(name, variants={"a": None, "b": None}).variant_of(conversation) in ("a", "b")


def test_a_draw_depends_on_every_part_of_its_seed_and_on_nothing_else():
    assert draw("a", "b") == draw("a", "b")
    assert len({draw("a", "b"), draw("ab"), draw("a", "b", ""), draw("b", "a"), draw("", "ab")}) == 5


def test_draws_are_spread_evenly_from_0_to_1():
    drawn = draws("even")
    tenths = Counter(int(10 * next(drawn)) for _ in range(10_000))
    assert sorted(tenths) == list(range(10))
    assert all(count == pytest.approx(1_000, abs=120) for count in tenths.values())


def test_an_experiment_is_about_the_agents_it_names_or_all():
    assert TWO.concerns("billing")
    named = Experiment("x", variants=TWO.variants, agents=("triage",))
    assert (named.concerns("triage"), named.concerns("billing")) == (True, False)


def test_what_the_caller_changes_later_does_not_reach_the_experiment():
    variants = {"a": "one", "b": "two"}
    experiment = Experiment("x", variants=variants, on="instructions")
    variants["c"] = "three"
    assert list(experiment.variants) == ["a", "b"]


@pytest.mark.parametrize(
    "experiment",
    [
        TWO,
        Experiment("x", variants={"few": Recent(3), "own": lambda handover: "…"}, split={"few": 3, "own": 0}),
        Experiment("x", variants={"polite": "Be kind.", "made": lambda ctx: "Be quick."}, on="instructions"),
        Experiment("x", variants={"small": "offline", "none": None}, on="model"),
        Experiment("x", variants={"a": "billing", "b": "billing-2"}, on="receiver", agents=("triage",)),
    ],
)
def test_an_experiment_that_can_work_has_no_faults(experiment):
    assert experiment.faults() == []


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"variants": {"a": "x"}}, "has variants={'a': 'x'}; give two or more, by name"),
        ({"variants": {"a": 3, "b": None}}, "variant 'a' has strategy=3; give"),
        ({"variants": {"a b": None, "b": None}}, "has a variant called 'a b'; use letters, digits, '-' and '_'"),
        ({"on": "instructions"}, "variant 'a' is None; give a text, or a function of the run"),
        ({"on": "receiver"}, "variant 'b' is None; give the id of an agent"),
        ({"on": "weather"}, "is on='weather'; give one of 'strategy', 'instructions', 'model', 'receiver'"),
        ({"split": {"a": 1}}, "has split={'a': 1}; give one weight for each variant: a, b"),
        ({"split": {"a": 1, "b": -1}}, "gives 'b' the weight -1; give 0 or more"),
        ({"split": {"a": 0, "b": 0}}, "gives no variant any weight; give at least one more than 0"),
        ({"agents": "triage"}, "has agents='triage'; give a list of names"),
        ({"lower_is_better": (1,)}, "has lower_is_better=(1,); give a list of names"),
    ],
)
def test_an_experiment_that_cannot_work_says_so(changed, fault):
    declared = {"variants": {"a": None, "b": None}, **changed}
    faults = Experiment("x", **declared).faults()
    assert any(each.startswith(f"experiment 'x' {fault}") for each in faults), faults


def test_an_experiment_needs_a_name_that_can_be_typed():
    assert Experiment("a b", variants={}).faults() == [
        "an experiment is called 'a b'; use letters, digits, '-' and '_', at most 64"
    ]
