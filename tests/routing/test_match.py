"""Text match between a request and short profiles."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeover.routing.index import LONGEST
from changeover.routing.match import rank, shared
from changeover.routing.words import stem, words

DESK = {
    "billing": "Payments, invoices and refunds.",
    "technical": "Errors, crashes and login problems.",
    "research": "Finds facts and compares products.",
}


def best(request: str) -> str:
    return next((id for id, _ in rank(request, DESK)), "")


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ("My invoice is wrong", "billing"),
        ("It crashed twice", "technical"),
        ("Compare two products", "research"),
    ],
)
def test_the_profile_that_shares_the_words_comes_first(request_, expected):
    assert best(request_) == expected


def test_a_related_word_finds_a_profile_that_does_not_use_it():
    assert best("You took money from my card") == "billing"


def test_the_word_itself_counts_more_than_a_related_one():
    assert rank("refund", {"pay": "invoice", "back": "refund"})[0][0] == "back"


def test_a_slip_of_the_pen_is_forgiven():
    assert best("where is my refnd") == "billing"
    assert best("my pasword") == "technical"
    assert rank("Spain exports", {"a": "spin expert", "b": "tin"}) == []


@pytest.mark.parametrize("request_", ["", "   ", "?!", "and what of it", "blorp zxcvb", "🙂"])
def test_words_that_tell_nothing_give_no_ranking(request_):
    assert rank(request_, DESK) == []


def test_a_word_that_all_profiles_share_tells_nothing():
    assert rank("product", {"a": "product tests", "b": "product sales"}) == []
    assert shared("product", "product tests") == {"product"}


def test_a_single_profile_is_found_by_its_words():
    assert [id for id, _ in rank("payments", {"only": "payments"})] == ["only"]
    assert rank("payments", {}) == []


def test_of_equals_the_first_given_comes_first():
    same = {"b": "red wool", "a": "red wool", "c": "tin"}
    assert [id for id, _ in rank("wool", same)] == ["b", "a"]


@pytest.mark.parametrize(
    "forms",
    [
        "charge charges charged charging",
        "bill bills billed billing",
        "crash crashes crashed crashing",
        "study studies studied studying",
        "run runs running",
        "box boxes",
        "cancel cancelled cancelling cancellation",
        "compare comparison",
        "pay payment paying",
    ],
)
def test_the_forms_of_an_english_word_are_one_word(forms):
    assert len({stem(form) for form in forms.split()}) == 1


@pytest.mark.parametrize("word", ["status", "address", "analysis", "string", "need", "bus", "1042"])
def test_what_only_looks_like_an_ending_stays(word):
    assert stem(word) == word


def test_digits_are_words_and_words_that_say_nothing_are_not():
    assert words("What is the error 500?") == ["error", "500"]


@given(st.text(), st.dictionaries(st.text(max_size=5), st.text(), max_size=5))
def test_any_text_gives_the_same_ranking_each_time_best_first(request_, profiles):
    ranking = rank(request_, profiles)
    assert ranking == rank(request_, profiles)
    assert [score for _, score in ranking] == sorted((score for _, score in ranking), reverse=True)
    assert all(score > 0 and id in profiles for id, score in ranking)


def test_of_an_endless_request_only_the_beginning_is_read():
    assert rank("wool " * 100_000, {"a": "wool", "b": "tin"})
    assert rank(" ".join(f"w{index}" for index in range(LONGEST)) + " wool", {"a": "wool", "b": "tin"}) == []


def test_matching_imports_no_numpy():
    code = "import sys, changeover.routing.match; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0
