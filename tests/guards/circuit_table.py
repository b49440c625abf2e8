"""What happens to a receiver, step by step, and how its circuit stands then: a table for all that keep circuits."""

from typing import NamedTuple

from changeover.guards import CircuitBreaker

BREAKER = CircuitBreaker(threshold=3, cooldown=30)
QUICK = CircuitBreaker(threshold=1, cooldown=5)
WHO = "clerk"


class Offer(NamedTuple):
    """A handoff is offered to the receiver; or is not, since its circuit is open until then."""

    handoff: str
    at: float
    until: float | None = None
    """None if it goes through; a time, or 0 for one that a person has to say."""


class End(NamedTuple):
    """A handoff is over."""

    handoff: str
    ok: bool | None
    at: float
    began: float = 0.0
    breaker: CircuitBreaker = BREAKER


class Force(NamedTuple):
    at: float


class Reset(NamedTuple):
    at: float
    changed: bool


Step = Offer | End | Force | Reset


class Stand(NamedTuple):
    """How a circuit is then."""

    state: str
    failures: int = 0
    openings: int = 0
    until: float | None = None
    probe: str = ""


def fails(*names: str, at: float = 1.0) -> list[Step]:
    return [End(name, False, at) for name in names]


OPENED = fails("a", "b", "c")
"""It opened at 1, until 31."""
PROBED = [*OPENED, Offer("p", 31)]

TABLE: dict[str, tuple[list[Step], Stand]] = {
    "nobody has failed": ([Offer("a", 1), End("a", True, 2)], Stand("closed")),
    "it is closed up to the threshold": ([*fails("a", "b"), Offer("c", 1)], Stand("closed", 2)),
    "it opens at the threshold": ([*OPENED, Offer("d", 30.9, until=31)], Stand("open", 3, 1, 31)),
    "a success between makes them no row": (
        [*fails("a", "b"), End("c", True, 1), *fails("d", "e"), Offer("f", 1)],
        Stand("closed", 2),
    ),
    "what says nothing of it changes nothing": (
        [*fails("a", "b"), End("c", None, 1), *fails("d"), Offer("f", 1, until=31)],
        Stand("open", 3, 1, 31),
    ),
    "another breaker may be quicker": (
        [End("a", False, 1, breaker=QUICK), Offer("b", 5.9, until=6)],
        Stand("open", 1, 1, 6),
    ),
    "who failed twice for the one has failed too often for the other": (
        [*fails("a", "b"), End("c", False, 1, breaker=QUICK), Offer("b", 5.9, until=6)],
        Stand("open", 3, 1, 6),
    ),
    "after the cool-down one is let through, and only one": (
        [*PROBED, Offer("q", 31, until=61), Offer("r", 60.9, until=61)],
        Stand("half-open", 3, 1, 61, "p"),
    ),
    "the one that was let through may be offered again": ([*PROBED, Offer("p", 32)], Stand("half-open", 3, 1, 61, "p")),
    "it closes when that succeeds": ([*PROBED, End("p", True, 40, 31), Offer("q", 40)], Stand("closed", 0, 1)),
    "it opens again when that fails, and it is the same outage": (
        [*PROBED, End("p", False, 40, 31), Offer("q", 69.9, until=70)],
        Stand("open", 4, 1, 70),
    ),
    "then another is let through": (
        [*PROBED, End("p", False, 40, 31), Offer("q", 70), Offer("r", 70, until=100), End("q", True, 71, 70)],
        Stand("closed", 0, 1),
    ),
    "if that came to nothing, the next is let through at once": (
        [*PROBED, End("p", None, 40, 31), Offer("q", 40), Offer("r", 40, until=70)],
        Stand("half-open", 3, 1, 70, "q"),
    ),
    "if nothing is heard of it, another is let through after one more cool-down": (
        [*PROBED, Offer("q", 60.9, until=61), Offer("q", 61)],
        Stand("half-open", 3, 1, 91, "q"),
    ),
    "if something is heard of it after all, its success counts": (
        [*PROBED, Offer("q", 61), End("p", True, 62, 31), Offer("r", 62)],
        Stand("closed", 0, 1),
    ),
    "but not its failure": (
        [*PROBED, Offer("q", 61), End("p", False, 62, 31), End("q", True, 63, 61)],
        Stand("closed", 0, 1),
    ),
    "failures of what began before change nothing while it is open": (
        [*OPENED, *fails("d", "e", at=20), Offer("f", 31), *fails("g", at=32)],
        Stand("half-open", 3, 1, 61, "f"),
    ),
    "nor do successes": ([*OPENED, End("d", True, 20), Offer("f", 21, until=31)], Stand("open", 3, 1, 31)),
    "nor do they count after it has closed": (
        [*PROBED, End("p", True, 40, 31), *fails("d", "e", "f", at=41), Offer("g", 42)],
        Stand("closed", 0, 1),
    ),
    "the next outage counts as one": (
        [*PROBED, End("p", True, 40, 31), *(End(name, False, 41, 40) for name in "def"), Offer("g", 42, until=71)],
        Stand("open", 3, 2, 71),
    ),
    "opened by hand it stays open": (
        [Force(1), Offer("a", 1_000, until=0), End("a", True, 1_001, 1_000)],
        Stand("open"),
    ),
    "it can be opened by hand while it is open": ([*PROBED, Force(32), Offer("q", 90, until=0)], Stand("open", 3, 1)),
    "reset, it is as if nobody had failed": ([*PROBED, Reset(32, True), Offer("q", 32)], Stand("closed", 0, 1)),
    "so it is if it was opened by hand": ([Force(1), Reset(2, True), Offer("q", 2)], Stand("closed")),
    "failures can be reset before it opens": ([*fails("a", "b"), Reset(2, True), *fails("c")], Stand("closed")),
    "where nobody failed there is nothing to reset": ([Offer("a", 1), Reset(2, False)], Stand("closed")),
}
