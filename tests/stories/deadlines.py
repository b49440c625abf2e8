"""Stories of tickets that are not claimed before their deadline, or claimed and not done in time."""

from datetime import UTC, datetime
from typing import Any

from changeover import Agent, Approve, Team, delegate, handoff
from changeover.errors import ClaimLost, ConversationNotFound, HandoffTimeoutError
from changeover.protocol import Expectations, Ticket, TicketClaim
from changeover.relay.events import HandoffAccepted, HandoffExpired, HandoffOffered, RunStarted
from changeover.testing import ManualClock, delegates, hands_off
from tests.stories.answers import chain, triage, tries
from tests.stories.approvals import same_store
from tests.stories.cancellation import assert_at_rest, told
from tests.stories.delegates import asks, boss, came_back, cast
from tests.stories.offers import DONE, MODES, package
from tests.stories.service import (
    assert_alive,
    assert_lost,
    brings,
    brought,
    came,
    decide_all,
    error,
    free,
    outcome,
    pulled,
    served,
    soon,
    tickets,
)
from tests.stories.stage import CONVERSATION, Stage, events, story
from tests.stories.submissions import is_still_open
from tests.stories.timeouts import LATE

UNCLAIMED, UNASKED = "no worker claimed it before the deadline", "it was not asked before the deadline"
MINUTE = Expectations(timeout=60)


def in_a_minute() -> datetime:
    """A minute from when every story's clock starts."""
    return datetime.fromtimestamp(ManualClock().now() + 60, UTC)


async def go_to(clock: ManualClock, team: Team, seconds: float, conversation: str = CONVERSATION) -> None:
    """Move the clock to so many seconds after the start, or to the last entry if that is later."""
    try:
        last = max(record.at for record in await team.history(conversation))
    except ConversationNotFound:
        last = 0.0
    await clock.advance(max(ManualClock().now() + seconds, last, clock.now()) - clock.now())


class ObservedClock(ManualClock):
    """A clock that notes for which times alarms were set."""

    def __init__(self) -> None:
        super().__init__()
        self.alarms = set[float]()

    async def alarm(self, at: float) -> None:
        self.alarms.add(at)
        await super().alarm(at)


def office(stage: Stage, **shared: Any) -> tuple[Team, ObservedClock]:
    """A pulled clerk, and a clock to move."""
    clock = ObservedClock()
    return stage.team([Agent("desk", handoffs=()), pulled("clerk")], cast(), clock=clock, **shared), clock


async def submitted(stage: Stage, team: Team, clock: ObservedClock, mode: str) -> Ticket:
    """Submit a package with a deadline in a minute, and return when a process keeps that time."""
    ticket = await team.submit(package(mode=mode, conversation=mode, deadline=in_a_minute()))

    async def is_watched() -> bool:
        await assert_alive(team)
        return ticket.deadline in clock.alarms

    if stage.lives == 1:
        await soon(is_watched)
    return ticket


async def is_over(team: Team, ticket: Ticket, why: str) -> None:
    """It timed out: the result says so, it cannot be claimed, and nothing is outstanding."""
    late = await error(HandoffTimeoutError, outcome(team, ticket))
    assert (late.handoff_id, late.agent, why in str(late)) == (ticket.id, "clerk", True)
    status = await team.status(ticket)
    assert (status.state, status.reason, status.owner) == ("TIMEOUT", why, "")
    assert await team.claim("clerk") == []
    await assert_at_rest(team, ticket.conversation)


@story
async def a_package_that_is_not_claimed_before_its_deadline_times_out(stage: Stage) -> None:
    for mode in MODES:
        team, clock = office(stage)
        ticket = await submitted(stage, team, clock, mode)
        assert ticket.deadline == in_a_minute().timestamp() or stage.lives > 1
        if stage.lives == 1:
            await go_to(clock, team, 59, mode)
            assert await is_still_open(team, ticket)
        await go_to(clock, team, 60, mode)
        await is_over(team, ticket, UNCLAIMED)


@story
async def a_package_that_is_claimed_and_not_answered_before_its_deadline_has_timed_out(stage: Stage) -> None:
    for mode in MODES:
        team, clock = office(stage)
        ticket = await submitted(stage, team, clock, mode)
        held = await stage.claim(team, "clerk")
        await go_to(clock, team, 60, mode)
        await is_over(team, ticket, UNCLAIMED)
        for claim in held:
            if claim.ticket.conversation == mode:
                await assert_lost(claim)


@story
async def a_late_answer_under_a_lost_claim_does_not_extend_a_deadline(stage: Stage) -> None:
    for mode in MODES:
        team, clock = office(stage)
        ticket = await submitted(stage, team, clock, mode)
        for lost in await stage.claim(team, "clerk"):
            await free(team, lost.ticket.id)
            await error(ClaimLost, lost.accept())
        await go_to(clock, team, 60, mode)
        await is_over(team, ticket, UNCLAIMED)


@story
async def a_deadline_that_passes_while_no_process_is_there_has_passed(stage: Stage) -> None:
    for mode in MODES:
        shared = same_store(stage)
        first, _ = office(stage, **shared)
        second, clock = office(stage, **shared)
        ticket = await first.submit(package(mode=mode, conversation=mode, deadline=in_a_minute()))
        await first.close()
        await go_to(clock, second, 120, mode)
        await second.submit(package(mode=mode, conversation=mode, deadline=in_a_minute()))
        await is_over(second, ticket, UNASKED)


@story
async def a_ticket_past_its_deadline_cannot_be_claimed_even_before_that_is_recorded(stage: Stage) -> None:
    shared = same_store(stage)
    first, _ = office(stage, **shared)
    second, clock = office(stage, **shared)
    await first.submit(package(deadline=in_a_minute()))
    await first.close()
    await go_to(clock, second, 60)
    assert await second.claim("clerk") == []


@story
async def a_ticket_that_was_accepted_in_time_may_wait_in_the_queue_without_limit(stage: Stage) -> None:
    for mode in MODES:
        team, clock = office(stage)
        ticket = await team.submit(package(mode=mode, conversation=mode, expectations=MINUTE))
        if stage.lives == 1:
            await go_to(clock, team, 100_000, mode)
            assert (await team.status(ticket)).state == "PENDING"
        assert came(await brought(stage, team, ticket, clerk=brings("Three."))) == ("clerk", DONE[mode], "Three.")


async def takes_a_minute(stage: Stage, team: Team, clock: ManualClock, conversation: str = CONVERSATION) -> None:
    """A worker accepts the clerk's ticket and does not finish it within a minute."""
    for claim in await stage.claim(team, "clerk"):
        await claim.accept()
        begun = clock.now() - ManualClock().now()
        await go_to(clock, team, begun + 59, conversation)
        assert (await team.status(claim.ticket)).state == "WORKING"
        await go_to(clock, team, begun + 60, conversation)
        await told(team, HandoffExpired)
        await assert_lost(claim)
    if stage.lives > 1:  # it may have been accepted in an earlier life
        await go_to(clock, team, clock.now() - ManualClock().now() + 60, conversation)


@story
async def a_delegate_that_is_claimed_and_not_done_in_time_has_timed_out(stage: Stage) -> None:
    team, clock = office(stage)
    ticket = await team.submit(package(expectations=MINUTE))
    await go_to(clock, team, 1_000)
    await takes_a_minute(stage, team, clock)
    await is_over(team, ticket, LATE)
    [offered], [accepted] = await events(team, HandoffOffered), await events(team, HandoffAccepted)
    assert (offered.deadline, offered.timeout) == (None, 60)
    assert accepted.deadline is not None


@story
async def a_model_is_told_that_its_delegate_was_claimed_and_not_done_in_time(stage: Stage) -> None:
    clock = ManualClock()
    model = cast(boss=asks(delegates("clerk", "count")))
    team = stage.team([boss(delegate("clerk", timeout=60)), pulled("clerk")], model, clock=clock)
    tickets(stage, await stage.say(team, "how many?"))
    await go_to(clock, team, 1_000)
    await takes_a_minute(stage, team, clock)
    result = await served(stage, team, "how many?")
    [back] = came_back(result)
    assert (back.success, back.error, chain(result)) == (False, LATE, [("clerk", "TIMEOUT", 1)])
    assert await team.claim("clerk") == []
    await assert_at_rest(team)


@story
async def a_transfer_that_was_accepted_may_take_as_long_as_it_likes(stage: Stage) -> None:
    clock = ManualClock()
    model = cast(triage=tries(hands_off("billing", "refund")))
    team = stage.team([triage(handoff("billing", timeout=60)), pulled("billing")], model, clock=clock)
    tickets(stage, await stage.say(team, "charged twice"))

    async def takes_its_time(claim: TicketClaim) -> None:
        await claim.accept()
        await clock.advance(100_000)
        await claim.complete("Refunded.")

    result = await served(stage, team, "charged twice", billing=takes_its_time)
    assert (result.output, await events(team, HandoffExpired)) == ("Refunded.", [])


@story
async def a_transfer_that_was_accepted_before_its_deadline_may_be_taken_up_by_another_after_it(stage: Stage) -> None:
    team, clock = office(stage)
    ticket = await team.submit(package(mode="transfer", deadline=in_a_minute()))
    for claim in await stage.claim(team, "clerk"):
        await claim.accept()
        await claim.give_back("too busy")
    await go_to(clock, team, 100)
    assert came(await brought(stage, team, ticket, clerk=brings("Three."))) == ("clerk", "COMPLETE", "Three.")


@story
async def the_deadline_of_a_package_ends_the_work_of_a_delegate_too(stage: Stage) -> None:
    team, clock = office(stage)
    ticket = await team.submit(package(deadline=in_a_minute(), expectations=Expectations(timeout=300)))
    for claim in await stage.claim(team, "clerk"):
        await go_to(clock, team, 30)
        await claim.accept()
        await go_to(clock, team, 59)
        assert (await team.status(ticket)).state == "WORKING"
    await go_to(clock, team, 60)
    assert (await error(HandoffTimeoutError, outcome(team, ticket))).handoff.state == "TIMEOUT"
    assert await team.claim("clerk") == []


@story
async def a_delegate_that_was_permitted_has_its_time_from_then_on(stage: Stage) -> None:
    team, clock = office(stage)
    ticket = await team.submit(package(expectations=MINUTE))
    for claim in await stage.claim(team, "clerk"):
        if (await team.status(ticket)).state == "PENDING":
            await claim.conditional(needs_permission=["spend 5"])
    await go_to(clock, team, 1_000)
    await decide_all(team, Approve(), CONVERSATION)
    await told(team, RunStarted, 2)
    for claim in await stage.claim(team, "clerk"):
        await claim.accept()
    await go_to(clock, team, 100_000)
    assert (await error(HandoffTimeoutError, outcome(team, ticket))).handoff.state == "TIMEOUT"


@story
async def the_time_of_a_delegate_goes_on_when_its_worker_is_not_heard_of_any_more(stage: Stage) -> None:
    team, clock = office(stage)
    ticket = await team.submit(package(expectations=MINUTE))
    for claim in await stage.claim(team, "clerk"):
        await claim.accept()
        await go_to(clock, team, 30)
        await claim.give_back("too busy")
    for claim in await stage.claim(team, "clerk"):
        await claim.accept()
        await go_to(clock, team, 59)
        assert (await team.status(ticket)).state == "WORKING" or stage.lives > 1
    await go_to(clock, team, 200)
    await is_over(team, ticket, LATE)
