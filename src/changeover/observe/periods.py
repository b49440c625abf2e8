"""Periods: the handoffs of a window of time in equal parts, for charts."""

from __future__ import annotations

from msgspec import Struct

from changeover.observe.sums import Sum, Times
from changeover.relay.ports.tables import Course

MINUTE, HOUR, DAY = 60, 3600, 86_400
WIDTHS = (MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, DAY, 7 * DAY, 30 * DAY, 365 * DAY)
"""Lengths of a period in seconds. Periods begin at multiples of their length."""
MOST = 32
"""A window is at most this many periods long; it touches one more if it begins within a period."""


class Period(Struct, frozen=True, kw_only=True):
    """The handoffs that were offered in a part of a window: at `start` or later, and before `end`."""

    start: float
    end: float
    count: int = 0
    """Handoffs offered."""
    done: int = 0
    lost: int = 0
    """Failed, rejected or timed out. All others are under way or were withdrawn."""
    latency: Times = Times()
    """From offer to acceptance."""


class Periods:
    """Accumulates handoffs, which arrive in the order of their offers."""

    def __init__(self, since: float, until: float) -> None:
        self._since, self._until = since, until
        self._sums: dict[int, Sum] = {}
        # A longer window would have periods without number: it begins with its first handoff instead.
        self._width = width_of(until - since) if until - since <= MOST * WIDTHS[-1] else 0

    def add(self, course: Course) -> None:
        """Add one handoff; without a window, the first one decides how long a period is."""
        if not self._width:
            self._since = course.offered_at
            self._width = width_of(self._until - self._since)
        number = int(course.offered_at // self._width)
        if (found := self._sums.get(number)) is None:
            found = self._sums[number] = Sum()
        found.add(course)

    def all(self) -> tuple[Period, ...]:
        """All periods of the window, also those without a handoff; none if there is neither window nor handoff."""
        if not self._width:
            return ()
        first, last = int(self._since // self._width), int(self._until // self._width)
        return tuple(self._period(number) for number in range(first, last + 1))

    def _period(self, number: int) -> Period:
        start, end = number * self._width, (number + 1) * self._width
        if (found := self._sums.get(number)) is None:
            return Period(start=start, end=end)
        counted = found.figures()
        ends = {name: counted.get(name, 0) for name in ("done", "failed", "rejected", "timeouts")}
        done = ends.pop("done")
        return Period(
            start=start, end=end, count=found.count, done=done, lost=sum(ends.values()), latency=counted["latency"]
        )


def width_of(span: float) -> int:
    """The length of the periods of a window of so many seconds."""
    return next((width for width in WIDTHS if span / width <= MOST), WIDTHS[-1])
