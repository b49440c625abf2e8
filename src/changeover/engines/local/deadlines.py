"""How long a whole run may take: when its time is over, that is recorded, and what follows is decided from it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from changeover.engines.deadlines import waited
from changeover.engines.local.commit import put
from changeover.engines.local.conversation import Live
from changeover.relay.events import LimitReached
from changeover.relay.state import State

if TYPE_CHECKING:
    from changeover.engines.local.engine import LocalEngine

AGAIN = 0.05
"""How many seconds pass at least before it is looked at again, where people are awaited meanwhile."""


class Overtime:
    """An alarm for each run of a root that has a timeout, in the process that works on it."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine
        self._timed: set[tuple[str, int]] = set()

    def time(self, live: Live) -> None:
        """See that the run under way ends in time."""
        state = live.state
        if state.run is None or state.depth > 0:
            return
        timeout = (state.run.limits or self._engine.world.roster.limits).timeout
        key = (state.id, state.run.id)
        if timeout is None or key in self._timed or "timeout" in state.limits:
            return
        self._timed.add(key)
        self._engine.soon(self._alarm(live, key, timeout))

    def end_of(self, state: State) -> float | None:
        """When the time of its run is over, if nobody has to be awaited until then."""
        run = state.run
        if run is None or state.depth > 0 or run.waiting.asked or "timeout" in state.limits:
            return None
        timeout = (run.limits or self._engine.world.roster.limits).timeout
        return None if timeout is None else run.at + timeout + run.waiting.before + run.below.waited

    async def _alarm(self, live: Live, key: tuple[str, int], timeout: float) -> None:
        try:
            at = live.state.run.at + timeout if live.state.run else 0.0
            while at:
                await self._engine.world.clock.alarm(at)
                async with live.lock:
                    at = await self._strike(live, key[1], timeout)
            await self._engine.tell(live)
        finally:
            self._timed.discard(key)

    async def _strike(self, live: Live, run: int, timeout: float) -> float:
        """Record that its time is over; else when to look again, and 0 if there is nothing left to look at."""
        await self._engine.lives.refresh(live)
        while (current := live.state.run) is not None and current.id == run and "timeout" not in live.state.limits:
            now = self._engine.world.clock.now()
            elapsed = now - current.at - await waited(self._engine, live, now)
            if elapsed < timeout:
                return now + max(timeout - elapsed, AGAIN)
            reached = LimitReached("timeout", timeout, 0, round(elapsed, 3))
            # By its place and not by its run: one that is resumed may run out of time again.
            if await put(self._engine, live, f"timeout@{live.state.position}", [reached]):
                break
            await asyncio.sleep(0)
            await self._engine.lives.refresh(live)
        return 0.0
