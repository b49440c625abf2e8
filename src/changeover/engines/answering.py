"""Receivers are asked: whether they have room, then what they say themselves, and all that in time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING

from changeover.agent.roster import Seat
from changeover.engines.deadlines import delegated
from changeover.engines.live import Live
from changeover.engines.timing import in_time
from changeover.facts import Mode
from changeover.handoffs.answers import Rejected
from changeover.relay.answering import Answered, answered, ask
from changeover.relay.commands import AskReceiver, AwaitClaim
from changeover.relay.events import HandoffAccepted, HandoffExpired

if TYPE_CHECKING:
    from changeover.engines.local import LocalEngine


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
    live.promised[command.id] = (receiver, here)
    return True


async def room(engine: LocalEngine, agent: str) -> float:
    """How many more tasks an agent can take now."""
    seat = engine.world.roster.seats.get(agent)
    most = seat.agent.max_concurrency if isinstance(seat, Seat) else None
    if most is None:
        return inf
    return max(0, most - len({*await engine.log.at_work(agent), *_promised(engine, agent)}))


def _promised(engine: LocalEngine, receiver: str) -> set[str]:
    """Where the receiver works or is about to, as far as this process knows: the log may not have it yet."""
    places = {place for live in engine.lives for place in _working(engine, live, receiver)}
    for live in engine.lives:
        places.update(place for who, place in live.promised.values() if who == receiver)
    return places


def _working(engine: LocalEngine, live: Live, receiver: str) -> Iterator[str]:
    """The conversations in which the receiver works, of this one and those that it has just delegated to."""
    run = live.state.run
    if run is None or live.asleep:
        return
    if live.state.agent == receiver:
        yield live.state.id
    for offer in delegated(run):
        child = engine.lives.here(f"{live.state.id}/{offer.call}")
        if offer.receiver == receiver and (child is None or not child.state.position):
            yield f"{live.state.id}/{offer.call}"


def _place(live: Live, command: AskReceiver) -> str:
    """The conversation in which the receiver would work."""
    offer = command.offer
    return f"{live.state.id}/{offer.call}" if offer.mode is Mode.DELEGATE else live.state.id
