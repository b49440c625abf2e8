"""Stories of tickets that are cancelled or rolled back while they wait to be claimed, or under a claim."""

from contextlib import nullcontext, suppress

from changeover import Team
from changeover.errors import ClaimLost
from changeover.protocol import State, Ticket, TicketClaim
from changeover.relay.events import CancelRequested, RollbackRequested
from changeover.testing import delegates, hands_off
from tests.stories.answers import chain
from tests.stories.approvals import must_wait
from tests.stories.cancellation import assert_at_rest
from tests.stories.delegates import asks, came_back
from tests.stories.offers import MODES, office, package
from tests.stories.queue import desk
from tests.stories.queue import office as shop
from tests.stories.rollbacks import sends_once, undo
from tests.stories.service import assert_lost, brings, claims_of, open_tickets, outcome, pulled, served, tickets
from tests.stories.stage import CONVERSATION, Stage, story


async def call_off_once(stage: Stage, team: Team, ticket: Ticket | str, conversation: str) -> None:
    """Cancel it, unless that is on record from an earlier life."""
    known = [each.event for each in await team.history(conversation)]
    if stage.lives == 1 or not any(isinstance(event, CancelRequested | RollbackRequested) for event in known):
        assert await team.cancel(ticket, by="ana", reason="too slow")


async def accept(stage: Stage, claim: TicketClaim) -> None:
    """Accept a claimed ticket. In a later life the withdrawal that an earlier one asked for may come first."""
    with suppress(ClaimLost) if stage.lives > 1 else nullcontext():
        await claim.accept()


async def assert_nothing_left(team: Team, conversation: str = CONVERSATION) -> None:
    """There is nothing to claim, and nothing is under way."""
    assert await open_tickets(team, conversation) == []
    await assert_at_rest(team, conversation)


@story
async def a_ticket_that_waits_may_be_cancelled(stage: Stage) -> None:
    for mode in MODES:
        team = office(stage, pulled("clerk"))
        ticket = await team.submit(package(mode=mode, conversation=mode))
        await call_off_once(stage, team, ticket, mode)
        result = await outcome(team, ticket)
        assert (result.state, result.result) == (State.RETURNED, "")
        assert (await team.status(ticket)).state == "RETURNED"
        assert await team.cancel(ticket) is False
        await assert_nothing_left(team, mode)


@story
async def a_ticket_that_is_claimed_may_be_cancelled_and_its_worker_finds_that_out(stage: Stage) -> None:
    for mode in MODES:
        team = office(stage, pulled("clerk"))
        ticket = await team.submit(package(mode=mode, conversation=mode))
        held = await claims_of(stage, team, "clerk", mode)
        await call_off_once(stage, team, ticket, mode)
        assert (await outcome(team, ticket)).state == State.RETURNED
        for claim in held:
            await assert_lost(claim)
        await assert_nothing_left(team, mode)


@story
async def a_ticket_that_is_worked_on_may_be_cancelled_and_its_worker_finds_that_out(stage: Stage) -> None:
    for mode in MODES:
        team = office(stage, pulled("clerk"))
        ticket = await team.submit(package(mode=mode, conversation=mode))
        held = await claims_of(stage, team, "clerk", mode)
        for claim in held:
            await claim.accept()
        await call_off_once(stage, team, ticket, mode)
        assert (await outcome(team, ticket)).state == State.RETURNED
        for claim in held:
            await assert_lost(claim)
        await assert_nothing_left(team, mode)


@story
async def a_conversation_that_waits_for_a_claim_may_be_cancelled(stage: Stage) -> None:
    for make, agent in ((desk, "billing"), (shop, "clerk")):
        team, where = make(stage), agent
        must_wait(stage, await stage.say(team, "go", conversation=where))
        await call_off_once(stage, team, where, where)
        result = await stage.say_again(team, "go", conversation=where)
        assert (result.status, [each.state for each in result.handoff_chain]) == ("cancelled", [State.RETURNED])
        await assert_nothing_left(team, where)


@story
async def what_a_user_said_to_an_agent_that_is_pulled_may_be_cancelled(stage: Stage) -> None:
    for claimed in (False, True):
        team, where = stage.team([pulled("clerk")]), f"claimed-{claimed}"
        waiting = await stage.say(team, "how many?", conversation=where)
        must_wait(stage, waiting)
        held = await claims_of(stage, team, "clerk", where) if claimed else []
        for claim in held:
            await claim.accept()
        await call_off_once(stage, team, f"{where}:2", where)
        for claim in held:
            await assert_lost(claim)
        result = await stage.say_again(team, "how many?", conversation=where)
        assert (result.status, result.output) == ("cancelled", "")
        assert (await team.status(f"{where}:2")).state == "RETURNED"
        await assert_nothing_left(team, where)


@story
async def a_delegate_that_waits_for_a_claim_may_be_called_back_alone(stage: Stage) -> None:
    turn = asks(delegates("clerk", "count"), delegates("clerk", "write"))
    team = shop(stage, boss=turn)
    must_wait(stage, await stage.say(team, "how many?"))
    await call_off_once(stage, team, "story:3.0", CONVERSATION)
    result = await served(stage, team, "how many?", clerk=brings("Written."))
    first, second = came_back(result)
    assert (first.success, second.success, second.response) == (False, True, "Written.")
    assert chain(result) == [("clerk", "RETURNED", 1), ("clerk", "RETURNED", 1)]


GOES_ON = sends_once(hands_off("billing", "refund"))


@story
async def a_handoff_that_waits_for_a_claim_may_be_taken_back(stage: Stage) -> None:
    team = desk(stage, triage=GOES_ON)
    tickets(stage, await stage.say(team, "charged twice"))
    await undo(stage, team, "story:3.0", "my mistake")
    result = await served(stage, team, "charged twice")
    assert (result.status, result.final_agent, chain(result)) == (
        *("completed", "triage", [("billing", "RETURNED", 1)]),
    )
    assert "my mistake" in result.output
    await assert_nothing_left(team)


@story
async def a_handoff_under_a_claim_may_be_rolled_back_and_its_worker_notices(stage: Stage) -> None:
    for accepted in (False, True):
        team, where = desk(stage, triage=GOES_ON), f"accepted-{accepted}"
        must_wait(stage, await stage.say(team, "charged twice", conversation=where))
        held = await claims_of(stage, team, "billing", where)
        for claim in held:
            await (claim.accept() if accepted else claim.heartbeat())
        await undo(stage, team, f"{where}:3.0", "my mistake")
        result = await served(stage, team, "charged twice", options={"conversation": where})
        for claim in held:
            await assert_lost(claim)
        assert (result.final_agent, chain(result)) == ("triage", [("billing", "RETURNED", 1)])
        assert "my mistake" in result.output
        await assert_nothing_left(team, where)


@story
async def a_delegates_task_may_be_taken_back_while_it_waits_or_is_worked_on(stage: Stage) -> None:
    for how in ("waits", "claimed", "accepted"):
        team = shop(stage)
        must_wait(stage, await stage.say(team, "how many?", conversation=how))
        held = await claims_of(stage, team, "clerk", how) if how != "waits" else []
        for claim in held:
            await (claim.accept() if how == "accepted" else claim.heartbeat())
        await undo(stage, team, f"{how}:3.0", "my mistake")
        result = await served(stage, team, "how many?", options={"conversation": how})
        for claim in held:
            await assert_lost(claim)
        [back] = came_back(result)
        assert (back.success, "my mistake" in back.error) == (False, True)
        assert chain(result) == [("clerk", "RETURNED", 1)]
        await assert_nothing_left(team, how)


@story
async def a_package_may_be_taken_back_while_it_waits_or_is_worked_on(stage: Stage) -> None:
    for mode in MODES:
        for how in ("waits", "accepted"):
            where = f"{mode}-{how}"
            team = office(stage, pulled("clerk"))
            ticket = await team.submit(package(mode=mode, conversation=where))
            held = await claims_of(stage, team, "clerk", where) if how == "accepted" else []
            for claim in held:
                await accept(stage, claim)
            await undo(stage, team, ticket.id, "my mistake")
            assert (await outcome(team, ticket)).state == State.RETURNED
            for claim in held:
                await assert_lost(claim)
            await assert_nothing_left(team, where)
