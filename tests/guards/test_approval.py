"""Approvals as they are declared: one form for those who read them, and what is wrong with the others."""

from typing import Any

import pytest

from changeover.guards.approval import (
    Approval,
    Approve,
    Decision,
    Edit,
    Reject,
    Respond,
    approval_faults,
    approval_of,
    verdict_words,
)


def large(ctx: Any, arguments: dict[str, Any]) -> bool:
    return bool(arguments["amount"] > 100)


SPELLED_OUT = Approval(expires=60, on_expiry="approve", when=large)


@pytest.mark.parametrize("declared", [None, False])
def test_nothing_is_asked_unless_it_is_declared(declared: Any):
    assert approval_of(declared) is None


def test_true_asks_about_every_call_and_waits_for_ever():
    assert approval_of(True) == Approval(expires=None, on_expiry="reject", when=None)


def test_a_function_says_which_calls_are_asked_about():
    assert approval_of(large) == Approval(when=large)


def test_an_approval_is_taken_as_it_is_spelled_out():
    assert approval_of(SPELLED_OUT) is SPELLED_OUT


@pytest.mark.parametrize("declared", [None, False, True, large, Approval(), SPELLED_OUT, Approval(expires=0.5)])
def test_what_may_be_declared_has_no_faults(declared: Any):
    assert approval_faults(declared) == []


@pytest.mark.parametrize("declared", ["yes", 1, 0, "", {"expires": 60}, [large]])
def test_what_may_not_be_declared_is_told_what_may(declared: Any):
    assert approval_faults(declared) == [f"has approval={declared!r}; give True, a function or Approval(…)"]


@pytest.mark.parametrize("expires", [0, -1, "60"])
def test_an_approval_expires_after_some_time_or_never(expires: Any):
    assert approval_faults(Approval(expires=expires)) == [
        f"has an approval that expires={expires!r}; give seconds above 0, or None for never"
    ]


def test_what_happens_on_expiry_is_one_of_two():
    assert approval_faults(Approval(on_expiry="raise")) == [  # type: ignore[arg-type]
        "has an approval with on_expiry='raise'; give 'reject' or 'approve'"
    ]


def test_which_calls_are_asked_about_is_for_a_function_to_say():
    assert approval_faults(Approval(when="amount > 100")) == [  # type: ignore[arg-type]
        "has an approval with when='amount > 100'; give a function of the context and the arguments"
    ]


def test_all_faults_of_an_approval_are_found_at_once():
    assert len(approval_faults(Approval(expires=0, on_expiry="", when=3))) == 3  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("decision", "word"),
    [
        (Approve(), "approved"),
        (Reject("too much"), "rejected"),
        (Edit(arguments={"amount": 50}), "edited"),
        (Respond("Ask again tomorrow."), "responded"),
    ],
)
def test_a_decision_is_one_word_in_a_list(decision: Decision, word: str):
    assert verdict_words(decision) == word
