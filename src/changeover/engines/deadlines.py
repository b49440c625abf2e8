"""How long a delegate may take: until its deadline, and as much longer as people were awaited meanwhile."""

from __future__ import annotations

from asyncio import Future
from typing import TYPE_CHECKING

from changeover.engines.local.conversation import Live
from changeover.engines.timing import in_time
from changeover.facts import RunResult
from changeover.relay.events import HandoffOffered
from changeover.relay.run import TURNING, Run
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
