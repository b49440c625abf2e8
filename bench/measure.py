"""Figures, and medians of measurements that alternate."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from statistics import median
from typing import NamedTuple

Work = Callable[[], Awaitable[object]]


class Figure(NamedTuple):
    """One line of the report; `bound` is what the figure should not exceed (or, with `least`, fall below)."""

    name: str
    value: float
    bound: float | None = None
    note: str = ""
    unit: str = "x"
    least: bool = False

    @property
    def holds(self) -> bool:
        if self.bound is None:
            return True
        return self.value >= self.bound if self.least else self.value <= self.bound


async def seconds(work: Work, times: int) -> float:
    """The seconds per call of CPU-bound work, over `times` calls."""
    gc.collect()
    begun = time.perf_counter()
    for _ in range(times):
        await work()
    return (time.perf_counter() - begun) / times


async def interleaved(contenders: dict[str, tuple[Work, int]], repetitions: int = 15) -> dict[str, float]:
    """The median seconds of each contender, measured alternately so that noise hits all of them alike."""
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repetitions):
        for name, (work, times) in contenders.items():
            taken[name].append(await seconds(work, times))
            await asyncio.sleep(0)
    return {name: median(values) for name, values in taken.items()}
