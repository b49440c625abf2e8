"""Withdrawals: work under way that a caller cancels or rolls back; the caller waits until it has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from changeover.engines.local.conversation import Conversation, in_hook
from changeover.errors import ConversationNotFound
from changeover.facts import HandoffRecord
from changeover.handoffs.protocol import TRANSITIONS, Signal
from changeover.ids import below
from changeover.relay.inputs.control import Cancel, CancelRun, RollBack
from changeover.relay.state import State

if TYPE_CHECKING:
    from changeover.engines.local.dispatcher import Dispatcher

CLEAN_UP = 5.0
"""Seconds for which `cancel` waits while tools and models that were cancelled clean up."""


class Withdrawals:
    """Cancels and rolls back work for callers. A caller in a hook never waits for the end, which is reported only after
    the hook has returned."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher, self._conversations = dispatcher, dispatcher.conversations

    async def cancel(self, cancel: Cancel) -> bool:
        """End what an id names, and wait until it has ended; False if nothing was under way."""
        live = await self._conversations.get(cancel.conversation)
        async with live.lock:
            await self._conversations.refresh(live)
            target = cancel.target(live.state)
        if target is None:
            return False
        if isinstance(target, RollBack):
            await self.roll_back(target)
            return True
        try:
            ended = await self._cancel_run(target)
        except ConversationNotFound:
            raise ConversationNotFound(cancel.id) from None
        if ended and target.conversation != cancel.conversation:
            await self._until(live, cancel.is_over)  # the delegate has ended; its sender has to be told
        return ended

    async def roll_back(self, request: RollBack) -> HandoffRecord:
        """Roll a handoff back, and wait until its task has come back."""
        record = await self._dispatcher.put(request)
        while Signal.RETURN in TRANSITIONS[record.state] and not in_hook():
            live = await self._conversations.get(request.conversation)
            await self._until(live, request.is_over)
            record = request.record(live.state)
            if Signal.RETURN in TRANSITIONS[record.state]:  # it ended before it could be called back
                record = await self._dispatcher.put(request)
        return record

    async def _cancel_run(self, cancel: CancelRun) -> bool:
        live, ending = await self._conversations.get(cancel.conversation), None
        async with live.lock:
            run = await self._dispatcher.recorder.put(live, cancel)
            if run:
                ending = live.wait(run, self._dispatcher.loop.create_future(), patient=True)
        await self._dispatcher.settle(live)
        if ending is not None and not in_hook():
            await asyncio.wait([ending])
            await self._cleaned_up(live.state.id)
            if not ending.cancelled() and (error := ending.exception()) is not None:
                raise error
        return run is not None

    async def _cleaned_up(self, conversation: str) -> None:
        """Wait, at most CLEAN_UP seconds, until what was cancelled in a conversation and below it has cleaned up."""
        tree = [live for live in self._conversations if f"{live.state.id}/".startswith(below(conversation))]
        if leaving := [task for live in tree for task in live.leaving]:
            await asyncio.wait(leaving, timeout=CLEAN_UP)

    async def _until(self, live: Conversation, holds: Callable[[State], bool]) -> None:
        """Go on with a conversation until this condition holds for it, whichever process works on it."""
        if in_hook():
            return
        async with live.lock:
            future = live.expect(holds, self._dispatcher.loop.create_future())
            await self._conversations.refresh(live)
            await self._dispatcher.go_on(live)
        await self._dispatcher.notify(live)
        await future
