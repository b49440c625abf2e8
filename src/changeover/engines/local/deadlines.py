"""Deadlines of delegates and timeouts of runs; time spent waiting for people does not count."""

from __future__ import annotations

import asyncio
from asyncio import Future
from typing import TYPE_CHECKING

from changeover.engines.clock import in_time
from changeover.engines.local.commit import put
from changeover.engines.local.conversation import Live
from changeover.facts import RunResult
from changeover.relay.events import HandoffOffered, LimitReached
from changeover.relay.run import TURNING, Run
from changeover.relay.state import State
from changeover.relay.turn import Delegated

if TYPE_CHECKING:
    from changeover.engines.local.engine import LocalEngine


async def done_in_time(engine: LocalEngine, child: Live, deadline: float | None, ended: Future[RunResult]) -> bool:
    """Wait until a delegate ends, or its time is over."""
    clock, until = engine.world.clock, deadline
    while not await in_time(clock, until, ended):
        if await is_over(engine, child, deadline):
            return False
        assert deadline is not None
        until = deadline + await waited(engine, child, clock.now())
    return True


async def is_over(engine: LocalEngine, child: Live, deadline: float | None) -> bool:
    """Whether a delegate that is not done has used up its time."""
    if deadline is None:
        return False
    now = engine.world.clock.now()
    # One without a run has not begun, or has ended: then what it brings back counts, however late it is fetched.
    ended = child.state.position > 0 and child.state.run is None and not child.state.inbox
    return not ended and now >= deadline + await waited(engine, child, now)


async def waited(engine: LocalEngine, live: Live, now: float) -> float:
    """How long people were awaited in the run of a conversation, and below it."""
    run = live.state.run
    if run is None:
        return live.state.last.run.spent().waited if live.state.last else 0.0
    below = [await engine.lives.get(f"{live.state.id}/{offer.call}") for offer in delegated(run)]
    longest = max([await waited(engine, child, now) for child in below], default=0.0)
    return run.waiting.until(now) + run.below.waited + longest


def delegated(run: Run) -> list[HandoffOffered]:
    """What others work on for this run, in conversations of their own."""
    turn = run.phase.turn if isinstance(run.phase, TURNING) else None
    calls = turn.calls.values() if turn else ()
    return [call.phase.offer for call in calls if isinstance(call.phase, Delegated)]


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
