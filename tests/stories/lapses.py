"""Stories of workers whose leases lapse: others claim their tickets, and in the end a person is asked."""

import asyncio
from typing import Any

from changeover import Agent, Edit, Reject, Respond, RunResult, Team
from changeover.guards.approval import Decision
from changeover.protocol import TicketClaim
from changeover.relay.events import HandoffAccepted, TicketLapsed, TicketTaken
from changeover.testing import delegates, hands_off, says
from tests.stories.answers import chain, triage, tries
from tests.stories.approvals import asked
from tests.stories.delegates import asks, boss, came_back, cast
from tests.stories.offers import DONE, MODES, office, package
from tests.stories.service import assert_lost, brings, brought, came, outcome, pulled, served, worked_off
from tests.stories.stage import CONVERSATION, Stage, events, story

BRIEF = 0.02
"""A lease that runs out before the worker does anything."""
SILENCE = "its worker did not renew its lease"


async def lapses(claim: TicketClaim) -> None:
    """Say nothing until the lease is over."""
    await asyncio.sleep(BRIEF * 1.5)


async def accepts_and_lapses(claim: TicketClaim) -> None:
    await claim.accept()
    await lapses(claim)


STAGES = {"before it was accepted": lapses, "after it was accepted": accepts_and_lapses}
"""The reason of a lapse after a lease ran out."""


@story
async def a_worker_that_lost_its_claim_to_another_can_do_nothing_with_it(stage: Stage) -> None:
    for mode in MODES:
        for number, falls_silent in enumerate(STAGES.values()):
            where = f"{mode}-{number}"
            team = office(stage, pulled("clerk"))
            ticket = await team.submit(package(mode=mode, conversation=where))
            for lost in await stage.claim(team, "clerk", lease=BRIEF, by="first"):
                await falls_silent(lost)
                for claim in await stage.claim(team, "clerk", by="second"):
                    assert claim.ticket.id == lost.ticket.id
                    await changes_nothing(team, lost)
                    assert (await team.status(lost.ticket)).owner == "second"
                    await claim.complete("Three.")
                    await changes_nothing(team, lost)
            assert came(await brought_up(stage, team, ticket)) == ("clerk", DONE[mode], "Three.")


async def brought_up(stage: Stage, team: Team, ticket: Any) -> Any:
    """What came of a ticket, which in a later life may still have to be done."""
    return await (outcome(team, ticket) if stage.lives == 1 else brought(stage, team, ticket, clerk=brings("Three.")))


async def changes_nothing(team: Team, lost: TicketClaim) -> None:
    """Whatever is tried by a claim that is lost, nothing comes of it."""
    before = await team.history(lost.ticket.conversation)
    await assert_lost(lost)
    since = (await team.history(lost.ticket.conversation))[len(before) :]
    assert [record for record in since if getattr(record.event, "by", "") == "first"] == []


@story
async def a_lapsed_claim_holds_until_another_worker_takes_the_ticket(stage: Stage) -> None:
    for mode in MODES:
        for number, falls_silent in enumerate(STAGES.values()):
            team = office(stage, pulled("clerk"))
            ticket = await team.submit(package(mode=mode, conversation=f"{mode}-{number}"))
            for claim in await stage.claim(team, "clerk", lease=BRIEF):
                await falls_silent(claim)
                assert (await team.status(claim.ticket)).owner == ""
                await claim.complete("Three.")
            assert came(await brought_up(stage, team, ticket)) == ("clerk", DONE[mode], "Three.")


@story
async def an_unanswered_ticket_is_claimed_again_and_the_attempts_are_counted(stage: Stage) -> None:
    for mode in MODES:
        team = office(stage, pulled("clerk"))
        ticket = await team.submit(package(mode=mode, conversation=mode))
        counted: list[int] = []

        async def keeps_silent_twice(claim: TicketClaim, counted: list[int] = counted) -> None:
            counted.append(claim.attempt)
            await (lapses(claim) if claim.attempt < 3 else claim.complete("Three."))

        for _ in range(2):
            for claim in await stage.claim(team, "clerk", lease=BRIEF):
                await keeps_silent_twice(claim)
        await worked_off(stage, team, "clerk", keeps_silent_twice)
        assert came(await brought_up(stage, team, ticket)) == ("clerk", DONE[mode], "Three.")
        assert counted == [1, 2, 3] or stage.lives > 1
        assert await events(team, TicketLapsed, mode) == [] or stage.lives > 1


@story
async def an_accepted_ticket_that_lapses_is_continued_by_the_next_worker(stage: Stage) -> None:
    for mode in MODES:
        team = office(stage, pulled("clerk"))
        ticket = await team.submit(package(mode=mode, conversation=mode))
        for claim in await stage.claim(team, "clerk", lease=BRIEF, by="first"):
            await accepts_and_lapses(claim)
        for claim in await stage.claim(team, "clerk", by="second"):
            assert claim.package.task.description == "count the parts"
            await claim.accept()
            assert (await team.status(claim.ticket)).state == "WORKING"
            await claim.complete("Three.")
        assert came(await brought_up(stage, team, ticket)) == ("clerk", DONE[mode], "Three.")
        if stage.lives == 1:
            [accepted] = await events(team, HandoffAccepted, mode)
            lapsed, taken = await events(team, TicketLapsed, mode), await events(team, TicketTaken, mode)
            assert (accepted.by, {event.reason for event in lapsed}) == ("first", {SILENCE})
            assert {event.by for event in taken} == {"second"}


async def worn_out(stage: Stage, team: Team, agent: str, falls_silent: Any, options: dict[str, Any]) -> None:
    """Say something that three workers of an agent take, and none of them finishes."""
    result = await stage.say(team, "go", **options)
    if result.status == "waiting":
        while claims := await stage.claim(team, agent, lease=BRIEF):
            for claim in claims:
                await falls_silent(claim)


def desk(stage: Stage) -> Team:
    """Triage hands over to billing, which is served by claims."""
    members = [triage("billing"), pulled("billing"), Agent("late", handoffs=())]
    return stage.team(members, cast(triage=tries(hands_off("billing", "refund")), late=says("Late did it.")))


def shop(stage: Stage) -> Team:
    """The boss gives a task to a pulled clerk."""
    members = [boss(), pulled("clerk"), Agent("late", handoffs=())]
    return stage.team(members, cast(boss=asks(delegates("clerk", "count")), late=says("Late did it.")))


async def escalated(stage: Stage, mode: str, when: str, decision: Decision) -> tuple[Team, RunResult]:
    """What comes of it, if a person decides so about what three workers did not finish."""
    team, agent = (desk(stage), "billing") if mode == "transfer" else (shop(stage), "clerk")
    where = f"{mode}-{type(decision).__name__}-{when.split(maxsplit=1)[0]}"
    options = {"conversation": where}
    await worn_out(stage, team, agent, STAGES[when], options)
    result = await served(stage, team, "go", decision, options, **{agent: lapses})
    [request] = await asked(team, where)
    assert (request.kind, request.receiver) == ("escalation", agent)
    assert await team.approvals(where) == []
    return team, result


BEFORE, AFTER = STAGES


@story
async def a_person_answers_what_three_workers_took_and_none_answered(stage: Stage) -> None:
    _, result = await escalated(stage, "transfer", BEFORE, Respond("In cash."))
    assert (result.output, result.final_agent, chain(result)) == (
        *("ana answered: In cash.", "triage", [("billing", "REJECTED", 1)]),
    )
    assert result.handoff_chain[0].error == "3 workers took it, and none finished it"
    _, result = await escalated(stage, "delegate", BEFORE, Respond("In cash."))
    [back] = came_back(result)
    assert (back.agent, back.success, back.response) == ("ana", True, "In cash.")


@story
async def a_person_hands_on_what_three_workers_took_and_none_answered(stage: Stage) -> None:
    _, result = await escalated(stage, "transfer", BEFORE, Edit(receiver="late"))
    assert (result.output, chain(result)) == ("Late did it.", [("billing", "REJECTED", 1), ("late", "COMPLETE", 2)])
    _, result = await escalated(stage, "delegate", BEFORE, Edit(receiver="late"))
    [back] = came_back(result)
    assert (back.agent, back.response, result.final_agent) == ("late", "Late did it.", "boss")
    assert chain(result) == [("clerk", "REJECTED", 1), ("late", "RETURNED", 2)]


@story
async def a_person_gives_back_what_three_workers_took_and_none_answered(stage: Stage) -> None:
    _, result = await escalated(stage, "transfer", BEFORE, Reject("say sorry"))
    assert (result.output, result.final_agent) == ("given back by ana: say sorry", "triage")
    _, result = await escalated(stage, "delegate", BEFORE, Reject("say sorry"))
    [back] = came_back(result)
    assert (back.success, back.error) == (False, "given back by ana: say sorry")


@story
async def a_person_answers_what_three_workers_accepted_and_none_finished(stage: Stage) -> None:
    _, result = await escalated(stage, "transfer", AFTER, Respond("In cash."))
    assert (result.output, result.final_agent, chain(result)) == ("In cash.", "billing", [("billing", "COMPLETE", 1)])
    _, result = await escalated(stage, "delegate", AFTER, Respond("In cash."))
    [back] = came_back(result)
    assert (back.success, back.response, chain(result)) == (True, "In cash.", [("clerk", "RETURNED", 1)])


@story
async def a_person_hands_on_what_three_workers_accepted_and_none_finished(stage: Stage) -> None:
    _, result = await escalated(stage, "transfer", AFTER, Edit(receiver="late"))
    assert (result.output, result.final_agent) == ("Late did it.", "late")
    assert chain(result) == [("billing", "COMPLETE", 1), ("late", "COMPLETE", 1)]
    _, result = await escalated(stage, "delegate", AFTER, Edit(receiver="late"))
    [back] = came_back(result)
    assert (back.success, back.response, result.final_agent) == (True, "Late did it.", "boss")


@story
async def a_person_gives_a_transfer_back_that_three_workers_accepted_and_none_finished(stage: Stage) -> None:
    _, result = await escalated(stage, "transfer", AFTER, Reject("say sorry"))
    assert (result.status, result.final_agent) == ("completed", "triage")
    assert [(each.sender, each.receiver, each.message) for each in result.handoff_chain] == [
        *(("triage", "billing", "refund"), ("billing", "triage", "say sorry")),
    ]


@story
async def a_person_gives_a_delegates_task_back_that_three_workers_accepted_and_none_finished(stage: Stage) -> None:
    team, result = await escalated(stage, "delegate", AFTER, Reject("say sorry"))
    [back] = came_back(result)
    assert (back.success, "say sorry" in back.error, result.final_agent) == (False, True, "boss")
    assert [each.receiver for each in await team.handoffs(result.conversation_id)] == ["clerk"]


@story
async def a_message_to_a_pulled_agent_that_no_worker_finishes_is_put_before_a_person(stage: Stage) -> None:
    team = stage.team([pulled("clerk")])
    await worn_out(stage, team, "clerk", accepts_and_lapses, {})
    result = await served(stage, team, "go", Respond("In cash."), clerk=lapses)
    assert (result.output, result.final_agent) == ("In cash.", "clerk")
    [request] = await asked(team, CONVERSATION)
    assert (request.kind, request.receiver, request.message) == ("escalation", "clerk", "go")


@story
async def a_package_that_three_workers_took_and_none_finished_is_put_before_a_person(stage: Stage) -> None:
    for mode in MODES:
        for number, falls_silent in enumerate(STAGES.values()):
            where = f"{mode}-{number}"
            team = office(stage, pulled("clerk"))
            ticket = await team.submit(package(mode=mode, conversation=where))
            while claims := await stage.claim(team, "clerk", lease=BRIEF):
                await falls_silent(claims[0])
            if stage.lives == 1:
                assert [each.kind for each in await team.approvals(where)] == ["escalation"]
            result = await brought(stage, team, ticket, Respond("In cash."))
            assert result.result == "In cash."
