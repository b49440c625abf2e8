"""Load: orders equally good candidates by load, and places a task if the best candidate is busy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, assert_never, cast

from msgspec import Struct
from msgspec.structs import replace

from changeover.routing.statistics import Draws


class Candidate(Protocol):
    """An agent that could take a task, such as a `Recommendation`; it has to be a msgspec record."""

    @property
    def agent(self) -> str: ...

    @property
    def score(self) -> float:
        """How well it fits: higher is better, 0 is not at all."""
        ...

    @property
    def why(self) -> str: ...


C = TypeVar("C", bound=Candidate)


def with_reason(candidate: C, reason: str) -> C:
    """The same candidate, with one more reason for its place."""
    explained: C = replace(cast("Any", candidate), why="; ".join(filter(None, (candidate.why, reason))))
    return explained


def comparable(candidates: Sequence[C], margin: float) -> Iterator[list[C]]:
    """Groups of candidates, the best first: all scores of a group are within this share of its best score. The order
    within a group stays."""
    rest = list(candidates)
    while rest:
        best = max(each.score for each in rest)
        least = best - margin * abs(best)
        yield [each for each in rest if each.score >= least]
        rest = [each for each in rest if each.score < least]


WhenBusy: TypeAlias = Literal["next", "queue", "reject"]
"""What happens to a task whose receiver is busy: the next candidate gets it, it is queued, or it is rejected."""

EQUAL = 0.01
"""Scores within this share are equal: one word more in a profile changes a text score by as much."""
MANY = 8
"""From more equals than this, the less loaded of two random ones is taken: processes that choose at the same moment
would otherwise all take the same idle agent."""


class Load(Struct, frozen=True, gc=False):
    """The tasks of an agent: in work and waiting, and how many it can work on at a time (None for no limit)."""

    in_flight: int = 0
    queued: int = 0
    max_concurrency: int | None = None

    @property
    def is_full(self) -> bool:
        """True if another task would have to wait."""
        return self.max_concurrency is not None and self.in_flight >= self.max_concurrency

    def __str__(self) -> str:
        return f"{self.in_flight} at work, {self.queued} waiting"


IDLE = Load()


class Busy(Struct, frozen=True, gc=False):
    """An agent that is at its limit, and its load."""

    agent: str
    load: Load

    def __str__(self) -> str:
        return f"{self.agent} is busy: {self.load}, and it does {self.load.max_concurrency} at once"


class Takes(Struct, frozen=True, tag="takes"):
    """The agent that can begin at once, and the busy ones before it that were skipped."""

    agent: str
    passed: tuple[Busy, ...] = ()


class Waits(Struct, frozen=True, tag="waits"):
    """The agent whose queue the task goes to."""

    agent: str
    busy: Busy


class Refuses(Struct, frozen=True, tag="refuses"):
    """No agent gets the task: these are busy, or there are no candidates."""

    busy: tuple[Busy, ...] = ()

    def __str__(self) -> str:
        return "; ".join(map(str, self.busy)) or "there are no candidates"


Placement: TypeAlias = Takes | Waits | Refuses


def by_load(candidates: Sequence[C], loads: Mapping[str, Load], draws: Draws) -> list[C]:
    """The candidates, with the least loaded of equals first: those below their limit, then by tasks in flight, then by
    queue, then by a random draw."""
    ordered: list[C] = []
    for equals in comparable(candidates, EQUAL):
        ordered += equals if len(equals) == 1 else _lightest_first(equals, loads, draws)
    return ordered


def place(candidates: Sequence[Candidate], loads: Mapping[str, Load], when_busy: WhenBusy = "next") -> Placement:
    """The agent that gets the task, of these candidates in their order."""
    if not candidates:
        return Refuses()
    first = candidates[0].agent
    busy = _busy(first, loads)
    if busy is None:
        return Takes(first)
    match when_busy:
        case "next":
            return _next_with_room(candidates, loads)
        case "queue":
            return Waits(first, busy)
        case "reject":
            return Refuses((busy,))
        case _:
            assert_never(when_busy)


def busy_faults(when_busy: object) -> list[str]:
    """The faults of the declaration `when_busy=…`."""
    known = ("next", "queue", "reject")
    return [] if when_busy in known else [f"when_busy={when_busy!r}; give 'next', 'queue' or 'reject'"]


def _lightest_first(equals: Sequence[C], loads: Mapping[str, Load], draws: Draws) -> list[C]:
    found = {each.agent: loads.get(each.agent, IDLE) for each in equals}

    def weight(candidate: Candidate) -> tuple[bool, int, int, float]:
        load = found[candidate.agent]
        return load.is_full, load.in_flight, load.queued, next(draws)

    ordered = [with_reason(each, str(found[each.agent])) for each in sorted(equals, key=weight)]
    if len(ordered) > MANY:
        with_room = sum(not load.is_full for load in found.values())
        ordered.insert(0, ordered.pop(_better_of_two(with_room or len(ordered), draws)))
    return ordered


def _better_of_two(count: int, draws: Draws) -> int:
    """The lower of two different random indexes below `count`."""
    if count == 1:
        return 0
    one, other = int(next(draws) * count), int(next(draws) * (count - 1))
    return min(one, other + (other >= one))


def _next_with_room(candidates: Sequence[Candidate], loads: Mapping[str, Load]) -> Takes | Refuses:
    passed: list[Busy] = []
    for candidate in candidates:
        busy = _busy(candidate.agent, loads)
        if busy is None:
            return Takes(candidate.agent, tuple(passed))
        passed.append(busy)
    return Refuses(tuple(passed))


def _busy(agent: str, loads: Mapping[str, Load]) -> Busy | None:
    load = loads.get(agent, IDLE)
    return Busy(agent, load) if load.is_full else None
