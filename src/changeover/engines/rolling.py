"""Rolling a handoff back, by its id."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from changeover.engines.local.commit import put, readable
from changeover.errors import HandoffNotFound
from changeover.facts import HandoffRecord
from changeover.handoffs.protocol import Signal, advance
from changeover.relay.events import RollbackRequested
from changeover.relay.fold.rollback import under_way
from changeover.relay.result import handoffs_of
from changeover.relay.run import Stopping

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
