"""Which handoffs lead nowhere."""

from collections.abc import Mapping
from typing import Any

import pytest

from changeover import Allow, Deadlock, Deny, Mode
from changeover.facts import Ledger
from changeover.guards.guard import Facts, Offer, Passed

Walked = tuple[str, str, int]
"""Who handed over what, after how much was achieved: `"a>b"`."""


RING: list[Walked] = [("a>b", "x", 0), ("b>c", "x", 0), ("c>d", "x", 0), ("d>a", "x", 0)]


def trail(*walked: Walked, variables: Mapping[str, Any] | None = None) -> list[Passed]:
    ways = [(way.split(">"), message, progress) for way, message, progress in walked]
    return [Passed(*(sender, receiver, message), variables or {}, {}, {}, n) for (sender, receiver), message, n in ways]


def judged(way: str, message: str, facts: Facts, window: int = 3, **parts: Any) -> str:
    sender, receiver = way.split(">")
    answer = Deadlock(window).check(Offer(sender, receiver, message=message, **parts), Ledger(), facts)
    assert isinstance(answer, Allow | Deny)
    return answer.reason if isinstance(answer, Deny) else ""


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
def test_a_repeated_handoff_without_progress_is_refused(
    walked: list[Walked], way: str, message: str, progress: int, said: str
):
    reason = judged(way, message, Facts(trail=trail(*walked), progress=progress))
    assert said in reason if said else reason == ""


def test_values_of_variables_matter_and_their_order_does_not():
    before = Facts(trail=trail(("a>b", "x", 0), variables={"n": 1, "m": {"p": 1, "q": 2}}), progress=1)
    assert "the same" in judged("a>b", "x", before, variables={"m": {"q": 2, "p": 1}, "n": 1})
    assert judged("a>b", "x", before, variables={"n": 2, "m": {"p": 1, "q": 2}}) == ""
    assert judged("a>b", "x", before, variables={"n": 1, "m": {"p": 1, "q": 2}}, artifacts={"plan": "file"}) == ""


def test_identical_handoffs_are_looked_for_in_the_window_only():
    before = Facts(trail=trail(("a>b", "x", 0), ("b>a", "y", 1)), progress=2)
    assert "the same" in judged("a>b", "x", before, window=2)
    assert judged("a>b", "x", before, window=1) == ""


def test_delegations_are_not_checked_for_deadlocks():
    before = Facts(trail=trail(("a>b", "x", 0)))
    assert judged("a>b", "x", before, mode=Mode.DELEGATE) == ""
