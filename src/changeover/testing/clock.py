"""ManualClock: a clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import heapq
import threading
from datetime import UTC, datetime
from itertools import count

START = datetime(2030, 1, 1, tzinfo=UTC).timestamp()
# A deadline and the sum of several advances may differ in the last bit of a float.
GRACE = 1e-6
# Rounds of the event loop that woken tasks get before time goes on.
ROUNDS = 50


class ManualClock:
    """A clock that moves only in `advance`; with `auto=True`, a sleep moves it to the end of the sleep at once.

    An alarm never moves the clock. `start` is in seconds since 1970.
    """

    def __init__(self, start: float = START, *, auto: bool = False) -> None:
        self._now = start
        self._auto = auto
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        # Sleepers may belong to several event loops in different threads.
        self._lock = threading.Lock()

    def now(self) -> float:
        """The time in seconds since 1970."""
        return self._now

    async def sleep_until(self, at: float) -> None:
        """Sleep until the clock shows `at`."""
        if self._auto:
            while (woken := self._next_until(at)) is not None:
                _wake(woken)
            self._now = max(self._now, at)
        await self.alarm(at)

    async def alarm(self, at: float) -> None:
        """Wait until the clock shows `at`, without moving it."""
        with self._lock:
            if at <= self._now:
                woken = None
            else:
                woken = asyncio.get_running_loop().create_future()
                heapq.heappush(self._sleepers, (at, next(self._order), woken))
        # A sleep of no length yields too: a loop of sleeps must not starve other tasks.
        await (asyncio.sleep(0) if woken is None else woken)

    async def advance(self, seconds: float) -> None:
        """Move the clock by `seconds`: each sleeper wakes at its own time, in order, and runs before time goes on."""
        if seconds < 0:
            raise ValueError(f"the clock cannot go back: advance({seconds})")
        await _let_others_run()
        end = self._now + seconds
        while (woken := self._next_until(end)) is not None:
            _wake(woken)
            await _let_others_run()
        self._now = max(self._now, end)

    def _next_until(self, end: float) -> asyncio.Future[None] | None:
        """Move the clock to the next sleeper's time, if that is not after `end`."""
        with self._lock:
            while self._sleepers and self._sleepers[0][0] <= end + GRACE:
                at, _, sleeper = heapq.heappop(self._sleepers)
                if not sleeper.done() and not sleeper.get_loop().is_closed():
                    self._now = max(self._now, at)
                    return sleeper
        return None


def _wake(sleeper: asyncio.Future[None]) -> None:
    def wake() -> None:
        if not sleeper.done():  # it may have been cancelled in the meantime
            sleeper.set_result(None)

    sleeper.get_loop().call_soon_threadsafe(wake)


async def _let_others_run() -> None:
    for _ in range(ROUNDS):
        await asyncio.sleep(0)
