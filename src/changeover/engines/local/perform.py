"""Performer: carries out commands, those that every engine performs alike and those that are this engine's own."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never

from changeover.agent.roster import ABSENT
from changeover.engines.clock import done_by
from changeover.engines.local.conversation import Conversation
from changeover.facts import ApprovalRequest, Mode
from changeover.guards.approval import Approve, Decision, Reject
from changeover.handoffs.answers import Rejected
from changeover.ids import child_id, offer_of
from changeover.relay.commands import (
    AskReceiver,
    AwaitApproval,
    AwaitClaim,
    CallBack,
    CallFunction,
    CallModel,
    CancelChild,
    Command,
    Effect,
    FetchContext,
    FindReceiver,
    JudgeResult,
    JudgeTask,
    PackContext,
    RunChild,
    RunTool,
    SeekApproval,
)
from changeover.relay.events import ENGINE, ApprovalDecided, Event, HandoffAccepted, HandoffExpired
from changeover.relay.perform.approvals import misfit
from changeover.relay.perform.callbacks import TROUBLE, let_go
from changeover.relay.perform.calls import perform
from changeover.relay.perform.handoffs import Answered, answered, ask
from changeover.relay.ports.world import World

if TYPE_CHECKING:
    from changeover.engines.local.dispatcher import Dispatcher

logger = logging.getLogger("changeover.approvals")

UNCLAIMED = "no worker claimed it before the deadline"

EFFECTS = (
    *(CallModel, CallFunction, RunTool, SeekApproval, FindReceiver, JudgeTask, JudgeResult, PackContext, FetchContext),
    CallBack,
)
"""Commands that every engine performs alike."""


class Performer:
    """Performs commands of conversations."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher, self._directory = dispatcher, dispatcher.directory
        self._deltas = dispatcher.log.deltas

    def perform(self, live: Conversation, command: Command) -> Awaitable[Event]:
        """The outcome of a command."""
        if isinstance(command, EFFECTS):
            world = self._directory.known_world(live.state)
            return self._effect_after_look(live, command) if world is None else self._effect(live, command, world)
        match command:
            case RunChild():
                return self._dispatcher.children.run(live, command)
            case CancelChild():
                return self._dispatcher.children.cancel(live, command)
            case AwaitApproval():
                return self._decision(live, command)
            case AskReceiver():
                return self.answer(live, command)
            case AwaitClaim():
                return self._expiry(command)
            case _:
                assert_never(command)

    def _effect(self, live: Conversation, command: Effect, world: World) -> Awaitable[Event]:
        intend, root = partial(self._dispatcher.intend, live, command.id), live.state.root
        if live.overrides and (override := live.override) is not None:
            world = override.applied_to(world)
        wanted = isinstance(command, CallModel) and self._deltas.wanted(root)
        return perform(world, command, intend, partial(self._deltas.send, root) if wanted else None)

    async def _effect_after_look(self, live: Conversation, command: Effect) -> Event:
        """Perform an effect after a look at the store and the servers: tools may have changed since the decision."""
        await self._directory.world_for(live.state, ())
        return await self._effect(live, command, self._directory.world_of(live.state))

    async def _decision(self, live: Conversation, command: AwaitApproval) -> ApprovalDecided:
        """The decision of the program, if it makes one; else the expiry. What a person decides is an input, which
        cancels this wait."""
        world = self._directory.world
        expiry = asyncio.ensure_future(_expiry(world, command.request))
        try:
            if world.ask is not None and (decided := await _first_of(expiry, asked(world, command.request))):
                return decided
            live.declined |= {command.id}
            await self._dispatcher.notify(live)
            return await expiry
        finally:
            live.declined -= {command.id}
            expiry.cancel()

    async def answer(self, live: Conversation, command: AskReceiver) -> Answered | HandoffExpired:
        """The receiver's answer to an offer, or an expiry if it comes too late."""
        clock, deadline = self._directory.world.clock, command.deadline
        who = (command.offer.call, command.task, command.offer.receiver)
        if deadline is not None and clock.now() >= deadline:
            return HandoffExpired(*who, "it was not asked before the deadline", by=ENGINE)
        asking = asyncio.ensure_future(self._ask(live, command))
        try:
            if await done_by(clock, deadline, asking):
                return asking.result()
            return HandoffExpired(*who, "it did not answer in time", by=ENGINE)
        finally:
            asking.cancel()

    async def _ask(self, live: Conversation, command: AskReceiver) -> Answered:
        answer, receiver = await ask(self._directory.world_of(live.state), command), command.offer.receiver
        world = self._directory.world_of(live.state)  # again: the answer may have taken long
        if receiver in world.roster.absent:
            return answered(command, Rejected(ABSENT), ENGINE)
        most = self._directory.capacity(receiver, world)
        if most is not None and isinstance(answer, HandoffAccepted):
            delegate = command.offer.mode is Mode.DELEGATE
            place = child_id(live.state.id, command.offer.call) if delegate else live.state.id
            if not await self._directory.room(receiver, place):
                return answered(command, Rejected(f"it works on {most} tasks, which is all it can do at once"))
            live.promised[command.id] = (receiver, place)  # until the log has it
        return answer

    async def _expiry(self, command: AwaitClaim) -> HandoffExpired:
        """The expiry of an offer that no worker claimed before its deadline."""
        ticket = command.ticket
        assert ticket.deadline is not None
        await self._directory.world.clock.alarm(ticket.deadline)
        return HandoffExpired(offer_of(command.id), command.task, ticket.agent, UNCLAIMED, by=ENGINE)


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
