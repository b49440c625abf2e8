"""Metrics of handoffs in a window of time, by agent and by pair."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from math import ceil, fsum, inf, isfinite
from typing import Any, Literal

from msgspec import Struct

from changeover.errors import MisconfiguredError
from changeover.facts import Mode, State
from changeover.relay.tables import Course, Expenses, Measures, Opened, Refused

Window = float | timedelta | None
"""How far back to look: seconds, or as a timedelta; None looks at everything."""

Pair = tuple[str, str]
"""Sender and receiver."""

COUNTED = ("runs", "turns", "retries", "input_tokens", "output_tokens")

Ending = Literal["done", "failed", "rejected", "timeouts", "withdrawn", "open"]
ENDINGS: dict[str, Ending] = {
    State.PENDING: "open",
    State.ACCEPTED: "open",
    State.WORKING: "open",
    State.COMPLETE: "done",
    State.FAILED: "failed",
    State.REJECTED: "rejected",
    State.TIMEOUT: "timeouts",
    State.RETURNED: "withdrawn",
}
"""What a state means for whoever counts; a delegate that came back as it should is done."""
JUDGED: tuple[Ending, ...] = ("done", "failed", "rejected", "timeouts")
"""What says whether handing over is any use. What was taken back, or goes on, says nothing."""


class Times(Struct, frozen=True, gc=False):
    """How long something took, in seconds; nothing is known of what never happened."""

    count: int = 0
    mean: float | None = None
    p50: float | None = None
    """Half of them took no longer."""
    p95: float | None = None


class PairMetrics(Struct, frozen=True, kw_only=True):
    """How the handoffs of one agent to another went."""

    count: int = 0
    """Those that were offered; each is one of the next six."""
    done: int = 0
    failed: int = 0
    rejected: int = 0
    timeouts: int = 0
    withdrawn: int = 0
    """Cancelled, undone, or sent back for want of context."""
    open: int = 0
    success_rate: float | None = None
    """What share is done of those that are done, failed, rejected or out of time; None if there are none."""
    latency: Times = Times()
    """From offer to acceptance."""
    work_time: Times = Times()
    """From acceptance to the end."""
    tokens_before: int = 0
    """How many tokens the contexts of the sender had."""
    tokens_after: int = 0
    """How many of them, or in place of them, were handed over."""
    refused: int = 0
    """Those that a guard, a condition or a rule did not let be offered."""
    deadlocks: int = 0
    """Those of them that would have gone round in a circle."""


class AgentMetrics(PairMetrics, frozen=True, kw_only=True):
    """How the handoffs to an agent went, and what it spent. What was refused, it wanted to hand over itself."""

    sent: int = 0
    """Handoffs that it offered to others."""
    runs: int = 0
    """Those in which it worked, as far as they have ended; as is all that it spent."""
    turns: int = 0
    retries: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    tokens: int = 0
    cost: float | None = 0.0
    """In US dollars; None if the price of one call is unknown."""
    breaker_openings: int = 0


class Metrics(Struct, frozen=True, kw_only=True):
    """How a team did in a window of time: after `since`, until `until`."""

    since: float | None
    """None if everything was looked at."""
    until: float
    agents: dict[str, AgentMetrics]
    pairs: dict[Pair, PairMetrics]
    """By sender and receiver."""
    totals: AgentMetrics


def window_of(window: Window, now: float) -> tuple[float, float]:
    """After when, and until when; raises MisconfiguredError if it is no length of time."""
    if window is None:
        return -inf, now
    seconds = window.total_seconds() if isinstance(window, timedelta) else window
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not isfinite(seconds) or seconds <= 0:
        raise MisconfiguredError(f"window={window!r} is no length of time; give seconds above 0, or a timedelta")
    return now - seconds, now


async def measured(measures: Measures, since: float, until: float) -> Metrics:
    """Count what happened after `since` and not after `until`."""
    sums: defaultdict[Pair, Sum] = defaultdict(Sum)
    async for page in measures.courses(since, until):
        for course in page:
            sums[course.sender, course.receiver].add(course)
    refused = await measures.refused(since, until)
    spent = await measures.expenses(since, until)
    opened = await measures.opened(since, until)
    return Count(sums, refused, spent, opened).metrics(since, until)


class Sum:
    """Handoffs, added up."""

    __slots__ = ("_after", "_before", "_ends", "_latencies", "_works")

    def __init__(self) -> None:
        self._ends: Counter[str] = Counter()
        # Bare numbers: of a hundred thousand handoffs nothing else is kept.
        self._latencies, self._works = array("d"), array("d")
        self._before = self._after = 0

    @property
    def count(self) -> int:
        return self._ends.total()

    def add(self, course: Course) -> None:
        """Count one more."""
        self._ends[_ending(course)] += 1
        self._before += course.tokens_before
        self._after += course.tokens_after
        if course.accepted_at is None:
            return
        self._latencies.append(course.accepted_at - course.offered_at)
        if course.ended_at is not None:
            self._works.append(course.ended_at - course.accepted_at)

    def take(self, other: Sum) -> None:
        """Count all of another's."""
        self._ends.update(other._ends)
        self._before += other._before
        self._after += other._after
        self._latencies.extend(other._latencies)
        self._works.extend(other._works)

    def figures(self) -> dict[str, Any]:
        """The same by the names that metrics have for it."""
        judged = sum(self._ends[each] for each in JUDGED)
        return {
            "count": self.count,
            **self._ends,
            "success_rate": self._ends["done"] / judged if judged else None,
            "latency": times_of(self._latencies),
            "work_time": times_of(self._works),
            "tokens_before": self._before,
            "tokens_after": self._after,
        }


class Count:
    """All that was found, to be told by agent and by pair."""

    def __init__(
        self,
        sums: Mapping[Pair, Sum],
        refused: Sequence[Refused],
        spent: Sequence[Expenses],
        opened: Sequence[Opened],
    ) -> None:
        self._sums, self._refused, self._spent, self._opened = sums, refused, spent, opened

    def metrics(self, since: float, until: float) -> Metrics:
        pairs = {*self._sums, *((each.sender, each.receiver) for each in self._refused)}
        named = {name for pair in pairs for name in pair}
        named |= {each.agent for each in self._spent} | {each.receiver for each in self._opened}
        return Metrics(
            since=since if isfinite(since) else None,
            until=until,
            agents={name: self._agent(name) for name in sorted(named - {""})},
            pairs={pair: self._pair(*pair) for pair in sorted(pairs) if pair[1]},
            totals=self._agent(None),
        )

    def _pair(self, sender: str, receiver: str) -> PairMetrics:
        refused = [each for each in self._refused if (each.sender, each.receiver) == (sender, receiver)]
        sums = self._sums.get((sender, receiver), Sum())
        return PairMetrics(**sums.figures(), **_noes(refused))

    def _agent(self, name: str | None) -> AgentMetrics:
        """What there is of this agent; of all, if it is none."""
        received = Sum()
        for (_, receiver), each in self._sums.items():
            if name in (None, receiver):
                received.take(each)
        return AgentMetrics(
            **received.figures(),
            **_noes([each for each in self._refused if name in (None, each.sender)]),
            **_expenses([each for each in self._spent if name in (None, each.agent)]),
            sent=sum(each.count for (sender, _), each in self._sums.items() if name in (None, sender)),
            breaker_openings=sum(each.count for each in self._opened if name in (None, each.receiver)),
        )


def times_of(values: Iterable[float]) -> Times:
    """These times, as people talk about them: no value is made up between two that were."""
    found = sorted(values)
    if not found:
        return Times()
    half, most = (found[ceil(share * len(found)) - 1] for share in (0.5, 0.95))
    return Times(len(found), fsum(found) / len(found), half, most)


def _ending(course: Course) -> Ending:
    if course.mode == Mode.DELEGATE and course.state == State.RETURNED and not course.explained:
        return "done"
    return ENDINGS[course.state]


def _noes(refused: Sequence[Refused]) -> dict[str, Any]:
    return {
        "refused": sum(each.count for each in refused),
        "deadlocks": sum(each.count for each in refused if each.deadlock),
    }


def _expenses(spent: Sequence[Expenses]) -> dict[str, Any]:
    counted = {name: sum(getattr(each, name) for each in spent) for name in COUNTED}
    costs = [each.cost for each in spent if each.cost is not None]
    cost = fsum(costs) if len(costs) == len(spent) else None
    return {**counted, "tokens": counted["input_tokens"] + counted["output_tokens"], "cost": cost}
