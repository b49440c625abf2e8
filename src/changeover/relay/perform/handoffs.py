"""The receiver's answer as an effect: its `accepts` is called with the package that is offered."""

from __future__ import annotations

import logging
from typing import assert_never

from changeover.agent.roster import Seat
from changeover.facts import Mode
from changeover.handoffs.answers import Accepted, Answer, Conditional, Rejected, answer_of
from changeover.relay.commands import AskReceiver
from changeover.relay.events import HandoffAccepted, HandoffConditional, HandoffRejected
from changeover.relay.package import package_of
from changeover.relay.perform.callbacks import called
from changeover.relay.performing.mishaps import TROUBLE, let_go, words_of
from changeover.relay.sanitize import event_of
from changeover.relay.world import World

logger = logging.getLogger("changeover.handoffs")

Answered = HandoffAccepted | HandoffRejected | HandoffConditional


async def ask(world: World, command: AskReceiver) -> Answered:
    """What the receiver says to the offer. One that cannot say it does not take the task."""
    seat = world.roster.seats.get(command.offer.receiver)
    accepts = seat.agent.accepts if isinstance(seat, Seat) else None
    if accepts is None:
        return answered(command, Accepted())
    try:
        return answered(command, answer_of(await called(accepts, package_of(command))))
    except TROUBLE as error:
        let_go(error)
        logger.exception("%s could not answer the offer %s", command.offer.receiver, command.id)
        return answered(command, Rejected(f"it could not answer: {words_of(error)}"))


def answered(command: AskReceiver, answer: Answer) -> Answered:
    """The answer as an event."""
    offer, who = command.offer, (command.offer.call, command.task, command.offer.receiver)
    match answer:
        case Accepted(estimated_completion=estimate):
            deadline = command.deadline if offer.mode is Mode.DELEGATE else None
            return HandoffAccepted(*who, offer.mode, deadline=deadline, estimate=estimate)
        case Rejected(reason=reason, suggested_alternative=suggested):
            return event_of(HandoffRejected(*who, reason, suggested or ""))
        case Conditional(needs_more_context=context, needs_permission=permission):
            return event_of(HandoffConditional(*who, context, permission, offer.brokered))
        case _:
            assert_never(answer)
