"""Stories of packages that code submits to the queue of an agent, and of the order in which they are claimed."""

import asyncio
from datetime import UTC, datetime
from typing import Any

from changeover import Agent, Function, Person, Respond, RunContext, Team
from changeover.errors import Busy, HandoffNotFound, KeyConflict, UnknownAgentError
from changeover.guards.approval import Decision, Reject
from changeover.protocol import Context, Priority, State, Ticket, TicketClaim
from changeover.relay.events import HandoffAccepted
from changeover.relay.ports.queue import SPACING
from changeover.testing import ManualClock, delegates
from tests.stories.cancellation import assert_at_rest
from tests.stories.delegates import asks, boss, cast
from tests.stories.offers import DONE, MODES, office, package
from tests.stories.service import brings, came, error, outcome, pulled, worked_off
from tests.stories.stage import Stage, events, story


async def is_still_open(team: Team, ticket: Ticket | str) -> bool:
    """True if the result of a ticket is not there yet."""
    return "can be asked for again" in str(await error(TimeoutError, team.result(ticket, timeout=0.02)))


@story
async def a_submitted_package_waits_until_a_worker_claims_it(stage: Stage) -> None:
    for mode in MODES:
        team = office(stage, Agent("clerk"))
        ticket = await team.submit(package(mode=mode, conversation=mode))
        id, place = (f"{mode}:2.0", f"{mode}/2.0") if mode == "delegate" else (f"{mode}:2", mode)
        assert (ticket.id, ticket.agent, ticket.conversation, ticket.place) == (id, "clerk", mode, place)
        if stage.lives == 1:
            assert await is_still_open(team, ticket)
            status = await team.status(ticket)
            assert (status.state, status.agent, status.owner, status.attempts) == ("PENDING", "clerk", "", 0)
        await worked_off(stage, team, "clerk", brings("Three."))
        result = await outcome(team, ticket)
        assert (came(result), result.handoff_id) == (("clerk", DONE[mode], "Three."), ticket.id)
        assert (await team.status(ticket)).state == DONE[mode]
        await assert_at_rest(team, mode)


@story
async def a_caller_that_waits_for_a_result_gets_it_when_it_is_there(stage: Stage) -> None:
    for mode in MODES:
        team = office(stage, Agent("clerk"))
        ticket = await team.submit(package(mode=mode, conversation=mode))
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(outcome(team, ticket.id))
            await worked_off(stage, team, "clerk", brings("Three."))
        assert came(waiting.result()) == ("clerk", DONE[mode], "Three.")


@story
async def a_package_may_be_submitted_to_an_agent_that_is_pulled(stage: Stage) -> None:
    for mode in MODES:
        team = office(stage, pulled("clerk"))
        ticket = await team.submit(package(mode=mode, conversation=mode).to_dict(), key="mine")
        await worked_off(stage, team, "clerk", brings("Three."))
        assert came(await outcome(team, ticket)) == ("clerk", DONE[mode], "Three.")


@story
async def a_package_that_is_offered_to_an_agent_that_is_pulled_says_that_it_waits(stage: Stage) -> None:
    for mode in MODES:
        team, given = office(stage, pulled("clerk")), package(mode=mode, conversation=mode)
        waiting = await team.offer(given)
        if stage.lives == 1:
            assert (waiting.state, waiting.reason, waiting.result) == (State.PENDING, "waits for clerk", "")
            assert [awaited.kind for awaited in waiting.pending] == ["claim"]
        await worked_off(stage, team, "clerk", brings("Three."))
        assert came(await team.offer(given)) == ("clerk", DONE[mode], "Three.")


@story
async def nothing_is_submitted_where_something_else_is_to_be_done_first(stage: Stage) -> None:
    async def answers(claim: TicketClaim) -> None:
        # A later life may find the second ticket where the first one waited.
        await brings("Three." if claim.package.metadata.idempotency_key == "first" else "Four.")(claim)

    team = office(stage, pulled("clerk"))
    first, second = [package(conversation="one", idempotency_key=key) for key in ("first", "second")]
    ticket = await team.submit(first)
    if (await team.status(ticket)).state is State.PENDING:
        before = len(await team.history("one"))
        assert "at work on something else" in str(await error(Busy, team.submit(second)))
        assert (await team.submit(first), len(await team.history("one"))) == (ticket, before)
    await worked_off(stage, team, "clerk", answers)
    assert (await team.result(ticket)).result == "Three."
    ticket = await team.submit(second)
    await worked_off(stage, team, "clerk", answers)
    assert (await team.result(ticket)).result == "Four."


@story
async def a_package_that_is_offered_while_another_waits_is_not_called_cancelled(stage: Stage) -> None:
    for mode in MODES:
        team = office(stage, pulled("clerk"))
        first, second = [package(mode=mode, conversation=mode, idempotency_key=key) for key in ("first", "second")]
        await team.submit(first)
        result = waiting = await team.offer(second)
        if stage.lives == 1:
            assert (waiting.state, waiting.reason) == (State.PENDING, "waits until what was wanted before it is done")
            assert [awaited.kind for awaited in waiting.pending] == ["claim"]
        while result.state in (State.PENDING, State.WORKING):  # claimed by a worker of an earlier life
            for claim in await stage.claim(team, "clerk"):
                await brings("Three.")(claim)
            result = await team.offer(second)
        assert came(result) == ("clerk", DONE[mode], "Three.")


@story
async def the_same_key_gives_the_same_ticket(stage: Stage) -> None:
    team = office(stage, Agent("clerk"))
    first, second = await asyncio.gather(*(team.submit(package(conversation=""), key="once") for _ in range(2)))
    assert first.id == second.id
    assert await worked_off(stage, team, "clerk", brings("Three.")) <= 1
    later = await team.submit(package(conversation=""), key="once")
    assert (later.id, later.agent, later.place) == (first.id, first.agent, first.place)
    assert came(await outcome(team, later)) == ("clerk", "RETURNED", "Three.")
    assert await team.claim("clerk") == []


@story
async def another_package_with_the_same_key_is_an_error(stage: Stage) -> None:
    team = office(stage, Agent("clerk"), Agent("deputy"))
    ticket = await team.submit(package(), key="once")
    for other in (package(text="count them again"), package("deputy"), package(priority=5)):
        told = await error(KeyConflict, team.submit(other, key="once"))
        assert (told.key, "'once' was used before" in str(told)) == ("once", True)
    await worked_off(stage, team, "clerk", brings("Three."))
    assert (await outcome(team, ticket)).result == "Three."


@story
async def an_unknown_id_has_no_ticket(stage: Stage) -> None:
    team = office(stage, Agent("clerk"))
    await stage.say(team, "hello")
    for id in ("story:9.9", "nowhere:2.0"):
        for ask in (team.status, team.result):
            assert (await error(HandoffNotFound, ask(id))).handoff == id


@story
async def a_claim_for_an_unknown_agent_is_refused(stage: Stage) -> None:
    team = office(stage, Agent("clerk"))
    assert "clerk" in str(await error(UnknownAgentError, stage.claim(team, "nobody")))
    assert await stage.claim(team, "clerk") == []


def at(clock: ManualClock, seconds: float) -> datetime:
    return datetime.fromtimestamp(clock.now() + seconds, UTC)


@story
async def the_highest_priority_comes_first_then_the_earliest_deadline_then_the_oldest(stage: Stage) -> None:
    clock = ManualClock()
    team = stage.team([Agent("desk"), pulled("clerk")], cast(), clock=clock)
    soon, late = at(clock, 1_000), at(clock, 9_000)
    orders: dict[str, dict[str, Any]] = {
        "old": {},
        "low": {"priority": Priority.LOW, "deadline": soon},
        "young": {},
        "late": {"deadline": late},
        "soon": {"deadline": soon},
        "urgent": {"priority": Priority.URGENT},
        "high": {"priority": "high", "deadline": late},
        "eleven": {"priority": 11},
    }
    for name, metadata in orders.items():
        await team.submit(package(text=name, conversation=name, **metadata))
        await clock.advance(1)
    expected = ["urgent", "eleven", "high", "soon", "late", "old", "young", "low"]
    taken: list[str] = []

    async def counts(claim: TicketClaim) -> None:
        name = claim.package.task.description
        if not await events(team, HandoffAccepted, name):  # else its deadline is met, and orders no more
            taken.append(name)
        await claim.complete("Three.")

    await worked_off(stage, team, "clerk", counts, limit=3)
    assert taken == expected or (stage.lives > 1 and taken == [name for name in expected if name in taken])
    assert await team.claim("clerk") == []


@story
async def a_conversation_with_many_tickets_does_not_delay_the_others(stage: Stage) -> None:
    clock = ManualClock()
    turn = asks(*(delegates("clerk", f"fan {number}") for number in range(3)))
    team = stage.team([boss(), pulled("clerk")], cast(boss=turn), clock=clock)
    await stage.say(team, "how many?")
    await clock.advance(SPACING / 2)
    await team.submit(package(text="single", conversation="single"))
    taken: list[str] = []

    async def counts(claim: TicketClaim) -> None:
        taken.append(claim.package.task.description)
        await claim.complete("Three.")

    await worked_off(stage, team, "clerk", counts)
    expected = ["fan 0", "single", "fan 1", "fan 2"]
    assert taken == expected or (stage.lives > 1 and taken == [name for name in expected if name in taken])
    assert (await stage.say_again(team, "how many?")).status == "completed"


@story
async def a_claim_for_one_agent_gets_no_ticket_of_another(stage: Stage) -> None:
    team = office(stage, pulled("clerk"), pulled("deputy"))
    other = await team.submit(package("clerk", conversation="a"))
    mine = await team.submit(package("deputy", conversation="b", priority=Priority.LOW))
    assert await worked_off(stage, team, "deputy", brings("Four.")) <= 1
    assert came(await outcome(team, mine)) == ("deputy", "RETURNED", "Four.")
    await worked_off(stage, team, "clerk", brings("Three."))
    assert came(await outcome(team, other)) == ("clerk", "RETURNED", "Three.")


@story
async def a_ticket_is_claimed_once_by_many_concurrent_workers(stage: Stage) -> None:
    team = office(stage, pulled("clerk"))
    names = [f"c{number}" for number in range(6)]
    for name in names:
        await team.submit(package(text=name, conversation=name))
    found = await asyncio.gather(*(stage.claim(team, "clerk", limit=2) for _ in range(6)))
    taken = [claim.package.task.description for claims in found for claim in claims]
    assert sorted(taken) == names or (stage.lives > 1 and len(taken) == len(set(taken)))
    for claims in found:
        for claim in claims:
            await claim.complete(claim.package.task.description)
    for name in names:
        assert (await outcome(team, f"{name}:2.0")).result == name


@story
async def a_package_may_be_submitted_to_a_function_and_the_worker_answers_for_it(stage: Stage) -> None:
    def clerk(ctx: RunContext) -> str:
        raise AssertionError("whoever claimed it does it")

    for mode in MODES:
        team = office(stage, Function("clerk", clerk))
        ticket = await team.submit(package(mode=mode, conversation=mode))
        await worked_off(stage, team, "clerk", brings("Three."))
        assert came(await outcome(team, ticket)) == ("clerk", DONE[mode], "Three.")


async def decided(stage: Stage, mode: str, decision: Decision) -> tuple[Team, Ticket]:
    """A package that is submitted to ana, a person, who decides so."""
    team = office(stage, Person("ana"))
    ticket = await team.submit(package("ana", mode=mode, conversation=mode))
    requests = await team.approvals(mode)
    assert requests or stage.lives > 1
    for request in requests:
        assert (request.kind, request.receiver) == ("task", "ana")
        assert (await team.status(ticket)).state == "PENDING"
        await team.decide(request, decision, by="ana")
    assert await stage.claim(team, "ana") == []
    return team, ticket


@story
async def a_package_submitted_to_a_person_is_in_the_inbox(stage: Stage) -> None:
    for mode in MODES:
        team, ticket = await decided(stage, mode, Respond("Five."))
        assert came(await outcome(team, ticket)) == ("ana", DONE[mode], "Five.")


@story
async def a_person_may_decline_a_submitted_package(stage: Stage) -> None:
    for mode in MODES:
        team, ticket = await decided(stage, mode, Reject("on holiday"))
        result = await outcome(team, ticket)
        assert (came(result), result.reason) == (("ana", "REJECTED", ""), "on holiday")


@story
async def the_same_key_gives_the_same_ticket_even_if_another_agent_has_it_by_now(stage: Stage) -> None:
    team = office(stage, Agent("clerk"), Agent("deputy"))
    order = package(context=Context(escalation_path=("deputy",)))
    ticket = await team.submit(order, key="once")
    for claim in await stage.claim(team, "clerk"):
        await claim.reject("closed")
    assert (await team.submit(order, key="once")).id == ticket.id
    await worked_off(stage, team, "deputy", brings("Three."))
    assert (await team.submit(order, key="once")).id == ticket.id
    assert (await outcome(team, ticket)).result == "Three."
