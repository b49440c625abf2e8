"""Load: prefers the least busy of equally good candidates, and says what happens when all are busy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, assert_never, cast

from msgspec import Struct
from msgspec.structs import replace

from changeover.routing.statistics import Draws


class Candidate(Protocol):
    """A record of somebody who could take a task; a `Recommendation` is one."""

    @property
    def agent(self) -> str: ...

    @property
    def score(self) -> float:
        """How well it fits: more is better, and 0 is not at all."""
        ...

    @property
    def why(self) -> str: ...


C = TypeVar("C", bound=Candidate)


def because(candidate: C, reason: str) -> C:
    """The same candidate, with one more reason for its place."""
    told: C = replace(cast("Any", candidate), why="; ".join(filter(None, (candidate.why, reason))))
    return told


def comparable(candidates: Sequence[C], margin: float) -> Iterator[list[C]]:
    """Groups, the best first; in each, nobody fits worse than the best of it by more than this share of its score.
    Within a group the order stays as it was."""
    rest = list(candidates)
    while rest:
        best = max(each.score for each in rest)
        least = best - margin * abs(best)
        yield [each for each in rest if each.score >= least]
        rest = [each for each in rest if each.score < least]


WhenBusy: TypeAlias = Literal["next", "queue", "reject"]
"""What becomes of a task whose receiver is busy: somebody else gets it, it waits, or it is turned down."""

EQUAL = 0.01
"""A text match moves by as much with one idle word in a profile: that says nothing about who does it better."""
MANY = 8
"""Among more, everybody who looks at the same moment would see the same one idle. Two drawn at random, and the idler of
them, spread the work nearly as well and do not all run to one."""


class Load(Struct, frozen=True, gc=False):
    """What an agent has to do, and how much it can do at once."""

    in_flight: int = 0
    queued: int = 0
    max_concurrency: int | None = None

    @property
    def is_full(self) -> bool:
        """Whether a task would have to wait."""
        return self.max_concurrency is not None and self.in_flight >= self.max_concurrency

    def __str__(self) -> str:
        return f"{self.in_flight} at work, {self.queued} waiting"


IDLE = Load()


class Busy(Struct, frozen=True, gc=False):
    """An agent that can do no more at the moment."""

    agent: str
    load: Load

    def __str__(self) -> str:
        return f"{self.agent} is busy: {self.load}, and it does {self.load.max_concurrency} at once"


class Takes(Struct, frozen=True, tag="takes"):
    """Who begins at once, and who was passed over because it is busy."""

    agent: str
    passed: tuple[Busy, ...] = ()


class Waits(Struct, frozen=True, tag="waits"):
    """Whose queue the task goes to."""

    agent: str
    busy: Busy


class Refuses(Struct, frozen=True, tag="refuses"):
    """Nobody takes the task: all of these are busy, or there is nobody to ask."""

    busy: tuple[Busy, ...] = ()

    def __str__(self) -> str:
        return "; ".join(map(str, self.busy)) or "there is nobody to ask"


Placement: TypeAlias = Takes | Waits | Refuses


def by_load(candidates: Sequence[C], loads: Mapping[str, Load], draws: Draws) -> list[C]:
    """The candidates, of equals the least loaded first: those with room, then by work in flight, then by queue. Where
    that is the same too, a draw decides."""
    ordered: list[C] = []
    for equals in comparable(candidates, EQUAL):
        ordered += equals if len(equals) == 1 else _lightest_first(equals, loads, draws)
    return ordered


def place(candidates: Sequence[Candidate], loads: Mapping[str, Load], when_busy: WhenBusy = "next") -> Placement:
    """Who gets the task of these, in their order."""
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
    """What is wrong with what was declared for busy receivers."""
    known = ("next", "queue", "reject")
    return [] if when_busy in known else [f"when_busy={when_busy!r}; give 'next', 'queue' or 'reject'"]


def _lightest_first(equals: Sequence[C], loads: Mapping[str, Load], draws: Draws) -> list[C]:
    found = {each.agent: loads.get(each.agent, IDLE) for each in equals}

    def weight(candidate: Candidate) -> tuple[bool, int, int, float]:
        load = found[candidate.agent]
        return load.is_full, load.in_flight, load.queued, next(draws)

    ordered = [because(each, str(found[each.agent])) for each in sorted(equals, key=weight)]
    if len(ordered) > MANY:
        with_room = sum(not load.is_full for load in found.values())
        ordered.insert(0, ordered.pop(_better_of_two(with_room or len(ordered), draws)))
    return ordered


def _better_of_two(count: int, draws: Draws) -> int:
    """Of two different places drawn, the one further ahead."""
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
