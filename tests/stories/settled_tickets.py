"""Stories of what the status of a ticket says, and when a verb on it has taken effect."""

import asyncio
from collections.abc import Sequence

from changeover import Agent, RunResult, Team, delegate
from changeover.errors import ClaimLost, IllegalTransition
from changeover.messages import Message
from changeover.protocol import Context, Rejected, TicketClaim
from changeover.testing import ManualClock, Reply, delegates, hands_off, says
from tests.public_api import recorded, soon
from tests.stories.answers import triage, tries
from tests.stories.cancellation import Hold
from tests.stories.delegates import asks, boss, cast
from tests.stories.lapses import SILENCE
from tests.stories.offers import DONE, MODES, office, package
from tests.stories.service import brings, brought, came, claims_of, declines, error, pulled
from tests.stories.stage import Stage, story
from tests.stories.timeouts import runs_out, working

BRIEF = 0.2
"""A lease that lapses soon, though not before the ticket is accepted."""
DEPUTY = Context(escalation_path=("deputy",))


async def state_of(team: Team, id: str) -> str:
    """The state of a handoff as the list of them shows it."""
    [found] = [each for each in await team.handoffs(id.partition(":")[0]) if each.id == id]
    return str(found.state)


@story
async def a_delegate_is_rolled_back_when_rollback_returns(stage: Stage) -> None:
    hold = Hold()

    async def works(messages: Sequence[Message]) -> Reply:
        await hold.on()
        return says("Three.")

    team = stage.team([boss(delegate("clerk")), Agent("clerk")], cast(boss=asks(delegates("clerk", "x")), clerk=works))
    saying = asyncio.ensure_future(stage.say(team, "how many?"))
    if stage.lives == 1:
        await asyncio.wait_for(hold.begun.wait(), 5)
        record = await team.rollback("story:3.0", reason="not now", by="ana")
        state = await state_of(team, "story:3.0")
        hold.let_go.set()
        assert (record.state, state) == ("RETURNED", "RETURNED")
    hold.let_go.set()
    result: RunResult = await saying
    assert result.final_agent == "boss"


@story
async def an_offer_is_rolled_back_when_rollback_returns(stage: Stage) -> None:
    for mode in MODES:
        hold = Hold()

        async def works(messages: Sequence[Message], hold: Hold = hold) -> Reply:
            await hold.on()
            return says("Three.")

        team = office(stage, Agent("clerk"), clerk=works)
        offering = asyncio.ensure_future(team.offer(package(mode=mode, conversation=mode)))
        if stage.lives == 1:
            await asyncio.wait_for(hold.begun.wait(), 5)
            [handoff] = await team.handoffs(mode)
            record = await team.rollback(handoff.id, reason="not now")
            assert (record.state, await state_of(team, handoff.id)) == ("RETURNED", "RETURNED")
        hold.let_go.set()
        assert (await offering).state == "RETURNED" or stage.lives > 1  # a later life may not roll it back


@story
async def no_result_counts_that_a_worker_brings_after_a_rollback(stage: Stage) -> None:
    for mode in MODES:
        team = office(stage, pulled("clerk"))
        ticket = await team.submit(package(mode=mode, conversation=mode))
        for claim in await claims_of(stage, team, "clerk", mode):
            await claim.accept()
            record = await team.rollback(ticket.id, reason="not now")
            status = await team.status(ticket)
            assert (record.state, status.state) == ("RETURNED", "RETURNED")
            await error(ClaimLost, claim.complete("Three."))
        result = await team.result(ticket, timeout=5)
        assert (result.state, result.result) == ("RETURNED", "")


@story
async def the_status_of_a_ticket_follows_the_task(stage: Stage) -> None:
    for mode in MODES:
        team = office(stage, pulled("clerk"), pulled("deputy"))
        ticket = await team.submit(package(mode=mode, conversation=mode, context=DEPUTY))
        result = await brought(stage, team, ticket, clerk=declines("closed"), deputy=brings("Four."))
        assert came(result) == ("deputy", DONE[mode], "Four.")
        status = await team.status(ticket)
        assert (status.agent, status.state) == ("deputy", DONE[mode])


@story
async def the_status_of_a_ticket_lists_all_attempts(stage: Stage) -> None:
    """`TicketStatus.chain` is the list of `HandoffRecord`s, oldest first; `attempts` still counts claims."""
    team = office(stage, pulled("clerk"), pulled("deputy"))
    ticket = await team.submit(package(context=DEPUTY))
    await brought(stage, team, ticket, clerk=declines("closed"), deputy=brings("Four."))
    status = await team.status(ticket)
    assert [(each.receiver, str(each.state), each.attempt) for each in status.chain] == [
        *(("clerk", "REJECTED", 1), ("deputy", "RETURNED", 2)),
    ]


@story
async def what_was_accepted_cannot_be_rejected_and_the_claim_still_holds(stage: Stage) -> None:
    async def regrets(claim: TicketClaim) -> None:
        await claim.accept()
        told = await error(IllegalTransition, claim.reject("no"))
        assert (told.state, told.signal) == ("WORKING", "reject")
        await error(IllegalTransition, claim.conditional(needs_more_context=["why"]))
        await claim.heartbeat()
        await claim.complete("Three.")

    for mode in MODES:
        team = office(stage, pulled("clerk"))
        ticket = await team.submit(package(mode=mode, conversation=mode))
        assert came(await brought(stage, team, ticket, clerk=regrets)) == ("clerk", DONE[mode], "Three.")


@story
async def a_handoff_whose_lease_lapsed_is_pending_before_anybody_claims_it(stage: Stage) -> None:
    for mode in MODES:
        team = office(stage, pulled("clerk"))
        ticket = await team.submit(package(mode=mode, conversation=mode))
        for claim in await claims_of(stage, team, "clerk", mode, lease=BRIEF):
            await claim.accept()
            await asyncio.sleep(2 * BRIEF)

            async def is_pending(team: Team = team, id: str = ticket.id) -> bool:
                return (await team.status(id)).state == await state_of(team, id) == "PENDING"

            assert await soon(is_pending, 5)
            lapsed = await recorded(team, "TicketLapsed", mode)
            places = 2 if mode == "delegate" else 1  # where the agent works, and where its sender waits
            assert len(lapsed) == places or stage.lives > 1
            assert {(each.reason, each.by) for each in lapsed} == {(SILENCE, "changeover")}
        assert came(await brought(stage, team, ticket, clerk=brings("Three."))) == ("clerk", DONE[mode], "Three.")


@story
async def every_acceptance_names_who_accepted(stage: Stage) -> None:
    turn = asks(delegates("clerk", "count"), hands_off("billing", "refund"))
    members = [boss(delegate("clerk"), "billing"), Agent("clerk", handoffs=()), Agent("billing", handoffs=())]
    team = stage.team(members, cast(boss=turn, clerk=says("Three."), billing=says("Refunded.")))
    await stage.say(team, "go")
    assert [(each.receiver, each.by) for each in await recorded(team, "HandoffAccepted")] == [
        *(("clerk", "clerk"), ("billing", "billing")),
    ]


@story
async def every_rejection_names_who_rejected_and_why(stage: Stage) -> None:
    no = {"asked": Agent("billing", accepts=lambda package: Rejected("closed"))}
    no["declared"] = Agent("billing", accepts_handoffs=False)
    for where, billing in no.items():
        team = stage.team([triage("billing"), billing], cast(triage=tries(hands_off("billing", "refund"))))
        await stage.say(team, "go", conversation=where)
        for each in await recorded(team, "HandoffRejected", where):
            assert (each.by, bool(each.reason)) == ("billing", True)


@story
async def every_end_of_a_handoff_names_its_actor(stage: Stage) -> None:
    """Offers, answers, starts, ends, lapses and returns: time is the entry's, actor is `by`, reason is `reason`."""
    team = stage.team([boss(), Agent("clerk")], cast(boss=asks(delegates("clerk", "count")), clerk=says("Three.")))
    await stage.say(team, "go")
    [returned] = await recorded(team, "HandoffReturned")
    assert returned.by == "clerk"


@story
async def what_ends_by_the_clock_is_changeovers_doing(stage: Stage) -> None:
    hold, clock = Hold(), ManualClock()
    team = working(stage, hold, clock, timeout=60)
    await runs_out(stage, team, clock, hold, 60)
    [expired] = await recorded(team, "HandoffExpired")
    assert (expired.by, bool(expired.reason)) == ("changeover", True)
