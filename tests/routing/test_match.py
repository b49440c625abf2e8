"""Text match between a request and profiles: by words, updated as profiles change, and by meaning."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.routing import by_text, hits
from changeover.errors import MisconfiguredError
from changeover.routing.match import LONGEST, WordMatch, rank, shared
from changeover.routing.profile import Profile
from changeover.routing.registry import Registry
from changeover.routing.vectors import MeaningMatch, load_wordllama
from changeover.routing.words import stem, words
from tests.routing.sample_profiles import PROFILES
from tests.routing.sample_tasks import TASKS

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


def test_a_typing_error_is_corrected():
    assert best("where is my refnd") == "billing"
    assert best("my pasword") == "technical"
    assert rank("Spain exports", {"a": "spin expert", "b": "tin"}) == []


@pytest.mark.parametrize("request_", ["", "   ", "?!", "and what of it", "blorp zxcvb", "🙂"])
def test_stop_words_give_no_ranking(request_):
    assert rank(request_, DESK) == []


def test_a_word_that_all_profiles_share_does_not_count():
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
def test_letters_that_only_look_like_an_ending_stay(word):
    assert stem(word) == word


def test_digits_are_words_and_stop_words_are_not():
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


LETTERS = "abcdefghijklmnopqrstuvwxyz"

some_text = st.lists(
    st.sampled_from(["invoice", "invoices", "refund", "app", "crash", "parcel", "wool", "42", "the"])
).map(" ".join)
some_profiles = st.dictionaries(st.sampled_from("abcde"), some_text, max_size=5).map(
    lambda texts: [Profile(id, description=text) for id, text in texts.items()]
)


@given(st.lists(some_profiles, min_size=1, max_size=4), some_text)
def test_an_updated_index_scores_like_a_new_one(stages, task):
    match = WordMatch()
    for profiles in stages:
        before = list(match.scores(task))
        updated = match.over(profiles)
        assert list(match.scores(task)) == before
        match = updated
    assert list(match.scores(task)) == pytest.approx(list(WordMatch().over(stages[-1]).scores(task)))


@given(some_profiles, st.one_of(some_text, st.text()))
def test_scores_by_words_are_between_0_and_1(profiles, task):
    scores = WordMatch().over(profiles).scores(task)
    assert len(scores) == len(profiles)
    assert all(0 <= score <= 1 for score in scores)


def test_a_profile_that_shares_more_of_the_task_scores_higher():
    match = WordMatch().over([Profile("a", description="wool and tin"), Profile("b", description="wool and lead")])
    some, all_ = match.scores("wool, tin and copper pans")[0], match.scores("tin and wool")[0]
    assert 0 < some < all_


def test_the_number_at_the_end_of_an_id_does_not_count():
    registry = Registry([Profile("billing-2", description="refunds"), Profile("other", description="parcels")])
    assert list(registry.match.scores("I have 2 problems")) == [0, 0]
    assert registry.match.scores("billing")[0] > 0


def letters(texts: list[str]) -> Iterable[list[float]]:
    """Vectors of length 1 that count letters: a sort of meaning that can be worked out by hand."""
    for text in texts:
        counts = [float(text.lower().count(letter)) for letter in LETTERS]
        length = sum(count * count for count in counts) ** 0.5 or 1.0
        yield [count / length for count in counts]


def test_the_score_by_meaning_is_the_cosine_and_0_below_the_noise():
    match = MeaningMatch(letters).over([Profile("aaa"), Profile("bbb"), Profile("a" * 20 + "c")])
    assert list(match.scores("aa")) == pytest.approx([1.0, 0.0, 0.99875], abs=1e-4)
    assert list(match.scores("c" + "z" * 30)) == [0.0, 0.0, 0.0]


def test_each_profile_is_embedded_once():
    read: list[str] = []

    def embed(texts: list[str]) -> Iterable[list[float]]:
        read.extend(texts)
        return letters(texts)

    first = MeaningMatch(embed).over([Profile("aa"), Profile("bb")])
    second = first.over([Profile("bb"), Profile("cc")])
    assert [text.strip() for text in read] == ["aa", "bb", "cc"]
    assert list(second.scores("bb")) == pytest.approx([1.0, 0.0])


def test_without_wordllama_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "wordllama", None)
    with pytest.raises(MisconfiguredError, match=r"pip install 'changeover\[wordllama\]'"):
        load_wordllama()


def test_wordllama_finds_more_than_words_do_and_never_asks_the_network(monkeypatch: pytest.MonkeyPatch):
    def refuse(*args, **kwargs):
        raise OSError("there is no network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    somebodys = [task for task in TASKS if task.right]
    meaning, words = (by_text(Registry(PROFILES, match)) for match in (load_wordllama(), WordMatch()))
    assert hits(meaning, somebodys) > hits(words, somebodys)


def test_routing_imports_neither_numpy_nor_wordllama():
    program = (
        "import sys, changeover.routing.broker, changeover.routing.vectors;"
        "sys.exit(bool({'numpy', 'wordllama', 'bm25s'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=30).returncode == 0
