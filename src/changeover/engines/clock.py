"""The system clock, ids in the order of time, and waiting for work until a deadline."""

from __future__ import annotations

import asyncio
import os
import random
import time
from math import isfinite
from typing import Any

from changeover.errors import MisconfiguredError
from changeover.relay.ports.world import Clock

# A separate generator: a program that seeds the global one would repeat ids. Not os.urandom: it is a system call.
_RANDOM = random.Random()
if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_RANDOM.seed)


def new_id() -> str:
    """An id for a new conversation. It begins with the time in milliseconds: a store writes the rows of new
    conversations side by side."""
    return f"{time.time_ns() // 1_000_000:011x}{_RANDOM.getrandbits(36):09x}"


class SystemClock:
    """The time of the machine."""

    now = staticmethod(time.time)

    async def sleep_until(self, at: float) -> None:
        await asyncio.sleep(max(0.0, at - time.time()))

    async def alarm(self, at: float) -> None:
        await self.sleep_until(at)


class CheckedClock:
    """A clock of the team's own, whose time is checked: a log and its deadlines need finite numbers.

    Raises MisconfiguredError when it shows anything else.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.sleep_until, self.alarm = clock.sleep_until, clock.alarm

    def now(self) -> float:
        at = self._clock.now()
        if not isinstance(at, int | float) or not isfinite(at):
            raise MisconfiguredError(
                f"the clock of the team shows {at!r}; its now() must give a finite number of seconds"
            )
        return at


async def done_by(clock: Clock, deadline: float | None, work: asyncio.Future[Any]) -> bool:
    """Wait for work until a deadline; True if it is done then. It is not cancelled."""
    if deadline is None:
        await asyncio.wait([work])
        return True
    alarm = asyncio.ensure_future(clock.alarm(deadline))
    try:
        await asyncio.wait([work, alarm], return_when=asyncio.FIRST_COMPLETED)
        return work.done()
    finally:
        alarm.cancel()
