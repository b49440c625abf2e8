"""How this engine performs each kind of command, and how it asks the receiver of an offer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, assert_never

from changeover.agent.roster import ABSENT
from changeover.engines.clock import in_time
from changeover.engines.local.approvals import await_decision
from changeover.engines.local.children import cancel_child, run_child
from changeover.engines.local.conversation import Live
from changeover.engines.local.directory import capacity, room
from changeover.facts import Mode
from changeover.handoffs.answers import Rejected
from changeover.relay.commands import (
    AskReceiver,
    AwaitApproval,
    AwaitClaim,
    CallFunction,
    CallModel,
    CancelChild,
    CleanUp,
    Command,
    FetchContext,
    FindReceiver,
    JudgeResult,
    JudgeTask,
    PackContext,
    RunChild,
    RunTool,
    SeekApproval,
)
from changeover.relay.events import Event, HandoffAccepted, HandoffExpired
from changeover.relay.perform.calls import perform
from changeover.relay.perform.handoffs import Answered, answered, ask

if TYPE_CHECKING:
    from changeover.engines.local.engine import LocalEngine

UNCLAIMED = "nobody claimed it before the deadline"


async def ask_receiver(engine: LocalEngine, live: Live, command: AskReceiver) -> Answered | HandoffExpired:
    """What the receiver says to an offer, if it says it in time."""
    clock, deadline, who = engine.world.clock, command.deadline, command.offer.receiver
    if deadline is not None and clock.now() >= deadline:
        return HandoffExpired(command.offer.call, command.task, who, "it was not asked before the deadline")
    asking = asyncio.ensure_future(_ask(engine, live, command))
    try:
        if await in_time(clock, deadline, asking):
            return asking.result()
        return HandoffExpired(command.offer.call, command.task, who, "it did not answer in time")
    finally:
        asking.cancel()


async def expiry(engine: LocalEngine, command: AwaitClaim) -> HandoffExpired:
    """The end of an offer that nobody claimed before its deadline."""
    ticket = command.ticket
    assert ticket.deadline is not None
    await engine.world.clock.alarm(ticket.deadline)
    return HandoffExpired(command.id.removesuffix("^"), command.task, ticket.agent, UNCLAIMED)


async def _ask(engine: LocalEngine, live: Live, command: AskReceiver) -> Answered:
    answer = await ask(engine.world, command)
    if command.offer.receiver in engine.world.roster.absent:
        return answered(command, Rejected(ABSENT))
    if isinstance(answer, HandoffAccepted):
        receiver, place = command.offer.receiver, _place(live, command)
        most = capacity(engine, receiver)
        if most is not None and not await room(engine, receiver, place):
            return answered(command, Rejected(f"it works on {most} tasks, which is all it can do at once"))
        if most is not None:
            live.promised[command.id] = (receiver, place)  # from now on, until the log has it
    return answer


def _place(live: Live, command: AskReceiver) -> str:
    """The conversation in which the receiver would work."""
    offer = command.offer
    return f"{live.state.id}/{offer.call}" if offer.mode is Mode.DELEGATE else live.state.id


EFFECTS = (
    *(CallModel, CallFunction, RunTool, SeekApproval, FindReceiver, JudgeTask, JudgeResult, PackContext, FetchContext),
    CleanUp,
)
"""What is performed the same by every engine; the rest is this one's own."""


def performed(engine: LocalEngine, live: Live, command: Command) -> Awaitable[Event]:
    """The outcome of a command."""
    if isinstance(command, EFFECTS):
        intend = partial(engine.intend, live, command.id)
        return perform(engine.world, command, intend, live.emit if live.readers else None)
    match command:
        case RunChild():
            return run_child(engine, live, command)
        case CancelChild():
            return cancel_child(engine, live, command)
        case AwaitApproval():
            return await_decision(engine, live, command)
        case AskReceiver():
            return ask_receiver(engine, live, command)
        case AwaitClaim():
            return expiry(engine, command)
        case _:
            assert_never(command)
