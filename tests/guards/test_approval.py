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


def test_a_summary_is_a_text_or_a_function_of_context_and_arguments():
    assert approval_faults(Approval(summary="Pay {amount}")) == approval_faults(Approval(summary=large)) == []
    assert "summary=5; give a text, or a function" in approval_faults(Approval(summary=5))[0]  # type: ignore[arg-type]
    assert "summary" in approval_faults(Approval(summary=lambda: ""))[0]


@pytest.mark.parametrize("declared", [None, False])
def test_without_a_declaration_no_approval_is_needed(declared: Any):
    assert approval_of(declared) is None


def test_true_needs_approval_of_every_call_without_expiry():
    assert approval_of(True) == Approval(expires=None, on_expiry="reject", when=None)


def test_a_function_says_which_calls_need_approval():
    assert approval_of(large) == Approval(when=large)


def test_an_approval_is_used_as_it_is():
    assert approval_of(SPELLED_OUT) is SPELLED_OUT


@pytest.mark.parametrize("declared", [None, False, True, large, Approval(), SPELLED_OUT, Approval(expires=0.5)])
def test_valid_declarations_have_no_faults(declared: Any):
    assert approval_faults(declared) == []


@pytest.mark.parametrize("declared", ["yes", 1, 0, "", {"expires": 60}, [large]])
def test_faults_of_declarations_say_what_to_give(declared: Any):
    assert approval_faults(declared) == [f"has approval={declared!r}; give True, a function or Approval(…)"]


@pytest.mark.parametrize("expires", [0, -1, "60"])
def test_an_approval_expires_after_some_time_or_never(expires: Any):
    assert approval_faults(Approval(expires=expires)) == [
        f"has an approval that expires={expires!r}; give seconds above 0, or None for never"
    ]


def test_on_expiry_must_be_reject_or_approve():
    assert approval_faults(Approval(on_expiry="raise")) == [  # type: ignore[arg-type]
        "has an approval with on_expiry='raise'; give 'reject' or 'approve'"
    ]


def test_when_must_be_a_function():
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
