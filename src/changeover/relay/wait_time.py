"""WaitTime: the time that a run, with its delegates, spent waiting for people."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from changeover.facts import Span, Spent


class WaitTime(Struct, gc=False):
    """When people were awaited. Time in which several are awaited at once counts once."""

    asked: int = 0
    """Number of open requests of the run itself."""
    since: float = 0.0
    """When the first of them was made."""
    spans: tuple[Span, ...] = ()
    """Earlier waits, in order and without overlaps."""
    seconds: float = 0.0
    """Their total length, with the waits of delegates whose logs do not say when they waited."""

    def ask(self, at: float) -> None:
        if not self.asked:
            self.since = at
        self.asked += 1

    def hear(self, at: float) -> None:
        self.asked -= 1
        if not self.asked:
            self._add([(self.since, at)])

    def give_up(self, at: float) -> None:
        """Close all requests."""
        if self.asked:
            self.asked = 0
            self._add([(self.since, at)])

    def rest(self, since: float, at: float) -> None:
        """Count the time between the end of a run and its resumption as waiting."""
        self._add([(since, at)])

    def take_back(self, spent: Spent) -> None:
        """Add the waits of a delegate that has ended."""
        self._add(spent.waits, spent.waited)

    def add(self, other: WaitTime) -> None:
        """Add the waits of a delegate that works."""
        self._add(other.spans, other.seconds)

    def until(self, at: float) -> WaitTime:
        """A copy in which the open requests are closed at this time."""
        copy = WaitTime(self.asked, self.since, self.spans, self.seconds)
        copy.give_up(at)
        return copy

    def _add(self, spans: Iterable[Span], seconds: float | None = None) -> None:
        """Add waits; `seconds` is their total if it is more than the spans say."""
        before, self.spans = self.spans, _merged([*self.spans, *spans])
        undated = 0.0 if seconds is None else seconds - _length(spans)
        self.seconds += _length(self.spans) - _length(before) + undated


def _merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The spans in order, without overlaps."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return tuple(found)


def _length(spans: Iterable[Span]) -> float:
    return sum(end - start for start, end in spans)
