"""Delegates: conversations that serve another one, opened, awaited and called back by it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from changeover.engines.inputs import call_off, say
from changeover.engines.live import Live
from changeover.errors import ChangeoverError, EngineError
from changeover.facts import RunResult
from changeover.relay.commands import CancelChild, RunChild
from changeover.relay.events import CancelRequested, HandoffReturned
from changeover.relay.returned import returned_of

if TYPE_CHECKING:
    from asyncio import Future

    from changeover.engines.local import LocalEngine


async def run_child(engine: LocalEngine, parent: Live, command: RunChild) -> HandoffReturned:
    """Open the delegate's conversation, or find it where it was left, and wait for its end."""
    child = await _child(engine, parent, command.child)
    async with child.lock:
        run = await say(engine, child, command.spoken, "given", command.opening)
        ended = child.wait(run, engine.loop.create_future(), patient=True)
    return await _returned(engine, child, command, run, ended)


async def cancel_child(engine: LocalEngine, parent: Live, command: CancelChild) -> HandoffReturned:
    """Call the delegate back; one that was never opened is opened as cancelled, so that nobody opens it later."""
    child = await _child(engine, parent, command.child)
    async with child.lock:
        await call_off(engine, child, CancelRequested(by="its sender"), command.opening)
        runs = [child.state.run.id] if child.state.run else list(child.state.outcomes)
        ended = child.wait(runs[0], engine.loop.create_future(), patient=True) if runs else None
    if ended is not None:
        return await _returned(engine, child, command, runs[0], ended)
    await engine.tell(child)
    who = (command.call, command.task, command.receiver)
    return HandoffReturned(*who, success=False, error="cancelled", cancelled=True)


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
    return returned_of(command, child.state.outcomes[run])
