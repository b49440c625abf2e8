"""Figures, and the CPU time of contenders that are measured alternately."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Sequence
from statistics import quantiles
from typing import NamedTuple

Work = Callable[[], Awaitable[object]]
Clock = Callable[[], float]


class Figure(NamedTuple):
    """One line of the report; `bound` is what the figure should not exceed (or, with `least`, fall below)."""

    name: str
    value: float
    bound: float | None = None
    note: str = ""
    unit: str = "x"
    least: bool = False
    spread: tuple[float, float] | None = None
    """The lower and the upper quartile of the rounds."""

    @property
    def holds(self) -> bool:
        if self.bound is None:
            return True
        return self.value >= self.bound if self.least else self.value <= self.bound


class Taken(NamedTuple):
    """Seconds of one contender: the least of all rounds, and each round."""

    least: float
    rounds: Sequence[float]

    def over(self, other: Taken) -> tuple[float, tuple[float, float] | None]:
        """The ratio of the least to that of another contender, and its spread over the rounds."""
        return self.least / other.least, spread(
            [mine / its for mine, its in zip(self.rounds, other.rounds, strict=True)]
        )

    def each(self, other: Taken, count: int) -> Taken:
        """What each of `count` further steps takes, if `other` is measured without them."""
        rounds = [(mine - its) / count for mine, its in zip(self.rounds, other.rounds, strict=True)]
        return Taken((self.least - other.least) / count, rounds)


def taken(rounds: Sequence[float]) -> Taken:
    return Taken(min(rounds), rounds)


def spread(values: Sequence[float]) -> tuple[float, float] | None:
    """The quartiles; None for fewer than three values."""
    if len(values) < 3:
        return None
    low, _, high = quantiles(values, n=4)
    return low, high


def ratio(name: str, ours: Taken, floor: Taken, bound: float | None = None, note: str = "") -> Figure:
    """The figure of one contender relative to another."""
    value, around = ours.over(floor)
    return Figure(name, value, bound, note, spread=around)


async def seconds(work: Work, times: int, clock: Clock = time.process_time) -> float:
    """The seconds per call of some work, over `times` calls: of CPU time in all threads, which other processes on the
    machine disturb far less than the time on the wall."""
    gc.collect()
    begun = clock()
    for _ in range(times):
        await work()
    return (clock() - begun) / times


async def alternated(
    contenders: dict[str, tuple[Work, int]], repetitions: int = 15, clock: Clock = time.process_time
) -> dict[str, Taken]:
    """The seconds of each contender, measured in turns so that noise hits all of them alike."""
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for work, _ in contenders.values():
        await work()  # the first call imports, connects and fills caches
    for _ in range(repetitions):
        for name, (work, times) in contenders.items():
            found[name].append(await seconds(work, times, clock))
            await asyncio.sleep(0)
    return {name: taken(rounds) for name, rounds in found.items()}
