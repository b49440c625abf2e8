"""Receivers are asked: whether they have room, then what they say themselves, and all that in time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from changeover.agent.roster import Seat
from changeover.engines.live import Live
from changeover.engines.timing import in_time
from changeover.facts import Mode
from changeover.handoffs.answers import Rejected
from changeover.relay.answering import Answered, answered, ask
from changeover.relay.commands import AskReceiver, RunChild
from changeover.relay.events import HandoffAccepted, HandoffExpired

if TYPE_CHECKING:
    from changeover.engines.local import LocalEngine


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


async def _ask(engine: LocalEngine, live: Live, command: AskReceiver) -> Answered:
    answer = await ask(engine.world, command)
    if isinstance(answer, HandoffAccepted):
        seat = engine.world.roster.seats.get(command.offer.receiver)
        most = seat.agent.max_concurrency if isinstance(seat, Seat) else None
        if most is not None and not await _has_room(engine, live, command, most):
            return answered(command, Rejected(f"it works on {most} tasks, which is all it can do at once"))
    return answer


async def _has_room(engine: LocalEngine, live: Live, command: AskReceiver, most: int) -> bool:
    """Whether the receiver can take one more. If so, it is promised from now on, until the log has it."""
    receiver, here = command.offer.receiver, _place(live, command)
    at_work = {*await engine.log.at_work(receiver), *_promised(engine, receiver)} - {here}
    if len(at_work) >= most:
        return False
    live.promised.add(command.id)
    return True


def _promised(engine: LocalEngine, receiver: str) -> list[str]:
    """Where the receiver is about to begin."""
    flying = [(live, command) for live in engine.lives for _, command in live.flight.values()]
    begun = [each.child for _, each in flying if isinstance(each, RunChild) and each.receiver == receiver]
    asked = [(live, each) for live, each in flying if isinstance(each, AskReceiver) and each.id in live.promised]
    return begun + [_place(live, each) for live, each in asked if each.offer.receiver == receiver]


def _place(live: Live, command: AskReceiver) -> str:
    """The conversation in which the receiver would work."""
    offer = command.offer
    return f"{live.state.id}/{offer.call}" if offer.mode is Mode.DELEGATE else live.state.id
