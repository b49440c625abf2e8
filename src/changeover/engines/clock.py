"""The time of day."""

from __future__ import annotations

import asyncio
import time


class SystemClock:
    """Time as the machine tells it."""

    now = staticmethod(time.time)

    async def sleep_until(self, at: float) -> None:
        await asyncio.sleep(max(0.0, at - time.time()))

    async def alarm(self, at: float) -> None:
        await self.sleep_until(at)
