"""Approvals: waits for the decision of the program's `ask`, of a person, or of the expiry of the request."""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import TYPE_CHECKING, Any

from changeover.engines.local.conversation import Conversation
from changeover.facts import ApprovalRequest
from changeover.guards.approval import Approve, Decision, Reject
from changeover.relay.commands import AwaitApproval
from changeover.relay.events import ApprovalDecided
from changeover.relay.perform.approvals import misfit
from changeover.relay.perform.callbacks import TROUBLE, let_go
from changeover.relay.ports import World

if TYPE_CHECKING:
    from changeover.engines.local.dispatcher import Dispatcher

logger = logging.getLogger("changeover.approvals")


class Approvals:
    """Waits for decisions."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    async def decision(self, live: Conversation, command: AwaitApproval) -> ApprovalDecided:
        """The decision of the program, if it makes one; else the expiry. What a person decides is an input, which
        cancels this wait."""
        world = self._dispatcher.directory.world
        expiry = asyncio.ensure_future(_expiry(world, command.request))
        try:
            if world.ask is not None and (decided := await _first_of(expiry, asked(world, command.request))):
                return decided
            live.declined.add(command.id)
            await self._dispatcher.notify(live)
            return await expiry
        finally:
            live.declined.discard(command.id)
            expiry.cancel()


async def _first_of(expiry: asyncio.Future[ApprovalDecided], ask: Any) -> ApprovalDecided | None:
    """The program's decision, or the expiry if that comes first."""
    asking: asyncio.Future[ApprovalDecided | None] = asyncio.ensure_future(ask)
    try:
        both: list[asyncio.Future[Any]] = [expiry, asking]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        return asking.result() if asking.done() else expiry.result()
    finally:
        asking.cancel()


async def asked(world: World, request: ApprovalRequest) -> ApprovalDecided | None:
    """The decision of the program's `ask`; None if it leaves the request to a person, or fails."""
    assert world.ask is not None
    try:
        answer = world.ask(request)
        decision = await answer if inspect.isawaitable(answer) else answer
        if decision is None:
            return None
        if isinstance(decision, Decision) and not misfit(world, request, decision):
            return ApprovalDecided(request.call, request.digest, decision, "ask")
        logger.error("ask=… gave %r about %s, which cannot hold; a person is awaited", decision, request.id)
    except TROUBLE as error:
        let_go(error)
        logger.exception("ask=… failed on %s; a person is awaited", request.id)
    return None


async def _expiry(world: World, request: ApprovalRequest) -> ApprovalDecided:
    if request.expires_at is None:
        await asyncio.Event().wait()  # for ever
        raise AssertionError("nothing sets it")
    await world.clock.sleep_until(request.expires_at)
    decision = Approve() if request.on_expiry == "approve" else Reject("nobody decided in time")
    return ApprovalDecided(request.call, request.digest, decision, expired=True)
