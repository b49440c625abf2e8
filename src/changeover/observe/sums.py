"""Sums of handoffs: how they ended, and how long they took."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from math import ceil, fsum
from typing import Any, Literal

from msgspec import Struct

from changeover.facts import Mode
from changeover.facts import State as HandoffState
from changeover.relay.ports.tables import Course

Ending = Literal["done", "failed", "rejected", "timeouts", "withdrawn", "open"]
ENDINGS: dict[str, Ending] = {
    HandoffState.PENDING: "open",
    HandoffState.ACCEPTED: "open",
    HandoffState.WORKING: "open",
    HandoffState.COMPLETE: "done",
    HandoffState.FAILED: "failed",
    HandoffState.REJECTED: "rejected",
    HandoffState.TIMEOUT: "timeouts",
    HandoffState.RETURNED: "withdrawn",
}
"""The counter of each state; a delegate that returned its result counts as done."""
JUDGED: tuple[Ending, ...] = ("done", "failed", "rejected", "timeouts")
"""Counters that the success rate is computed from; withdrawn and open handoffs are left out."""


class Times(Struct, frozen=True, gc=False):
    """Durations in seconds; all but the count are None if there are none."""

    count: int = 0
    mean: float | None = None
    p50: float | None = None
    """The median."""
    p95: float | None = None


class Sum:
    """Accumulates handoffs."""

    __slots__ = ("_after", "_before", "_ends", "_latencies", "_works")

    def __init__(self) -> None:
        self._ends: Counter[str] = Counter()
        # Arrays of numbers, so that a hundred thousand handoffs need little memory.
        self._latencies, self._works = array("d"), array("d")
        self._before = self._after = 0

    @property
    def count(self) -> int:
        return self._ends.total()

    def add(self, course: Course) -> None:
        """Add one handoff."""
        self._ends[ending_of(course)] += 1
        self._before += course.tokens_before
        self._after += course.tokens_after
        if course.accepted_at is None:
            return
        self._latencies.append(course.accepted_at - course.offered_at)
        if course.ended_at is not None:
            self._works.append(course.ended_at - course.accepted_at)

    def merge(self, other: Sum) -> None:
        """Add all handoffs of another sum."""
        self._ends.update(other._ends)
        self._before += other._before
        self._after += other._after
        self._latencies.extend(other._latencies)
        self._works.extend(other._works)

    def figures(self) -> dict[str, Any]:
        """The fields of PairMetrics."""
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


def times_of(values: Iterable[float]) -> Times:
    """Count, mean and percentiles; a percentile is always one of the values, never interpolated."""
    found = sorted(values)
    if not found:
        return Times()
    half, most = (found[ceil(share * len(found)) - 1] for share in (0.5, 0.95))
    return Times(len(found), fsum(found) / len(found), half, most)


def ending_of(course: Course) -> Ending:
    """The counter of a handoff, by its state."""
    if course.mode == Mode.DELEGATE and course.state == HandoffState.RETURNED and not course.explained:
        return "done"
    return ENDINGS[course.state]
