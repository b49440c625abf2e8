"""Waiting: the time that a run, with its delegates, spent waiting for people."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from changeover.facts import Span, Spent


class Waiting(Struct, gc=False):
    """When people were awaited. Time in which several are awaited at once counts once."""

    asked: int = 0
    """Number of open requests of the run itself."""
    since: float = 0.0
    """When the first of them was made."""
    spans: list[Span] = []
    """Earlier waits, which may overlap: delegates work side by side."""
    undated: float = 0.0
    """Seconds of delegates whose logs do not say when they waited."""

    def ask(self, at: float) -> None:
        if not self.asked:
            self.since = at
        self.asked += 1

    def hear(self, at: float) -> None:
        self.asked -= 1
        if not self.asked:
            self.spans.append((self.since, at))

    def give_up(self, at: float) -> None:
        """Close all requests."""
        if self.asked:
            self.asked = 0
            self.spans.append((self.since, at))

    def rest(self, since: float, at: float) -> None:
        """Count the time between the end of a run and its resumption as waiting."""
        self.spans.append((since, at))

    def take_back(self, spent: Spent) -> None:
        """Add the waits of a delegate that has ended."""
        self.spans += spent.waits
        self.undated += spent.waited - _seconds(spent.waits)

    def add(self, other: Waiting) -> None:
        """Add the waits of a delegate that works."""
        self.spans += other.spans
        self.undated += other.undated

    def until(self, at: float) -> Waiting:
        """A copy in which the open requests are closed at this time."""
        copy = Waiting(self.asked, self.since, [*self.spans], self.undated)
        copy.give_up(at)
        return copy

    def merged(self) -> tuple[Span, ...]:
        """The earlier waits in order, without overlaps."""
        found: list[Span] = []
        for start, end in sorted(self.spans):
            if found and start <= found[-1][1]:
                found[-1] = (found[-1][0], max(found[-1][1], end))
            else:
                found.append((start, end))
        return tuple(found)

    @property
    def seconds(self) -> float:
        """Total length of the earlier waits."""
        return self.undated + _seconds(self.merged())


def _seconds(spans: Iterable[Span]) -> float:
    return sum(end - start for start, end in spans)
