"""Stories of deadlines that pause while a person is awaited, and of time that passes while no team is open."""

import asyncio
from collections.abc import Sequence

import pytest

from changeover import Agent, Approve, Edit, Person, Respond, RunResult, Team, delegate, handoff
from changeover.agent.agent import Member
from changeover.errors import EngineError
from changeover.guards.approval import Decision
from changeover.messages import Message
from changeover.protocol import Conditional, HandoffPackage
from changeover.relay.events import ModelReplied
from changeover.testing import ManualClock, Reply, ScriptedModel, delegates, hands_off, says
from tests.stories.answers import chain, declines, tells, triage, tries
from tests.stories.approvals import PAY, must_wait, pays, same_store, settled
from tests.stories.cancellation import Hold, assert_at_rest, first_of
from tests.stories.delegates import asks, boss, came_back, cast
from tests.stories.stage import CONVERSATION, Stage, events, story
from tests.stories.timeouts import LATE, UNANSWERED, asking, keeps_working, runs_out, takes_place, time_is_up


async def after_a_night(stage: Stage, teams: Sequence[Team], clock: ManualClock, hold: Hold) -> RunResult:
    """Say something, close the team when the work is held up, and go on with another team ten minutes later."""
    before, after = teams
    if stage.lives > 1:
        return await runs_out(stage, after, clock, hold, 300)
    saying = asyncio.ensure_future(stage.say(before, "go"))
    await first_of(saying, hold.begun.wait)
    await before.close()
    with pytest.raises(EngineError, match="closed"):
        await saying
    hold.begun.clear()
    await clock.advance(600)
    result = stage.outcomes[1] = await after.resume(CONVERSATION)
    assert not hold.begun.is_set()
    return result


@story
async def a_deadline_that_passes_while_no_process_works_on_it_has_passed(stage: Stage) -> None:
    hold, clock, shared = Hold(), ManualClock(), same_store(stage)
    model = cast(boss=tries(delegates("clerk", "count")), clerk=keeps_working(hold))
    teams = [stage.team([boss(), Agent("clerk", handoffs=())], model, clock=clock, **shared) for _ in range(2)]
    result = await after_a_night(stage, teams, clock, hold)
    assert (chain(result), came_back(result)[0].error) == ([("clerk", "TIMEOUT", 1)], LATE)
    assert [each.agent for each in await events(teams[1], ModelReplied)] == ["boss", "boss"]
    await assert_at_rest(teams[1])


@story
async def a_receiver_that_was_not_asked_before_the_deadline_is_not_asked_after_it(stage: Stage) -> None:
    hold, clock, shared = Hold(), ManualClock(), same_store(stage)
    teams = [asking(stage, hold, clock, **shared) for _ in range(2)]
    result = await after_a_night(stage, teams, clock, hold)
    assert (result.final_agent, chain(result)) == ("triage", [("billing", "TIMEOUT", 1)])
    reasons = ["it was not asked before the deadline", *([UNANSWERED] if stage.lives > 1 else [])]
    assert result.output.removeprefix("billing did not take it: ") in reasons


async def days_later(stage: Stage, team: Team, clock: ManualClock, decision: Decision) -> RunResult:
    """Say something about which a person decides only days later, and go on from there."""
    waiting = await stage.say(team, "go")
    must_wait(stage, waiting)
    if waiting.status == "waiting":
        await clock.advance(200_000)
        assert (await team.resume(CONVERSATION)).status == "waiting"
    return await settled(stage, team, waiting, lambda request: decision)


async def after_days(
    stage: Stage, team: Team, clock: ManualClock, decision: Decision, hold: Hold | None = None
) -> RunResult:
    """A person decides days later; after that the agent has its full minute."""
    steps = [time_is_up(team, clock, hold, 60)] if hold else []
    return await takes_place(team, clock, days_later(stage, team, clock, decision), *steps)


def needs_permission(package: HandoffPackage) -> Conditional:
    return Conditional(needs_permission=("to begin",))


@story
async def a_transfer_does_not_expire_while_its_permission_is_awaited(stage: Stage) -> None:
    clock = ManualClock()
    model = cast(triage=tries(hands_off("billing", "refund")), billing=says("Refunded."))
    members = [triage(handoff("billing", timeout=60)), Agent("billing", accepts=needs_permission)]
    team = stage.team(members, model, clock=clock)
    result = await after_days(stage, team, clock, Approve())
    assert (result.output, chain(result)) == ("Refunded.", [("billing", "COMPLETE", 1)])


@story
async def a_delegate_does_not_expire_while_its_permission_is_awaited(stage: Stage) -> None:
    hold, clock = Hold(), ManualClock()
    clerk = Agent("clerk", accepts=needs_permission, handoffs=())
    model = cast(boss=asks(delegates("clerk", "count")), clerk=keeps_working(hold))
    team = stage.team([boss(delegate("clerk", timeout=60)), clerk], model, clock=clock)
    result = await after_days(stage, team, clock, Approve(), hold)
    assert (chain(result), came_back(result)[0].error) == ([("clerk", "TIMEOUT", 1)], LATE)


def payers(stage: Stage, clock: ManualClock, hold: Hold | None) -> Team:
    """A lead, and a clerk that has a minute to pay and needs approval."""

    async def clerk(messages: Sequence[Message]) -> Reply:
        found = tells(messages)
        if found.text and hold:
            await hold.on()
        return found if found.text else PAY

    members = [boss(delegate("clerk", timeout=60)), Agent("clerk", tools=[pays(stage)], handoffs=())]
    return stage.team(members, cast(boss=asks(delegates("clerk", "pay")), clerk=clerk), clock=clock)


@story
async def a_delegate_does_not_expire_while_it_waits_for_approval(stage: Stage) -> None:
    clock = ManualClock()
    result = await after_days(stage, payers(stage, clock, None), clock, Approve())
    [back] = came_back(result)
    assert (back.success, back.response, stage.did) == (True, "paid 500", ["paid 500"])


@story
async def a_delegate_has_the_rest_of_its_time_after_an_approval(stage: Stage) -> None:
    hold, clock = Hold(), ManualClock()
    team = payers(stage, clock, hold)
    result = await after_days(stage, team, clock, Approve(), hold)
    assert (chain(result), came_back(result)[0].error, stage.did) == ([("clerk", "TIMEOUT", 1)], LATE, ["paid 500"])


@story
async def a_delegate_does_not_expire_while_a_delegate_below_it_waits_for_approval(stage: Stage) -> None:
    hold, clock = Hold(), ManualClock()
    members = [
        boss(delegate("lead", timeout=60)),
        Agent("lead", handoffs=[delegate("clerk", timeout=None)]),
        Agent("clerk", tools=[pays(stage)], handoffs=()),
    ]

    async def lead(messages: Sequence[Message]) -> Reply:
        if tells(messages).text:
            await hold.on()
        return delegates("clerk", "pay")

    model = cast(boss=asks(delegates("lead", "pay")), lead=lead, clerk=asks(("pay", {"amount": 500})))
    team = stage.team(members, model, clock=clock)
    result = await after_days(stage, team, clock, Approve(), hold)
    assert chain(result) == [("lead", "TIMEOUT", 1), ("clerk", "RETURNED", 1)]
    assert (came_back(result)[0].error, stage.did) == (LATE, ["paid 500"])


@story
async def a_person_has_as_much_time_as_she_needs(stage: Stage) -> None:
    clock = ManualClock()
    members: list[Member] = [boss(delegate("ana", timeout=60)), Person("ana")]
    team = stage.team(members, cast(boss=asks(delegates("ana", "May we?"))), clock=clock)
    [back] = came_back(await after_days(stage, team, clock, Respond("Yes.")))
    assert (back.success, back.response) == (True, "Yes.")


@story
async def the_receiver_that_a_person_hands_on_to_has_all_the_time_of_the_handoff(stage: Stage) -> None:
    hold, clock = Hold(), ManualClock()
    members: list[Member] = [boss(delegate("ana", timeout=60)), Person("ana"), Agent("clerk", handoffs=())]
    model = cast(boss=asks(delegates("ana", "May we?")), clerk=keeps_working(hold))
    team = stage.team(members, model, clock=clock)
    result = await after_days(stage, team, clock, Edit(receiver="clerk"), hold)
    assert chain(result) == [("ana", "REJECTED", 1), ("clerk", "TIMEOUT", 2)]


@story
async def the_receiver_that_a_person_picks_has_all_the_time_of_the_handoff(stage: Stage) -> None:
    hold, clock = Hold(), ManualClock()
    way = delegate("a", alternatives=["b", "c"], timeout=60)
    unwilling = [Agent(id, accepts=declines("no"), handoffs=()) for id in ("a", "b", "c")]
    model = cast(boss=asks(delegates("a", "count")), clerk=keeps_working(hold))
    team = stage.team([boss(way), *unwilling, Agent("clerk", handoffs=())], model, clock=clock)
    result = await after_days(stage, team, clock, Edit(receiver="clerk"), hold)
    assert chain(result)[-1] == ("clerk", "TIMEOUT", 4)


async def overnight(stage: Stage, members: Sequence[Member], model: ScriptedModel) -> RunResult:
    """A person is asked, the process ends, and days later another one takes up what waits, before she decides."""
    clock, shared = ManualClock(), same_store(stage)
    before, after = (stage.team(members, model, clock=clock, **shared) for _ in range(2))
    if stage.lives > 1:
        return await after_days(stage, after, clock, Approve())
    waiting = await stage.say(before, "go")
    await before.close()
    await clock.advance(200_000)
    assert (await after.resume(CONVERSATION)).status == "waiting"
    return await settled(stage, after, waiting, lambda request: Approve())


@story
async def a_delegate_that_waits_for_a_person_does_not_expire_while_no_team_is_open(stage: Stage) -> None:
    members = [boss(delegate("clerk", timeout=60)), Agent("clerk", tools=[pays(stage)], handoffs=())]
    model = cast(boss=asks(delegates("clerk", "pay")), clerk=asks(("pay", {"amount": 500})))
    result = await overnight(stage, members, model)
    assert (chain(result), stage.did) == ([("clerk", "RETURNED", 1)], ["paid 500"])
    assert came_back(result)[0].response == "paid 500"


@story
async def a_delegate_above_one_that_waits_for_a_person_does_not_expire_while_no_team_is_open(stage: Stage) -> None:
    members = [
        boss(delegate("lead", timeout=60)),
        Agent("lead", handoffs=[delegate("clerk", timeout=60)]),
        Agent("clerk", tools=[pays(stage)], handoffs=()),
    ]
    model = cast(
        boss=asks(delegates("lead", "pay")),
        lead=asks(delegates("clerk", "pay")),
        clerk=asks(("pay", {"amount": 500})),
    )
    result = await overnight(stage, members, model)
    assert (chain(result), stage.did) == ([("lead", "RETURNED", 1), ("clerk", "RETURNED", 1)], ["paid 500"])
    assert came_back(result)[0].success
