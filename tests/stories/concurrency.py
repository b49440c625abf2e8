"""Stories of answers that arrive during other calls, other runs, limits and cancellations."""

import asyncio
from collections.abc import Sequence
from typing import Any

from changeover import Agent, Limits, RunResult, delegate, tool
from changeover.errors import MaxHandoffsExceededError
from changeover.messages import Message
from changeover.protocol import HandoffPackage, State
from changeover.relay.events import HandoffAccepted, HandoffOffered, HandoffRejected, HandoffReturned, ToolFinished
from changeover.testing import Reply, calls, delegates, hands_off, says
from tests.stories.answers import REFUND, chain, declines, tells, triage, tries
from tests.stories.cancellation import Hold, assert_at_rest, ended_at, first_of
from tests.stories.delegates import Says, asks, boss, came_back, cast, read, results
from tests.stories.stage import CONVERSATION, Stage, events, story


@tool(read_only=True)
def look() -> str:
    """Look."""
    return "looked"


@story
async def the_other_calls_of_a_turn_are_done_although_its_handoff_is_rejected(stage: Stage) -> None:
    turn = calls(REFUND, ("look", {}), hands_off("tech", "repair"), delegates("clerk", "count"))
    model = cast(triage=tries(turn), clerk=says("Three."))
    ways = ["billing", "tech", delegate("clerk")]
    others = [Agent("tech"), Agent("clerk"), Agent("billing", accepts=declines("closed"))]
    team = stage.team([triage(*ways, tools=[look]), *others], model)
    result = await stage.say(team, "charged twice")
    refund, looked, repair, counted = result.output.split(" | ")
    assert refund == "billing did not take it: closed; you still have the task"
    assert (looked, read(counted).response) == ("looked", "Three.")
    assert repair == "ignored: this conversation already goes to billing"
    assert chain(result) == [("clerk", "RETURNED", 1), ("billing", "REJECTED", 1)]
    assert result.final_agent == "triage"
    own = [type(each.event) for each in await team.history(CONVERSATION) if each.conversation == CONVERSATION]
    asked = own.index(HandoffRejected)
    assert own.index(ToolFinished) < asked
    assert own.index(HandoffReturned) < asked


@story
async def the_other_calls_of_a_turn_are_done_before_its_handoff_is_accepted(stage: Stage) -> None:
    def accepts(package: HandoffPackage) -> bool:
        stage.effects.append("asked")
        return True

    @tool
    def save() -> str:
        """Save."""
        stage.effects.append("saved")
        return "saved"

    turn = calls(REFUND, ("save", {}), hands_off("tech", "repair"))
    model = cast(triage=tries(turn), billing=tells)
    team = stage.team([triage(tools=[save]), Agent("billing", accepts=accepts), Agent("tech")], model)
    result = await stage.say(team, "charged twice")
    transferred, saved, ignored = result.output.split(" | ")
    assert (transferred, saved) == ("transferred to billing", "saved")
    assert ignored == "ignored: this conversation already goes to billing"
    assert (chain(result), stage.did) == ([("billing", "COMPLETE", 1)], ["saved", "asked"])


@story
async def a_delegate_that_rejects_does_not_hold_up_the_one_beside_it(stage: Stage) -> None:
    turn = asks(delegates("clerk", "count"), delegates("scribe", "write"))
    model = cast(boss=turn, scribe=says("Written."))
    members = [boss(delegate("clerk"), delegate("scribe")), Agent("clerk", accepts=declines("no")), Agent("scribe")]
    result = await stage.say(stage.team(members, model), "count and write")
    assert [(back.agent, back.success) for back in came_back(result)] == [("clerk", False), ("scribe", True)]
    assert {(each.receiver, each.state) for each in result.handoff_chain} == {
        ("clerk", State.REJECTED),
        ("scribe", State.RETURNED),
    }


@story
async def a_delegate_is_told_that_its_own_delegate_rejected(stage: Stage) -> None:
    def clerk(messages: Sequence[Message]) -> Reply:
        found = results(messages)
        return says(f"Without help: {read(found[0].text).error}") if found else delegates("expert", "count")

    members = [
        boss(),
        Agent("clerk", handoffs=[delegate("expert")]),
        Agent("expert", accepts=declines("too easy"), handoffs=()),
    ]
    team = stage.team(members, cast(boss=asks(delegates("clerk", "count")), clerk=clerk))
    result = await stage.say(team, "how many?")
    [back] = came_back(result)
    assert (back.success, back.response) == (True, "Without help: expert did not take it: too easy")
    assert [(each.sender, each.receiver, each.state) for each in await team.handoffs(CONVERSATION)] == [
        ("boss", "clerk", State.RETURNED),
        ("clerk", "expert", State.REJECTED),
    ]
    assert (result.ledger.handoffs, result.ledger.agents) == (1, 2)


@story
async def a_rejected_handoff_does_not_count_against_a_limit(stage: Stage) -> None:
    model = cast(triage=tries(REFUND, hands_off("tech", "refund")), tech=says("Done."))
    members = [triage(), Agent("billing", accepts=declines("no")), Agent("tech")]
    team = stage.team(members, model, limits=Limits(max_handoffs=1))
    result = await stage.say(team, "charged twice")
    assert (result.output, result.ledger.handoffs) == ("Done.", 1)
    assert chain(result) == [("billing", "REJECTED", 1), ("tech", "COMPLETE", 2)]


@story
async def a_limit_that_is_reached_is_reached_also_after_a_rejected_handoff(stage: Stage) -> None:
    model = cast(triage=tries(REFUND, hands_off("tech", "refund")), tech=hands_off("triage", "back"))
    members = [triage(), Agent("billing", accepts=declines("no")), Agent("tech")]
    team = stage.team(members, model, limits=Limits(max_handoffs=1))
    error = await stage.error(MaxHandoffsExceededError, team, "charged twice")
    assert error.result is not None
    assert chain(error.result) == [("billing", "REJECTED", 1), ("tech", "FAILED", 2)]
    assert error.result.ledger.handoffs == 1


@story
async def delegates_that_were_rejected_leave_room_for_others_under_the_limit(stage: Stage) -> None:
    turns = [delegates("clerk", "a"), delegates("deputy", "b"), delegates("clerk", "c"), delegates("deputy", "d")]
    model = cast(boss=tries(*turns), deputy=says("Done."))
    members = [boss(delegate("clerk"), delegate("deputy")), Agent("clerk", accepts=declines("no")), Agent("deputy")]
    result = await stage.say(stage.team(members, model, limits=Limits(max_handoffs=2)), "go")
    assert [back.success for back in came_back(result)] == [False, True, False, True]
    assert (result.ledger.handoffs, [h.state for h in result.handoff_chain]) == (
        *(2, ["REJECTED", "RETURNED", "REJECTED", "RETURNED"]),
    )


async def at_once(stage: Stage, *ways: Any) -> RunResult:
    """The boss asks a clerk, who can do one thing at a time, for two at once."""

    async def clerk(messages: Sequence[Message]) -> Reply:
        await asyncio.sleep(0.05)
        return says(f"{messages[-1].text} done")

    model = cast(boss=asks(delegates("clerk", "one"), delegates("clerk", "two")), clerk=clerk, deputy=says("deputised"))
    members = [boss(*ways), Agent("clerk", max_concurrency=1), Agent("deputy")]
    return await stage.say(stage.team(members, model), "both")


@story
async def an_agent_with_a_capacity_of_one_does_not_take_a_second_task(stage: Stage) -> None:
    backs = came_back(await at_once(stage))
    # Which of them it takes is its own affair. In a later life one may be done before the other is asked for.
    assert sorted(back.success for back in backs) == [False, True] or (stage.lives > 1 and backs[0].success)
    full = "clerk did not take it: it works on 1 tasks, which is all it can do at once"
    for task, back in zip(("one", "two"), backs, strict=True):
        assert (back.response, back.error) in ((f"{task} done", ""), ("", full))


@story
async def a_task_for_an_agent_without_capacity_goes_to_the_alternative(stage: Stage) -> None:
    result = await at_once(stage, delegate("clerk", alternatives=["deputy"]))
    backs = came_back(result)
    assert [back.success for back in backs] == [True, True]
    if stage.lives == 1:
        assert sorted(back.agent for back in backs) == ["clerk", "deputy"]
        assert sorted(chain(result)) == [("clerk", "REJECTED", 1), ("clerk", "RETURNED", 1), ("deputy", "RETURNED", 2)]


@story
async def an_agent_at_its_capacity_takes_the_next_user_when_the_first_is_done(stage: Stage) -> None:
    hold = Hold()

    async def billing(messages: Sequence[Message]) -> Reply:
        if messages[0].text == "first":
            await hold.on()
        return says("Refunded.")

    team = stage.team([triage(), Agent("billing", max_concurrency=1)], cast(triage=tries(REFUND), billing=billing))
    async with asyncio.TaskGroup() as group:
        saying = group.create_task(stage.say(team, "first", conversation="one"))
        await first_of(saying, hold.begun.wait)
        second = await stage.say(team, "second", conversation="two")
        hold.let_go.set()
    assert (saying.result().output, saying.result().final_agent) == ("Refunded.", "billing")
    if stage.lives == 1:
        assert "it works on 1 tasks" in second.output
    third = await stage.say(team, "third", conversation="three")
    assert (third.output, chain(third)) == ("Refunded.", [("billing", "COMPLETE", 1)])
    offered = await events(team, HandoffOffered, "three")
    assert [each.attempt for each in offered] == [1]


async def cancelled_while_asked(stage: Stage, sender: Agent, turn: Says) -> RunResult:
    """How a run ends that is cancelled while a receiver thinks about what it is offered."""
    hold = Hold()

    async def accepts(package: HandoffPackage) -> bool:
        await hold.on()
        return True

    team = stage.team([sender, Agent("clerk", accepts=accepts)], cast(**{sender.id: turn}))
    result = await ended_at(stage, team, hold.begun.wait)
    hold.let_go.set()
    assert (result.status, result.final_agent, chain(result)) == ("cancelled", sender.id, [("clerk", "RETURNED", 1)])
    assert await events(team, HandoffAccepted) == []
    await assert_at_rest(team)
    return result


@story
async def a_run_is_cancelled_while_a_receiver_thinks_about_taking_over(stage: Stage) -> None:
    await cancelled_while_asked(stage, triage(), tries(hands_off("clerk", "refund")))


@story
async def a_run_is_cancelled_while_a_delegate_thinks_about_its_task(stage: Stage) -> None:
    await cancelled_while_asked(stage, boss(), asks(delegates("clerk", "count")))
