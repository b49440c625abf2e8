"""Which handoffs lead nowhere."""

from collections.abc import Mapping
from typing import Any

import pytest

from changeover.facts import Ledger
from changeover.guards import Allow, Deadlock, Deny
from changeover.guards.guard import Facts, Offer, Passed
from changeover.protocol import Mode

Walked = tuple[str, str, int]
"""Who handed over what, after how much was achieved: `"a>b"`."""


RING: list[Walked] = [("a>b", "x", 0), ("b>c", "x", 0), ("c>d", "x", 0), ("d>a", "x", 0)]


def trail(*walked: Walked, variables: Mapping[str, Any] | None = None, mode: Mode = Mode.TRANSFER) -> list[Passed]:
    """Earlier handoffs, before all of which nothing was new."""
    ways = [(way.split(">"), message, progress) for way, message, progress in walked]
    given = variables or {}
    return [Passed(way[0], way[1], message, given, {}, {}, progress, mode) for way, message, progress in ways]


def denied(way: str, message: str, facts: Facts, window: int = 3, **parts: Any) -> Deny:
    sender, receiver = way.split(">")
    answer = Deadlock(window).check(Offer(sender, receiver, message=message, **parts), Ledger(), facts)
    assert isinstance(answer, Allow | Deny)
    return answer if isinstance(answer, Deny) else Deny("")


def judged(way: str, message: str, facts: Facts, window: int = 3, **parts: Any) -> str:
    return denied(way, message, facts, window, **parts).reason


@pytest.mark.parametrize(
    ("walked", "way", "message", "progress", "said"),
    [
        ([], "a>b", "x", 0, ""),
        ([("a>b", "x", 0)], "b>a", "x", 0, ""),
        ([("a>b", "x", 0), ("b>a", "y", 0)], "a>b", "z", 0, "a → b → a → b goes round"),
        ([("a>b", "x", 0), ("b>a", "y", 0)], "a>b", "z", 1, ""),
        ([("a>b", "x", 0), ("b>a", "y", 0)], "a>b", "x", 1, "the same was handed over before (a → b → a → b)"),
        (RING, "a>b", "x", 1, ""),
        (
            RING,
            "a>b",
            "new",
            0,
            "a → b → c → d → a → b",
        ),
        ([("a>b", "x", 0), ("b>a", "x", 0)], "a>c", "x", 0, ""),
        ([("a>a", "x", 0)], "a>a", "y", 0, ""),
        ([("a>a", "x", 0)], "a>a", "x", 0, "the same was handed over before (a → a → a)"),
    ],
)
def test_a_repeated_handoff_is_refused_if_nothing_is_new(
    walked: list[Walked], way: str, message: str, progress: int, said: str
):
    reason = judged(way, message, Facts(trail=trail(*walked), progress=progress))
    assert said in reason if said else reason == ""


def test_the_very_same_handoff_is_allowed_once_something_is_new():
    before = trail(("a>b", "x", 0), ("b>a", "x", 0))
    assert judged("a>b", "x", Facts(trail=before, progress=1, news=1)) == ""


def test_values_of_variables_matter_and_their_order_does_not():
    before = Facts(trail=trail(("a>b", "x", 0), variables={"n": 1, "m": {"p": 1, "q": 2}}), progress=1)
    assert "the same" in judged("a>b", "x", before, variables={"m": {"q": 2, "p": 1}, "n": 1})
    assert judged("a>b", "x", before, variables={"n": 2, "m": {"p": 1, "q": 2}}) == ""
    assert judged("a>b", "x", before, variables={"n": 1, "m": {"p": 1, "q": 2}}, artifacts={"plan": "file"}) == ""


def test_identical_handoffs_are_looked_for_in_the_window_only():
    before = Facts(trail=trail(("a>b", "x", 0), ("b>a", "y", 1)), progress=2)
    assert "the same" in judged("a>b", "x", before, window=2)
    assert judged("a>b", "x", before, window=1) == ""


@pytest.mark.parametrize(
    ("walked", "way", "message", "cycle"),
    [
        ([("a>b", "x", 0), ("b>a", "x", 0)], "a>b", "x", "a → b → a → b"),
        (RING, "a>b", "x", "a → b → c → d → a → b"),
        ([("a>b", "x", 0)], "a>b", "x", "a → b → a → b"),
        ([("a>b", "x", 0)], "a>b", "another task", ""),
        ([("a>b", "x", 0), ("b>a", "y", 0)], "a>b", "z", ""),
    ],
)
def test_a_delegate_is_refused_only_if_it_is_asked_the_same(walked: list[Walked], way: str, message: str, cycle: str):
    no = denied(way, message, Facts(trail=trail(*walked, mode=Mode.DELEGATE)), mode=Mode.DELEGATE)
    assert (" → ".join(no.cycle), cycle in no.reason) == (cycle, True)


def test_a_delegate_and_a_transfer_are_not_the_same():
    before = Facts(trail=trail(("a>b", "x", 0)))
    assert judged("a>b", "x", before, mode=Mode.DELEGATE) == ""
