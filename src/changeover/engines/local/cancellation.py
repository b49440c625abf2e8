"""Cancellation of conversations, runs, handoffs and tickets, and rollback of handoffs."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from changeover.engines.local.commit import call_off, put, readable
from changeover.engines.local.conversation import in_hook
from changeover.engines.local.deadlines import delegated
from changeover.errors import ConversationNotFound, EngineError, HandoffNotFound
from changeover.facts import HandoffRecord, Mode, RunResult
from changeover.facts import State as Standing
from changeover.handoffs.protocol import Signal, advance
from changeover.relay.events import CancelRequested, RollbackRequested, Started
from changeover.relay.fold.rollback import under_way
from changeover.relay.result import handoffs_of
from changeover.relay.run import Stopping
from changeover.relay.state import State

if TYPE_CHECKING:
    from changeover.engines.local.conversation import Live
    from changeover.engines.local.engine import LocalEngine


async def roll_back(engine: LocalEngine, id: str, reason: str, by: str) -> HandoffRecord:
    """Record that a handoff is to be undone, and go on from there; raises IllegalTransition if it cannot be."""
    conversation, _, call = id.rpartition(":")
    live = await engine.lives.get(conversation)
    record = None
    while record is None:
        record = await _request(engine, live, id, RollbackRequested(call, reason, by))
        if record is None:
            await asyncio.sleep(engine.patience / 10)
    await engine.tell(live)
    if live.state.root != live.state.id:
        await engine.take_up(live.state.root)
    return record


async def _request(engine: LocalEngine, live: Live, id: str, wanted: RollbackRequested) -> HandoffRecord | None:
    """The record of what is being undone; None if something else ends first, after which it is to be asked again."""
    async with live.lock:
        await engine.lives.refresh(live)
        while True:
            await readable(engine, live)
            advance(_record(live, id).state, Signal.RETURN)
            if under_way(live.state, wanted.call):
                await engine.go_on(live)  # somebody wanted it before: perhaps nobody here has heard it yet
                break
            if live.state.run is not None and isinstance(live.state.run.phase, Stopping):
                await engine.go_on(live)
                return None  # delegates are being called back, and who is asked meanwhile does not hear it
            if await put(engine, live, f"{wanted.call}<@{live.state.position}", [wanted]):
                break
        return _record(live, id)


def _record(live: Live, id: str) -> HandoffRecord:
    record = next((each for each in reversed(handoffs_of(live.state)) if each.id == id), None)
    if record is None:
        raise HandoffNotFound(id)
    return record


RUN = re.compile(r"[1-9][0-9]{0,17}")
"""What stands behind the @ in the id of a run."""
Ending = asyncio.Future[RunResult] | None
"""The end of what was cancelled; None if nothing was under way."""


async def end(engine: LocalEngine, id: str, by: str, reason: str) -> bool:
    """End what this id names, and wait until it has ended; False if nothing was under way."""
    request = CancelRequested(by=by, reason=reason)
    conversation, _, run = id.partition("@")
    try:
        if ":" in id:
            return await _end_handoff(engine, id, request)
        if "@" in id and not RUN.fullmatch(run):
            raise ConversationNotFound(id)  # a run that there cannot be, and not the whole conversation
        ending = await cancel(engine, conversation, replace(request, run=int(run or 0)))
    except ConversationNotFound:
        raise ConversationNotFound(id) from None
    return await _ended(ending)


async def _ended(ending: Ending) -> bool:
    # A hook is not kept waiting: nobody hears of the end before it has returned.
    if ending is not None and not in_hook():
        await asyncio.wait([ending])
        # One that failed before it could be cancelled has ended too.
        if not ending.cancelled() and isinstance(error := ending.exception(), EngineError):
            raise error
    return ending is not None


async def cancel(
    engine: LocalEngine, conversation: str, request: CancelRequested, opening: Started | None = None
) -> Ending:
    """End a run, or all that were asked for, and what works for them. With an `opening`, a delegate that was taken and
    has not begun is opened by this: when its sender comes to do so, it is over."""
    live = await engine.lives.get(conversation)
    async with live.lock:
        await engine.lives.refresh(live)
        state = live.state
        run = request.run or (state.run.id if state.run else state.inbox[0][0] if state.inbox else 0)
        if not await call_off(engine, live, request, opening):
            return None
        ending = live.wait(run, engine.loop.create_future(), patient=True)
    if not run:
        ending.cancel()  # nothing has begun, of whose end anybody could tell
    await engine.tell(live)
    if live.state.root != live.state.id:
        await engine.take_up(live.state.root)
    return ending


async def _end_handoff(engine: LocalEngine, id: str, request: CancelRequested) -> bool:
    """Call a delegate back; of a transfer, end the run that works under it. What nobody has taken yet goes back to its
    sender; where that is code, or a user who spoke to an agent that is served by claims, the run ends."""
    conversation, _, call = id.partition(":")
    live = await engine.lives.get(conversation)
    async with live.lock:
        await engine.lives.refresh(live)
        state = live.state
        record = next((each for each in reversed(handoffs_of(state)) if each.id == id), None)
    if record is None:
        return await _ended(await _cancel_message(engine, state, id, request))
    if record.state not in (Standing.PENDING, Standing.ACCEPTED, Standing.WORKING):
        return False
    run = replace(request, run=int(record.run_id.rpartition("@")[2]))
    taken = record in state.handoffs
    if taken and state.run and any(offer.call == call for offer in delegated(state.run)):
        opening = Started(state.root, state.id, state.depth + 1)
        return await _ended(await cancel(engine, f"{conversation}/{call}", request, opening))
    # Of a person who has answered, the answer may still have to be judged.
    if (not taken or record.mode is Mode.DELEGATE) and not (state.run and state.run.spoken.package):
        await roll_back(engine, id, request.reason or "cancelled", request.by)
        return True
    return await _ended(await cancel(engine, conversation, run))


async def _cancel_message(engine: LocalEngine, state: State, id: str, request: CancelRequested) -> Ending:
    """End what a user wants of an agent that is served by claims."""
    if state.run is None or state.run.ticket != id:
        if any(outcome.run.ticket == id for outcome in state.outcomes.values()):
            return None
        raise ConversationNotFound(id)
    return await cancel(engine, state.id, replace(request, run=state.run.id))
