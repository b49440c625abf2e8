"""Stories of pulled agents: their work waits, visibly, until a worker claims it."""

from typing import Any

from changeover import Agent, Team, delegate
from changeover.agent.agent import Member
from changeover.protocol import TicketClaim
from changeover.relay.events import FunctionReturned, HandoffAccepted, RunStarted
from changeover.testing import delegates, hands_off, says
from tests.stories.answers import chain, triage, tries
from tests.stories.cancellation import assert_at_rest
from tests.stories.delegates import asks, boss, came_back, cast
from tests.stories.service import brings, outcome, pulled, served, tickets
from tests.stories.stage import CONVERSATION, Stage, events, story


def desk(stage: Stage, *members: Member, **parts: Any) -> Team:
    """Triage hands over to billing, which is served by claims."""
    model = cast(**{"triage": tries(hands_off("billing", "refund")), **parts})
    return stage.team([triage("billing"), *(members or [pulled("billing")])], model)


def office(stage: Stage, *members: Member, **parts: Any) -> Team:
    """The boss gives a task to a pulled clerk."""
    model = cast(**{"boss": asks(delegates("clerk", "count")), **parts})
    return stage.team([boss(), *(members or [pulled("clerk")])], model)


@story
async def a_handoff_to_an_agent_that_is_pulled_waits_until_it_is_claimed_and_done(stage: Stage) -> None:
    team = desk(stage)
    waiting = await stage.say(team, "charged twice")
    for ticket in tickets(stage, waiting):
        assert (ticket.id, ticket.agent, ticket.conversation, ticket.place) == (
            *("story:3.0", "billing", CONVERSATION, CONVERSATION),
        )
        assert (ticket.kind, ticket.receiver, ticket.root) == ("claim", "billing", CONVERSATION)
        assert (waiting.final_agent, chain(waiting)) == ("triage", [("billing", "PENDING", 1)])
        status = await team.status(ticket)
        assert (status.state, status.owner, status.attempts, status.rests) == ("PENDING", "", 0, False)
        assert [record.state for record in await team.handoffs(CONVERSATION)] == ["PENDING"]
    result = await served(stage, team, "charged twice", billing=brings("Refunded."))
    assert (result.output, result.final_agent, result.status, result.pending) == (
        *("Refunded.", "billing", "completed", []),
    )
    assert (chain(result), result.ledger.handoffs) == ([("billing", "COMPLETE", 1)], 1)
    [accepted], [returned] = await events(team, HandoffAccepted), await events(team, FunctionReturned)
    assert (accepted.by, returned.by, returned.agent) == ("worker", "worker", "billing")
    assert await team.claim("billing") == []
    await assert_at_rest(team)


@story
async def a_claim_of_a_handoff_holds_its_whole_package(stage: Stage) -> None:
    team = desk(stage)
    whose = {"context": {"plan": "gold"}, "user": "ada"}
    await stage.say(team, "charged twice", **whose)

    async def looks(claim: TicketClaim) -> None:
        task, context, metadata = claim.package.task, claim.package.context, claim.package.metadata
        assert (task.description, context.original_request, context.variables) == (
            *("refund", "charged twice", {"plan": "gold"}),
        )
        assert (metadata.sender, metadata.receiver, metadata.mode, metadata.user, metadata.conversation) == (
            *("triage", "billing", "transfer", "ada", CONVERSATION),
        )
        assert context.history[0].text == "charged twice"
        await claim.accept()
        await claim.complete("Refunded.")

    result = await served(stage, team, "charged twice", options=whose, billing=looks)
    assert result.output == "Refunded."


@story
async def a_handoff_is_the_workers_from_its_acceptance_on(stage: Stage) -> None:
    team = desk(stage)
    await stage.say(team, "charged twice")
    standing = []

    async def stands(claim: TicketClaim) -> None:
        status = await team.status(claim.ticket)
        standing.append((str(status.state), status.owner))

    async def looks_on(claim: TicketClaim) -> None:
        await stands(claim)
        await claim.accept()
        await stands(claim)
        await claim.complete("Refunded.")
        await stands(claim)

    await served(stage, team, "charged twice", billing=looks_on)
    steps = [("PENDING", "worker"), ("WORKING", "worker"), ("COMPLETE", "")]
    assert standing == steps or stage.lives > 1
    assert (await team.status("story:3.0")).state == "COMPLETE"


@story
async def a_delegate_that_is_pulled_waits_until_it_is_claimed_and_comes_back(stage: Stage) -> None:
    team = office(stage)
    waiting = await stage.say(team, "how many?")
    for ticket in tickets(stage, waiting):
        assert (ticket.id, ticket.agent, ticket.conversation, ticket.place, ticket.root) == (
            *("story:3.0", "clerk", CONVERSATION, f"{CONVERSATION}/3.0", CONVERSATION),
        )
        assert (waiting.final_agent, chain(waiting)) == ("boss", [("clerk", "PENDING", 1)])

    async def looks(claim: TicketClaim) -> None:
        metadata = claim.package.metadata
        assert (claim.package.task.description, metadata.mode, metadata.sender) == ("count", "delegate", "boss")
        await claim.accept()
        assert (await team.status(claim.ticket)).state == "WORKING"
        await claim.complete("Three.")

    result = await served(stage, team, "how many?", clerk=looks)
    [back] = came_back(result)
    assert (back.handoff_id, back.agent, back.success, back.response) == ("story:3.0", "clerk", True, "Three.")
    assert (result.final_agent, chain(result)) == ("boss", [("clerk", "RETURNED", 1)])
    assert (await team.status("story:3.0")).state == "RETURNED"
    await assert_at_rest(team)


@story
async def several_delegates_that_are_pulled_wait_beside_each_other(stage: Stage) -> None:
    turn = asks(*(delegates("clerk", f"count {part}") for part in ("nuts", "bolts", "nails")))
    team = office(stage, boss=turn)
    waiting = await stage.say(team, "how many?")
    if waits := tickets(stage, waiting):
        assert [ticket.id for ticket in waits] == ["story:3.0", "story:3.1", "story:3.2"]

    async def counts(claim: TicketClaim) -> None:
        await claim.complete(f"{claim.package.task.description}: 3")

    result = await served(stage, team, "how many?", clerk=counts)
    assert [back.response for back in came_back(result)] == ["count nuts: 3", "count bolts: 3", "count nails: 3"]


@story
async def agents_of_this_process_go_on_while_tickets_of_others_wait(stage: Stage) -> None:
    turn = asks(delegates("clerk", "count"), delegates("scribe", "write"), hands_off("billing", "refund"))
    sender = boss(delegate("clerk"), delegate("scribe"), "billing")
    members = [sender, pulled("clerk"), Agent("scribe", handoffs=()), pulled("billing")]
    team = stage.team(members, cast(boss=turn, scribe=says("Written.")))
    waiting = await stage.say(team, "do all of it")
    for ticket in tickets(stage, waiting):
        assert ticket.agent == "clerk", "what leads elsewhere is offered when all else has come back"
        assert {(record.receiver, str(record.state)) for record in await team.handoffs(CONVERSATION)} == {
            *(("clerk", "PENDING"), ("scribe", "RETURNED")),
        }
    result = await served(stage, team, "do all of it", clerk=brings("Three."), billing=brings("Refunded."))
    assert (result.output, result.final_agent) == ("Refunded.", "billing")
    assert {(each.receiver, str(each.state)) for each in result.handoff_chain} == {
        *(("clerk", "RETURNED"), ("scribe", "RETURNED"), ("billing", "COMPLETE")),
    }


@story
async def what_a_user_says_to_an_agent_that_is_pulled_waits_as_well(stage: Stage) -> None:
    team = desk(stage)
    await stage.say(team, "charged twice")
    first = await served(stage, team, "charged twice", billing=brings("Refunded."))
    assert first.final_agent == "billing"
    waiting = await stage.say(team, "and the fee?")
    for ticket in tickets(stage, waiting):
        assert (ticket.id, ticket.agent, waiting.final_agent) == ("story:9", "billing", "billing")
        assert (await team.status(ticket)).state == "WORKING"

    async def looks(claim: TicketClaim) -> None:
        package = claim.package
        assert (package.context.original_request, package.metadata.receiver) == ("and the fee?", "billing")
        await claim.accept()
        await claim.complete("That too.")

    result = await served(stage, team, "and the fee?", billing=looks)
    assert (result.output, result.handoff_chain) == ("That too.", [])
    assert [each.queued for each in await events(team, RunStarted)] == [False, True]


@story
async def an_agent_that_is_pulled_may_be_the_first(stage: Stage) -> None:
    team = stage.team([pulled("clerk")])
    waiting = await stage.say(team, "how many?")
    for ticket in tickets(stage, waiting):
        assert (ticket.id, ticket.agent, waiting.final_agent) == ("story:2", "clerk", "clerk")
    result = await served(stage, team, "how many?", clerk=brings("Three."))
    assert (result.output, result.final_agent, result.usage.requests) == ("Three.", "clerk", 0)
    answer = await outcome(team, "story:2")
    assert (answer.handoff_id, answer.agent, answer.state, answer.result) == (
        *("story:2", "clerk", "COMPLETE", "Three."),
    )


@story
async def what_users_say_meanwhile_waits_behind_what_is_to_be_claimed(stage: Stage) -> None:
    team = stage.team([pulled("clerk")])
    await stage.say(team, "how many nuts?")
    tickets(stage, await stage.say(team, "how many bolts?"))

    async def counts(claim: TicketClaim) -> None:
        await claim.complete(f"{claim.package.context.original_request}: 3")

    result = await served(stage, team, "how many bolts?", clerk=counts)
    before = await stage.say_again(team, "how many nuts?", said=1)
    assert (before.output, result.output) == ("how many nuts?: 3", "how many bolts?: 3")
    outputs = [each.text for each in await events(team, FunctionReturned)]
    assert outputs == ["how many nuts?: 3", "how many bolts?: 3"]
