"""How many tokens texts and messages are."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeover.handoffs.tokens import ENVELOPE, LARGE, beginning, count, weight
from changeover.messages import Assistant, Call, File, Message, Note, ToolResult, User


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("hello", 1), ("hello world", 2), ("The refund was approved.", 5), ("1234567", 3), ("\n", 1)],
)
def test_a_text_is_as_many_tokens_as_its_vocabulary_says(text: str, tokens: int):
    assert count(text) == tokens


@pytest.mark.parametrize("special", ["<|endoftext|>", "<|endofprompt|>", "<|im_start|>", "<|user|>", "<|think|>"])
def test_a_special_token_in_a_text_counts_as_text(special: str):
    assert count(special) > 2
    assert count(f"a {special} b") > count("a  b") + 2


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\ud800\ud800 ORD-1042", "\udc00\ud800"])
def test_a_lone_surrogate_can_be_counted(text: str):
    assert count(text) >= 1


def test_two_surrogates_count_as_the_character_they_form():
    assert count("\ud83d\ude00") == count("😀")


@given(st.text())
def test_every_text_can_be_counted_and_has_no_more_tokens_than_bytes(text: str):
    assert (text != "") <= count(text) <= len(text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize(
    "message", [User("hello"), Assistant("a", "hello"), ToolResult("c", "t", "a", "hello"), Note("hello")]
)
def test_a_message_weighs_its_text_and_its_envelope(message: Message):
    assert weight(message) == count("hello") + ENVELOPE


def test_an_empty_message_weighs_its_envelope():
    assert weight(Assistant("a")) == ENVELOPE
    assert weight() == 0


def test_calls_weigh_by_their_names_and_arguments():
    plain = Assistant("a", "Looking.")
    called = Assistant("a", "Looking.", calls=(Call("c", "lookup", {"order": "ORD-1042"}),))
    twice = Assistant("a", "Looking.", calls=(*called.calls, Call("d", "lookup", {"order": "ORD-1043", "full": True})))
    assert weight(plain) + count('lookup {"order":"ORD-1042"}') <= weight(called) < weight(twice)


def test_malformed_arguments_count_as_they_were_written():
    assert weight(Assistant("a", calls=(Call("c", "t", malformed="{" * 200),))) > weight(Assistant("a")) + 5


def test_arguments_that_cannot_be_encoded_raise_nothing():
    deep: dict[str, object] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    for args in (deep, {"a": "\ud800"}, {"a": object()}):
        assert weight(Assistant("a", calls=(Call("c", "lookup", args),))) > ENVELOPE
    # Taken apart by hand: freed at once, it would be freed by recursion.
    while deep:
        deep = deep.pop("a")  # type: ignore[assignment]


def test_files_weigh_by_their_labels_and_not_by_their_bytes():
    file = File(b"x" * 1_000_000, "application/pdf", "invoice.pdf")
    assert weight(User("See this.", files=(file,))) == ENVELOPE + count(f"See this.\n{file.label}")


def test_messages_together_weigh_about_what_they_weigh_alone():
    messages = [User(f"My order is ORD-{number}.") for number in range(50)]
    assert abs(weight(*messages) - sum(map(weight, messages))) <= len(messages)


def test_many_threads_count_the_same():
    program = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from changeover.handoffs import tokens\n"
        "with ThreadPoolExecutor(8) as pool:\n"
        "    counted = set(pool.map(tokens.count, ['hello world'] * 64))\n"
        "assert (counted, len(tokens._loaded)) == ({2}, 1), (counted, tokens._loaded)\n"
    )
    # In a process of its own: in this one the vocabulary has been read.
    subprocess.run([sys.executable, "-c", program], check=True)
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(count, ["hello world"] * 64)) == {2}


def test_the_vocabulary_is_loaded_at_the_first_count():
    program = (
        "import sys, changeover, changeover.team, changeover.handoffs.tokens as tokens\n"
        "assert 'splintr' not in sys.modules\n"
        "tokens.count('hello')\n"
        "assert 'splintr' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("text", ["The parcel came twice, and I paid for both. ", 'Überweisung: 漢字 123, {"a": 1}\n'])
def test_the_tokens_of_a_large_text_are_estimated_by_samples(text: str):
    large = text * (4 * LARGE // len(text))
    exact = count(text * 100) * len(large) / len(text * 100)
    assert count(large) == pytest.approx(exact, rel=0.02)


def test_the_beginning_of_a_large_text_is_cut_by_exact_counts():
    large = "The parcel came twice, and I paid for both. " * (2 * LARGE // 44)
    cut = beginning(large, 1_000)
    assert count(cut) == 1_000
    assert large.startswith(cut)
    assert beginning(large, 10**6) == large
