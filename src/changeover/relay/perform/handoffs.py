"""The effects of a handoff: ask the receiver, judge its result, call the functions of its declaration."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any, assert_never

from changeover.agent.moves import DECLARED
from changeover.agent.roster import Roster, Seat
from changeover.facts import Mode
from changeover.handoffs.answers import Accepted, Answer, Conditional, Rejected, answer_of
from changeover.relay.commands import AskReceiver, CallBack, JudgeResult
from changeover.relay.events import (
    Event,
    HandoffAccepted,
    HandoffConditional,
    HandoffRejected,
    ResultJudged,
)
from changeover.relay.package import package_of
from changeover.relay.perform.callbacks import TROUBLE, called, in_thread, let_go, words_of
from changeover.relay.ports.world import World
from changeover.relay.sanitize import event_of, text_of

logger = logging.getLogger("changeover.handoffs")

Answered = HandoffAccepted | HandoffRejected | HandoffConditional


async def ask(world: World, command: AskReceiver) -> Answered:
    """The receiver's answer to an offer; a receiver whose function fails rejects it."""
    seat = world.roster.seats.get(command.offer.receiver)
    accepts = seat.agent.accepts if isinstance(seat, Seat) else None
    if accepts is None:
        return answered(command, Accepted())
    try:
        return answered(command, answer_of(await called(accepts, package_of(command))), own=True)
    except TROUBLE as error:
        let_go(error)
        logger.exception("%s could not answer the offer %s", command.offer.receiver, command.id)
        return answered(command, Rejected(f"it could not answer: {words_of(error)}"))


def answered(command: AskReceiver, answer: Answer, by: str = "", own: bool = False) -> Answered:
    """The answer as an event. `by` names who gave it, by default the receiver; `own` is true if the receiver itself
    answered, and false if its load or absence did."""
    offer, who = command.offer, (command.offer.call, command.task, command.offer.receiver)
    by = by or offer.receiver
    match answer:
        case Accepted(estimated_completion=estimate):
            deadline = command.deadline if offer.mode is Mode.DELEGATE else None
            return HandoffAccepted(*who, offer.mode, by, deadline, estimate)
        case Rejected(reason=reason, suggested_alternative=suggested):
            return event_of(HandoffRejected(*who, reason, suggested or "", by, own=own))
        case Conditional(needs_more_context=context, needs_permission=permission):
            return event_of(HandoffConditional(*who, context, permission, offer.brokered, by=by))
        case _:
            assert_never(answer)


async def judge_result(world: World, command: JudgeResult) -> ResultJudged:
    """Check an answer against its expectations."""
    from changeover.handoffs.expectations import complaint, expected, judged_later, value_of

    expects = _expects(world.roster, command)
    try:
        problem: str = await in_thread(partial(expected(expects).misfit, command.text))
        for judge in () if problem else judged_later(expects):
            problem = problem or complaint(judge, await judge(value_of(expects, command.text)))
    except TROUBLE as error:  # the user's code: a result on which it fails is not accepted
        let_go(error)
        problem = f"it could not be judged: {words_of(error)}"
    return ResultJudged(command.task, text_of(problem), command.call)


def _expects(roster: Roster, command: JudgeResult) -> Any:
    """The declared expectations with their functions; those of the event if the declaration is gone."""
    move = roster.move_of(command.expected.sender, command.expected.tool)
    if isinstance(move, DECLARED) and move.declared.expects is not None:
        return move.declared.expects
    from changeover.handoffs.package import Expectations

    return Expectations(output_schema=command.expected.schema, success_criteria=command.expected.criteria)


LONGEST = 300.0
"""Longest pause in seconds before a retry."""


async def call_back(world: World, command: CallBack) -> Event:
    """Call a function of a handoff's declaration; a retry has the same idempotency key."""
    function = world.roster.callback(command.about)
    if function is None:
        return command.done()
    try:
        await called(function, command.about)
    except TROUBLE as error:
        let_go(error)
        logger.exception("a function of the handoff %s failed and is tried again", command.about.handoff.id)
        wait = min(world.backoff * 2.0 ** (command.attempt - 1), LONGEST)
        return command.failed(words_of(error), world.clock.now() + wait)
    return command.done()
