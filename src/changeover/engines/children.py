"""Delegates: conversations that serve another one, opened, awaited and called back by it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from changeover.engines.inputs import call_off, say
from changeover.engines.live import Live
from changeover.engines.timing import in_time
from changeover.errors import ChangeoverError, EngineError
from changeover.facts import RunResult
from changeover.relay.commands import CancelChild, RunChild
from changeover.relay.events import CancelRequested, HandoffExpired, HandoffReturned
from changeover.relay.returned import returned_of
from changeover.relay.run import TURNING, Run
from changeover.relay.turn import Delegated

if TYPE_CHECKING:
    from asyncio import Future

    from changeover.engines.local import LocalEngine


async def run_child(engine: LocalEngine, parent: Live, command: RunChild) -> HandoffReturned | HandoffExpired:
    """Open the delegate's conversation, or find it where it was left, and wait for its end."""
    child = await _child(engine, parent, command.child)
    if _over(engine, child, command.deadline):  # while nobody worked on it
        return await _expire(engine, parent, command)
    async with child.lock:
        run = await say(engine, child, command.spoken, "given", command.opening)
        ended = child.wait(run, engine.loop.create_future(), patient=True)
    if not await _in_time(engine, child, command.deadline, ended):
        child.stop_waiting(run, ended)
        return await _expire(engine, parent, command)
    return await _returned(engine, child, command, run, ended)


async def _in_time(engine: LocalEngine, child: Live, deadline: float | None, ended: Future[RunResult]) -> bool:
    """Wait until the delegate ends, or its time is over; while a person is awaited, time stands still."""
    await engine.tell(child)
    now, until = engine.world.clock.now, deadline
    while not await in_time(engine.world.clock, until, ended):
        if _over(engine, child, deadline):
            return False
        assert deadline is not None
        until = deadline + waited(engine, child, now())
    return True


def _over(engine: LocalEngine, child: Live, deadline: float | None) -> bool:
    """Whether a delegate that is not done has used up its time."""
    now = engine.world.clock.now()
    # One without a run has not begun, or has ended: then what it brings back counts, however late it is fetched.
    ended = child.state.position > 0 and child.state.run is None and not child.state.inbox
    return deadline is not None and not ended and now >= deadline + waited(engine, child, now)


def waited(engine: LocalEngine, live: Live, now: float) -> float:
    """How long people were awaited in the run of a conversation, or below it."""
    run = live.state.run
    if run is None:
        return 0.0
    below = [engine.lives.here(f"{live.state.id}/{call}") for call in _delegated(run)]
    longest = max((waited(engine, child, now) for child in below if child), default=0.0)
    return run.waiting.until(now) + run.below.waited + longest


def _delegated(run: Run) -> list[str]:
    turn = run.phase.turn if isinstance(run.phase, TURNING) else None
    calls = turn.calls.values() if turn else ()
    return [call.phase.offer.call for call in calls if isinstance(call.phase, Delegated)]


async def _expire(engine: LocalEngine, parent: Live, command: RunChild) -> HandoffReturned | HandoffExpired:
    """Call a delegate back whose time is over. What it had finished by then counts."""
    returned = await cancel_child(engine, parent, command, by="its deadline")
    if not returned.cancelled:
        return returned
    return HandoffExpired(command.id, command.task, command.receiver, "it was not done in time", returned.spent)


async def cancel_child(
    engine: LocalEngine, parent: Live, command: CancelChild | RunChild, by: str = "its sender"
) -> HandoffReturned:
    """Call the delegate back; one that was never opened is opened as cancelled, so that nobody opens it later."""
    child = await _child(engine, parent, command.child)
    async with child.lock:
        await call_off(engine, child, CancelRequested(by=by), command.opening)
        runs = [child.state.run.id] if child.state.run else list(child.state.outcomes)
        ended = child.wait(runs[0], engine.loop.create_future(), patient=True) if runs else None
    if ended is not None:
        return await _returned(engine, child, command, runs[0], ended)
    await engine.tell(child)
    who = (command.id.removesuffix("~"), command.task, command.receiver)
    reason = command.reason if isinstance(command, CancelChild) else "cancelled"
    return HandoffReturned(*who, success=False, error=reason, cancelled=True)


async def _child(engine: LocalEngine, parent: Live, conversation: str) -> Live:
    child = await engine.lives.get(conversation)
    child.readers = parent.readers  # the very list: who reads a conversation reads all below it
    return child


async def _returned(
    engine: LocalEngine, child: Live, command: RunChild | CancelChild, run: int, ended: Future[RunResult]
) -> HandoffReturned:
    await engine.tell(child)
    try:
        await ended
    except EngineError:
        raise
    except ChangeoverError:
        pass  # how it failed stands in its outcome
    finally:
        child.stop_waiting(run, ended)
    return returned_of(command, child.state.outcomes[run], child.state.record)
