"""Receivers are asked: whether they have room, then what they say themselves, and all that in time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from changeover.agent.roster import ABSENT
from changeover.engines.capacity import capacity, room
from changeover.engines.local.conversation import Live
from changeover.engines.timing import in_time
from changeover.facts import Mode
from changeover.handoffs.answers import Rejected
from changeover.relay.commands import AskReceiver, AwaitClaim
from changeover.relay.events import HandoffAccepted, HandoffExpired
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
