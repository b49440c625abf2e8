"""Delegates' conversations: opened, awaited and called back by the conversation of their sender."""

from __future__ import annotations

from typing import TYPE_CHECKING

from changeover.engines.local.commit import call_off, say
from changeover.engines.local.conversation import Live
from changeover.engines.local.deadlines import done_in_time, is_over
from changeover.errors import ChangeoverError, EngineError
from changeover.facts import RunResult
from changeover.relay.commands import CancelChild, RunChild
from changeover.relay.events import CancelRequested, HandoffExpired, HandoffReturned
from changeover.relay.result import returned_of
from changeover.relay.run import Outcome

if TYPE_CHECKING:
    from asyncio import Future

    from changeover.engines.local.engine import LocalEngine


async def run_child(engine: LocalEngine, parent: Live, command: RunChild) -> HandoffReturned | HandoffExpired:
    """Open the delegate's conversation, or find it where it was left, and wait for its end."""
    child, deadline = await _child(engine, parent, command.child), command.deadline
    if await is_over(engine, child, deadline):  # while nobody worked on it
        return await _expire(engine, parent, command)
    async with child.lock:
        run = await say(engine, child, command.spoken, "given", command.opening)
        ended = child.wait(run, engine.loop.create_future(), patient=True)
    try:
        await engine.tell(child)
        if await done_in_time(engine, child, deadline, ended):
            returned = await _returned(engine, child, command, run, ended)
            return _late(command, child.state.outcomes[run], returned)
    finally:
        child.stop_waiting(run, ended)
    return await _expire(engine, parent, command)


def _late(command: RunChild, outcome: Outcome, returned: HandoffReturned) -> HandoffReturned | HandoffExpired:
    """What a delegate brings back; one that was called back by its deadline in an earlier life was too late."""
    over = command.deadline is not None and outcome.at >= command.deadline + returned.spent.waited
    return _expired(command, returned) if returned.cancelled and over else returned


async def _expire(engine: LocalEngine, parent: Live, command: RunChild) -> HandoffReturned | HandoffExpired:
    """Call a delegate back whose time is over. What it had finished by then counts."""
    returned = await cancel_child(engine, parent, command, by="its deadline")
    return _expired(command, returned) if returned.cancelled else returned


def _expired(command: RunChild, returned: HandoffReturned) -> HandoffExpired:
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
