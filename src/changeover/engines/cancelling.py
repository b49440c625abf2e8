"""Cancelling what is under way: a conversation, a run, a handoff."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec.structs import replace

from changeover.engines.inputs import call_off
from changeover.errors import ConversationNotFound
from changeover.facts import Mode, RunResult
from changeover.facts import State as Standing
from changeover.relay.events import CancelRequested

if TYPE_CHECKING:
    from changeover.engines.local import LocalEngine

Ending = asyncio.Future[RunResult] | None
"""The end of what was cancelled; None if nothing was under way."""


async def cancel(engine: LocalEngine, conversation: str, request: CancelRequested) -> Ending:
    """End a run, or all that were asked for, and what works for them."""
    live = await engine.lives.get(conversation)
    async with live.lock:
        await engine.lives.refresh(live)
        state = live.state
        run = request.run or (state.run.id if state.run else state.inbox[0][0] if state.inbox else 0)
        if not await call_off(engine, live, request):
            return None
        ending = live.wait(run, engine.loop.create_future(), patient=True)
    await engine.tell(live)
    if state.root != state.id:
        await engine.take_up(state.root)
    return ending


async def cancel_handoff(engine: LocalEngine, id: str, request: CancelRequested) -> Ending:
    """Call a delegate back; of a transfer, end the run that works under it."""
    conversation, _, call = id.partition(":")
    live = await engine.lives.get(conversation)
    async with live.lock:
        await engine.lives.refresh(live)
        record = next((each for each in live.state.handoffs if each.id == id), None)
    if record is None:
        raise ConversationNotFound(id)
    if record.mode is Mode.DELEGATE:
        return await cancel(engine, f"{conversation}/{call}", request)
    if record.state is not Standing.WORKING:
        return None
    return await cancel(engine, conversation, replace(request, run=int(record.run_id.rpartition("@")[2])))
