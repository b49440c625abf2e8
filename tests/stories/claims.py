"""Stories of what a worker may do with a claim: accept, reject, set conditions, complete, fail, give back."""

import asyncio
from contextlib import suppress
from typing import Any

from changeover import Agent, Approve, Edit, Person, Reject, Respond, Team, Variable, delegate, handoff
from changeover.errors import ClaimLost, ExpectationError, IllegalTransition, WorkerError
from changeover.protocol import Context, Expectations, Expects, TicketClaim
from changeover.relay.events import (
    HandoffAccepted,
    HandoffConditional,
    HandoffOffered,
    RepairAsked,
    TicketLapsed,
    TicketTaken,
)
from changeover.testing import delegates, hands_off
from tests.stories.answers import chain, triage, tries
from tests.stories.cancellation import Hold, assert_at_rest
from tests.stories.delegates import asks, boss, came_back, cast
from tests.stories.offers import DONE, MODES, attempts, office, package
from tests.stories.queue import desk
from tests.stories.service import (
    DOING,
    Work,
    assert_alive,
    breaks,
    brings,
    brought,
    came,
    declines,
    error,
    open_tickets,
    pulled,
    said,
    served,
    soon,
    worked_off,
)
from tests.stories.stage import Stage, events, story

COUNT = Expectations(output_schema={"type": "object", "required": ["count"]})


@story
async def a_worker_that_accepts_may_give_its_own_deadline(stage: Stage) -> None:
    async def takes(claim: TicketClaim) -> None:
        await claim.accept(estimated_completion=30)
        await claim.complete("Three.")

    for mode in MODES:
        team = office(stage, pulled("clerk"))
        ticket = await team.submit(package(mode=mode, conversation=mode))
        assert came(await brought(stage, team, ticket, clerk=takes)) == ("clerk", DONE[mode], "Three.")
        [accepted] = await events(team, HandoffAccepted, mode)
        assert (accepted.by, accepted.estimate) == ("worker", 30)


@story
async def a_worker_that_brings_a_result_has_accepted(stage: Stage) -> None:
    async def brings_at_once(claim: TicketClaim) -> None:
        await claim.complete("Three.")

    for mode in MODES:
        team = office(stage, pulled("clerk"))
        ticket = await team.submit(package(mode=mode, conversation=mode))
        assert came(await brought(stage, team, ticket, clerk=brings_at_once)) == ("clerk", DONE[mode], "Three.")
        assert len(await events(team, HandoffAccepted, mode)) == 1


@story
async def half_a_character_in_what_a_worker_says_holds_nothing_up(stage: Stage) -> None:
    works = {"brings": brings("Three \ud83d"), "declines": declines("closed \ud83d"), "breaks": breaks("torn \ud83d")}
    for mode in MODES:
        said, team = {}, office(stage, *map(pulled, works))
        for name, work in works.items():
            ticket = await team.submit(package(name, mode=mode, conversation=f"{mode}-{name}"))
            doing: dict[str, Any] = {name: work}
            result = await brought(stage, team, ticket, **doing)
            said[name] = result.result or result.reason or result.error
            await assert_at_rest(team, f"{mode}-{name}")
        assert (said["brings"], said["declines"]) == ("Three ?", "closed ?")
        assert "torn ?" in said["breaks"]


@story
async def a_ticket_that_a_worker_rejects_goes_to_the_next_candidate(stage: Stage) -> None:
    for mode in MODES:
        team = office(stage, pulled("clerk"), pulled("second"), Agent("deputy"))
        path = Context(escalation_path=("second", "deputy"))
        ticket = await team.submit(package(mode=mode, conversation=mode, context=path))
        no: dict[str, Any] = {id: declines(f"{id} is closed") for id in ("clerk", "second")}
        result = await brought(stage, team, ticket, **no, deputy=brings("Four."))
        assert (came(result), result.reason) == (("deputy", DONE[mode], "Four."), "")
        assert attempts(result, await team.handoffs(mode)) == [
            *(("clerk", "REJECTED", 1), ("second", "REJECTED", 2), ("deputy", DONE[mode], 3)),
        ]
        status = await team.status(ticket)
        assert (status.agent, status.state, status.chain[0].error) == ("deputy", DONE[mode], "clerk is closed")


@story
async def a_person_who_is_next_is_asked_at_once_and_has_no_ticket_to_claim(stage: Stage) -> None:
    for mode in MODES:
        team = office(stage, pulled("clerk"), Person("ana"))
        path = Context(escalation_path=("ana",))
        ticket = await team.submit(package(mode=mode, conversation=mode, context=path))
        result = await brought(stage, team, ticket, Respond("Four."), clerk=declines("not today"))
        assert came(result) == ("ana", DONE[mode], "Four.")
        assert [each.queued for each in await events(team, HandoffOffered, mode)] == [True, False]
        await assert_at_rest(team, mode)


@story
async def an_agent_that_a_worker_suggests_is_asked_first(stage: Stage) -> None:
    for mode in MODES:
        team = office(stage, pulled("clerk"), pulled("other"), pulled("deputy"))
        path = Context(escalation_path=("other",))
        ticket = await team.submit(package(mode=mode, conversation=mode, context=path))
        works: dict[str, Any] = {"clerk": declines("not mine", "deputy"), "deputy": brings("Four.")}
        assert came(await brought(stage, team, ticket, **works)) == ("deputy", DONE[mode], "Four.")


@story
async def a_rejection_by_the_only_candidate_is_reported_to_the_sender(stage: Stage) -> None:
    for mode in MODES:
        team = office(stage, pulled("clerk"))
        ticket = await team.submit(package(mode=mode, conversation=mode))
        result = await brought(stage, team, ticket, clerk=declines("not today"))
        assert (came(result), result.reason) == (("clerk", "REJECTED", ""), "not today")
        await assert_at_rest(team, mode)


@story
async def a_model_whose_handoff_a_worker_rejects_still_has_the_task(stage: Stage) -> None:
    result = await said(stage, desk(stage), "charged twice", billing=declines("not today"))
    assert result.output == "billing did not take it: not today; you still have the task"
    assert (result.final_agent, chain(result), result.ledger.handoffs) == ("triage", [("billing", "REJECTED", 1)], 0)


def unwanted(stage: Stage) -> tuple[Team, dict[str, Work]]:
    """Triage hands over to billing, then sales, then tech; workers of all three do not want it, those of `late` do."""
    three = ("billing", "sales", "tech")
    way = handoff("billing", alternatives=["sales", "tech", "late"])
    model = cast(triage=tries(hands_off("billing", "refund")))
    team = stage.team([triage(way), *(pulled(id) for id in (*three, "late"))], model)
    return team, {**{id: declines(f"{id} is closed") for id in three}, "late": brings("Refunded.")}


@story
async def a_ticket_that_three_workers_reject_is_put_before_a_person(stage: Stage) -> None:
    three = [("billing", "REJECTED", 1), ("sales", "REJECTED", 2), ("tech", "REJECTED", 3)]
    ends: dict[str, tuple[Any, str, str, list[Any]]] = {
        "hands-on": (Edit(receiver="late"), "Refunded.", "late", [("late", "COMPLETE", 4)]),
        "answers": (Respond("In cash."), "ana answered: In cash.", "triage", []),
        "gives-back": (Reject("say sorry"), "given back by ana: say sorry", "triage", []),
    }
    for where, (decision, output, agent, more) in ends.items():
        team, works = unwanted(stage)
        result = await said(stage, team, "charged twice", decision, {"conversation": where}, **works)
        assert (result.output, result.final_agent, chain(result)) == (output, agent, [*three, *more])


@story
async def the_sender_is_told_which_context_a_worker_needs_and_may_offer_again(stage: Stage) -> None:
    way = handoff("billing", variables=[Variable("order", "integer", required=False)])
    turns = [hands_off("billing", "refund"), hands_off("billing", "refund", order=17)]
    team = stage.team([triage(way), pulled("billing")], cast(triage=tries(*turns)))

    async def asks_for_the_order(claim: TicketClaim) -> None:
        if "order" in claim.package.context.variables:
            assert claim.package.metadata.attempt == 2 or stage.lives > 1
            await claim.complete(f"Refunded {claim.package.context.variables['order']}.")
        else:
            await claim.conditional(needs_more_context=["order"])

    result = await said(stage, team, "charged twice", billing=asks_for_the_order)
    assert (result.output, chain(result)) == ("Refunded 17.", [("billing", "RETURNED", 1), ("billing", "COMPLETE", 2)])
    [asked] = await events(team, HandoffConditional)
    assert asked.needs_context == ("order",)


def needs_permission(team: Team) -> Work:
    """Ask for a permission before it is taken; bring it when that was given."""

    async def work(claim: TicketClaim) -> None:
        if (await team.status(claim.ticket)).state == "PENDING":
            await claim.conditional(needs_permission=["spend 5"])
        else:
            await claim.complete("Three.")

    return work


@story
async def a_permission_that_a_worker_needs_is_asked_for_and_then_any_worker_may_go_on(stage: Stage) -> None:
    for mode in MODES:
        team = office(stage, pulled("clerk"))
        ticket = await team.submit(package(mode=mode, conversation=mode))
        await worked_off(stage, team, "clerk", needs_permission(team))
        if stage.lives == 1:
            [request] = await team.approvals(mode)
            assert (request.kind, request.arguments) == ("permission", {"permission": ["spend 5"]})
            status = await team.status(ticket)
            assert (status.state, status.owner, status.rests) == ("PENDING", "", True)
        result = await brought(stage, team, ticket, Approve(), clerk=needs_permission(team))
        assert came(result) == ("clerk", DONE[mode], "Three.")
        assert [accepted.by for accepted in await events(team, HandoffAccepted, mode)] == ["ana"]


@story
async def a_permission_that_a_worker_needs_may_be_refused(stage: Stage) -> None:
    for mode in MODES:
        team = office(stage, pulled("clerk"))
        ticket = await team.submit(package(mode=mode, conversation=mode))
        result = await brought(stage, team, ticket, Reject("too dear"), clerk=needs_permission(team))
        assert (came(result), result.reason) == (("clerk", "REJECTED", ""), "too dear")
        assert await team.claim("clerk") == []


@story
async def a_claim_that_is_renewed_holds_for_longer(stage: Stage) -> None:
    team = office(stage, pulled("clerk"))
    ticket = await team.submit(package())

    async def until() -> float:
        [queued] = await team.log.queue.tickets(ticket.id)
        assert queued.until is not None
        return queued.until

    async def renews(claim: TicketClaim) -> None:
        for accepted in (False, True):
            if accepted:
                await claim.accept()
            before = await until()
            await asyncio.sleep(0.02)
            await claim.heartbeat()
            assert await until() > before
        assert (await team.status(ticket)).attempts == 1
        await claim.complete("Three.")

    assert (await brought(stage, team, ticket, clerk=renews)).result == "Three."


@story
async def a_caller_that_waits_is_told_why_a_worker_failed(stage: Stage) -> None:
    for mode in MODES:
        team = office(stage, pulled("clerk"))
        ticket = await team.submit(package(mode=mode, conversation=mode))
        result = await brought(stage, team, ticket, clerk=breaks("the press is down"))
        assert came(result) == ("clerk", "FAILED", "")
        assert result.error == "the worker of 'clerk' gave up: the press is down"
        assert (await team.status(ticket)).state == "FAILED"
        assert await team.claim("clerk") == []
        await assert_at_rest(team, mode)


@story
async def a_model_whose_delegates_worker_fails_is_told_why(stage: Stage) -> None:
    team = stage.team([boss(), pulled("clerk")], cast(boss=asks(delegates("clerk", "count"))))
    result = await said(stage, team, "how many?", clerk=breaks("the press is down"))
    [back] = came_back(result)
    assert (back.success, back.error) == (False, "the worker of 'clerk' gave up: the press is down")
    assert chain(result) == [("clerk", "FAILED", 1)]


@story
async def a_run_whose_receivers_worker_fails_has_failed(stage: Stage) -> None:
    failing = said(stage, desk(stage), "charged twice", billing=breaks("the press is down"))
    told = await error(WorkerError, failing)
    assert (told.agent, str(told)) == ("billing", "the worker of 'billing' gave up: the press is down")
    assert told.result is not None
    assert chain(told.result) == [("billing", "FAILED", 1)]


@story
async def a_ticket_that_is_given_back_before_acceptance_counts_as_never_claimed(stage: Stage) -> None:
    for mode in MODES:
        team = office(stage, pulled("clerk"))
        ticket = await team.submit(package(mode=mode, conversation=mode))
        for claim in await stage.claim(team, "clerk"):
            await claim.give_back("too busy")
            status = await team.status(claim.ticket)
            assert (status.state, status.owner, status.attempts) == ("PENDING", "", 0)
        assert came(await brought(stage, team, ticket, clerk=brings("Three."))) == ("clerk", DONE[mode], "Three.")
        assert await events(team, TicketLapsed, mode) == [] or stage.lives > 1


@story
async def a_ticket_that_is_given_back_after_acceptance_waits_for_the_next_worker(stage: Stage) -> None:
    for mode in MODES:
        team = office(stage, pulled("clerk"))
        ticket = await team.submit(package(mode=mode, conversation=mode))
        for claim in await stage.claim(team, "clerk"):
            await claim.accept()
            await claim.give_back("too busy")
            status = await team.status(claim.ticket)
            assert (status.state, status.owner, status.attempts) == ("PENDING", "", 0)
        assert came(await brought(stage, team, ticket, clerk=brings("Three."))) == ("clerk", DONE[mode], "Three.")
        lapsed = {(event.ticket, event.reason, event.by) for event in await events(team, TicketLapsed, mode)}
        assert lapsed == {(ticket.id, "too busy", "worker")}
        assert await events(team, TicketTaken, mode) != []
        assert len(await events(team, HandoffAccepted, mode)) == 1


@story
async def an_accepted_ticket_cannot_be_rejected(stage: Stage) -> None:
    async def regrets(claim: TicketClaim) -> None:
        await claim.accept()
        for what in ("reject", "conditional"):
            assert (await error(IllegalTransition, DOING[what](claim))).state == "WORKING"
        await claim.complete("Three.")

    for mode in MODES:
        team = office(stage, pulled("clerk"))
        ticket = await team.submit(package(mode=mode, conversation=mode))
        assert came(await brought(stage, team, ticket, clerk=regrets)) == ("clerk", DONE[mode], "Three.")


@story
async def a_result_that_is_not_what_was_expected_is_asked_for_again_through_the_queue(stage: Stage) -> None:
    async def mends(claim: TicketClaim) -> None:
        told = any(said.role == "note" for said in claim.package.context.history)
        await claim.accept()
        if told:
            await claim.complete('{"count": 3}')
        else:
            await error(ExpectationError, claim.complete("three or so"))
            await claim.give_back("somebody else may do better")

    for mode in MODES:
        team = office(stage, pulled("clerk"))
        ticket = await team.submit(package(mode=mode, conversation=mode, expectations=COUNT))
        assert came(await brought(stage, team, ticket, clerk=mends)) == ("clerk", DONE[mode], '{"count": 3}')
        assert len(await events(team, RepairAsked, mode)) == 1


async def misses(claim: TicketClaim) -> None:
    """Bring a result that is not what was expected, and leave the rest to others."""
    await claim.accept()
    await error(ExpectationError, claim.complete("three or so"))
    with suppress(ClaimLost):  # the second time it has failed
        await claim.give_back()


@story
async def a_result_that_is_twice_not_what_was_expected_has_failed(stage: Stage) -> None:
    for mode in MODES:
        team = office(stage, pulled("clerk"))
        ticket = await team.submit(package(mode=mode, conversation=mode, expectations=COUNT))
        result = await brought(stage, team, ticket, clerk=misses)
        assert (result.state, "not what was expected" in result.error) == ("FAILED", True)
        assert await open_tickets(team, mode) == []


@story
async def a_ticket_whose_result_is_being_judged_cannot_be_claimed(stage: Stage) -> None:
    hold = Hold()

    async def is_good(text: str) -> bool:
        await hold.on()
        return "good" in text

    ways = [delegate("clerk", expects=Expects(criteria=[is_good]))]
    team = stage.team([boss(*ways), pulled("clerk")], cast(boss=asks(delegates("clerk", "count"))))

    async def is_judged() -> bool:
        await assert_alive(team)
        return hold.begun.is_set()

    if stage.lives > 1:  # it may be judged at once, before the test can release it
        hold.let_go.set()
    await stage.say(team, "how many?")
    for claim in await stage.claim(team, "clerk") if stage.lives == 1 else ():
        completing = asyncio.ensure_future(claim.complete("bad"))
        await soon(is_judged)
        assert await stage.claim(team, "clerk") == [], "there is nothing to do until it is judged"
        hold.let_go.set()
        await error(ExpectationError, completing)
        await claim.give_back()
    hold.let_go.set()
    result = await served(stage, team, "how many?", clerk=brings("good"))
    [back] = came_back(result)
    assert (back.success, back.response) == (True, "good")
