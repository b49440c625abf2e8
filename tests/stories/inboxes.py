"""Stories of people's inboxes: delegated tasks, and the decisions that fit them."""

import json
from typing import Any

import pytest

from changeover import (
    Agent,
    ApprovalRequest,
    Approve,
    Command,
    Edit,
    Function,
    Limits,
    Person,
    Reject,
    Respond,
    RunResult,
    Team,
    delegate,
    handoff,
)
from changeover.agent.agent import Member
from changeover.errors import ApprovalError
from changeover.guards.approval import Decision
from changeover.protocol import State
from changeover.relay.events import ApprovalRequested
from changeover.testing import calls, delegates, hands_off, says
from tests.stories.answers import chain, triage, tries
from tests.stories.approvals import asked, refused_decision, settled
from tests.stories.cancellation import assert_at_rest
from tests.stories.delegates import asks, boss, came_back, cast
from tests.stories.people import ANA, LAWYER, by_ana, desk, waits
from tests.stories.rejections import sends
from tests.stories.stage import CONVERSATION, Stage, events, story


def office(stage: Stage, **options: Any) -> Team:
    """The boss asks ana and, beside her, a clerk."""
    ways = [delegate("ana", **options), delegate("clerk")]
    turn = asks(delegates("ana", "May we?", "They paid twice."), delegates("clerk", "count"))
    members: list[Member] = [boss(*ways), ANA, Agent("clerk", handoffs=()), Agent("deputy", handoffs=())]
    return stage.team(members, cast(boss=turn, clerk=says("Three."), deputy=says("Deputised.")))


async def asks_ana(stage: Stage, decision: Decision, **options: Any) -> RunResult:
    """What comes back from ana, if she does this."""
    team = office(stage, **options)
    waiting = await waits(stage, team, "may we?")
    for request in waiting.requests:
        assert (request.kind, request.conversation, request.call) == ("task", CONVERSATION, "3.0=task")
        assert (request.agent, request.tool, request.receiver) == ("boss", "delegate_to_ana", "ana")
        assert request.message == "May we?"
    result = await settled(stage, team, waiting, lambda request: decision)
    clerk = came_back(result)[1]
    assert (clerk.agent, clerk.response, result.final_agent) == ("clerk", "Three.", "boss")
    return result


@story
async def a_person_answers_what_is_delegated_to_her(stage: Stage) -> None:
    result = await asks_ana(stage, Respond("Yes."))
    back = came_back(result)[0]
    assert (back.handoff_id, back.agent, back.success, back.response) == ("story:3.0", "ana", True, "Yes.")
    assert {(each.receiver, each.state) for each in result.handoff_chain} == {
        ("ana", State.RETURNED),
        ("clerk", State.RETURNED),
    }


@story
async def a_person_rejects_what_is_delegated_to_her(stage: Stage) -> None:
    result = await asks_ana(stage, Reject("on holiday"))
    back = came_back(result)[0]
    assert (back.agent, back.success, back.error) == ("ana", False, "ana did not take it: on holiday")
    assert ("ana", "REJECTED", 1) in chain(result)


@story
async def a_person_hands_on_what_is_delegated_to_her(stage: Stage) -> None:
    result = await asks_ana(stage, Edit(receiver="deputy"))
    back = came_back(result)[0]
    assert (back.handoff_id, back.agent, back.response) == ("story:3.0+1", "deputy", "Deputised.")
    assert {("ana", "REJECTED", 1), ("deputy", "RETURNED", 2)} <= set(chain(result))


@story
async def a_task_that_a_person_rejects_is_delegated_to_the_alternative(stage: Stage) -> None:
    result = await asks_ana(stage, Reject("on holiday"), alternatives=["deputy"])
    assert (came_back(result)[0].agent, came_back(result)[0].response) == ("deputy", "Deputised.")


@story
async def the_answer_of_a_person_may_be_final(stage: Stage) -> None:
    team = stage.team([boss(delegate("ana", final=True)), ANA], cast(boss=asks(delegates("ana", "May we?"))))
    result = await by_ana(stage, team, Respond("Yes, we may."), "may we?")
    assert (result.output, result.final_agent, result.usage.requests) == ("Yes, we may.", "ana", 1)


@story
async def a_person_may_be_the_alternative(stage: Stage) -> None:
    model = cast(triage=tries(hands_off("tech", "refund")))
    members: list[Member] = [triage(handoff("tech", alternatives=["ana"])), Agent("tech", accepts_handoffs=False), ANA]
    result = await by_ana(stage, stage.team(members, model), Respond("Done."), "refund!")
    assert (result.output, chain(result)) == ("Done.", [("tech", "REJECTED", 1), ("ana", "COMPLETE", 2)])


@story
async def a_handoff_that_is_approved_may_be_given_to_a_person_instead(stage: Stage) -> None:
    def rule(request: ApprovalRequest) -> Decision:
        return Edit(receiver="ana") if request.kind == "approval" else Respond("Done.")

    model = cast(triage=tries(hands_off("tech", "refund")))
    team = stage.team([triage(handoff("tech", approval=True)), Agent("tech"), ANA], model)
    result = await settled(stage, team, await waits(stage, team, "refund!"), rule)
    assert (result.output, chain(result)) == ("Done.", [("ana", "COMPLETE", 1)])


@story
async def two_people_are_asked_at_once_and_may_answer_in_any_order(stage: Stage) -> None:
    ways, turn = [delegate("ana"), delegate("bob")], asks(delegates("ana", "a?"), delegates("bob", "b?"))
    team = stage.team([boss(*ways), ANA, Person("bob")], cast(boss=turn))
    waiting = await waits(stage, team, "ask them")
    if len(waiting.requests) == 2:
        first, second = waiting.requests
        await team.decide(second, Respond("bob says b"), by="bob")
        still = await team.resume(CONVERSATION)
        assert [each.id for each in still.requests] == [first.id]
    rest = await team.resume(CONVERSATION)
    result = await settled(stage, team, rest, lambda request: Respond(f"{request.receiver} says {request.message[0]}"))
    stage.outcomes[1] = result
    assert [(back.agent, back.response) for back in came_back(result)] == [("ana", "ana says a"), ("bob", "bob says b")]


@story
async def a_person_is_asked_by_a_delegate(stage: Stage) -> None:
    members: list[Member] = [boss(delegate("clerk")), Agent("clerk", handoffs=[delegate("ana"), "ana"]), ANA]
    model = cast(boss=asks(delegates("clerk", "ask")), clerk=asks(delegates("ana", "May we?")))
    team = stage.team(members, model)
    waiting = await waits(stage, team, "may we?")
    for request in waiting.requests:
        assert (request.conversation, request.agent) == (f"{CONVERSATION}/3.0", "clerk")
        assert [each.id for each in await team.approvals(CONVERSATION)] == [request.id]
    result = await settled(stage, team, waiting, lambda request: Respond("Yes."))
    [back] = came_back(result)
    assert json.loads(back.response)["response"] == "Yes."


@story
async def a_delegate_may_hand_its_task_over_to_a_person(stage: Stage) -> None:
    members: list[Member] = [boss(delegate("clerk")), Agent("clerk", handoffs=["ana"]), ANA]
    team = stage.team(members, cast(boss=asks(delegates("clerk", "ask")), clerk=LAWYER))
    result = await by_ana(stage, team, Respond("Yes."), "may we?")
    [back] = came_back(result)
    assert (back.agent, back.success, back.response, result.final_agent) == ("clerk", True, "Yes.", "boss")


@story
async def a_function_hands_over_to_a_person(stage: Stage) -> None:
    team = stage.team([Function("desk", lambda ctx: Command(goto="ana")), ANA])
    result = await by_ana(stage, team, Respond("Yes."), "may we?")
    assert (result.output, result.final_agent, chain(result)) == ("Yes.", "ana", [("ana", "COMPLETE", 1)])


@story
async def a_handoff_from_a_function_that_a_person_rejects_is_put_before_a_person(stage: Stage) -> None:
    def rule(request: ApprovalRequest) -> Decision:
        return Reject("on holiday") if request.kind == "task" else Respond("We call you back.")

    team = stage.team([Function("desk", lambda ctx: Command(goto="ana")), ANA])
    result = await settled(stage, team, await waits(stage, team, "may we?"), rule)
    assert (result.output, [request.kind for request in await asked(team)]) == (
        *("We call you back.", ["task", "escalation"]),
    )


@story
async def a_person_may_be_a_branch(stage: Stage) -> None:
    team = stage.team([sends("ana", "cook"), ANA, Agent("cook", handoffs=())], cast(cook=says("Tea.")))
    waiting = await waits(stage, team, "tea, please")
    result = await settled(stage, team, waiting, lambda request: Respond("No tea for me."))
    assert result.output == "ana: No tea for me. | cook: Tea."


@story
async def a_task_is_done_in_ways_that_fit_it(stage: Stage) -> None:
    team = desk(stage)
    waiting = await waits(stage, team, "refund!")
    for request in waiting.requests:
        told = await refused_decision(team, request, Approve())
        assert "approved is no answer to a task" in told
        assert "Respond(…)" in told
        assert "'nobody'" in await refused_decision(team, request, Edit(receiver="nobody"))
        assert "no arguments" in await refused_decision(team, request, Edit(arguments={"order": 1}))
        assert "receiver" in await refused_decision(team, request, Edit())
        assert [each.id for each in await team.approvals()] == [request.id]
    result = await settled(stage, team, waiting, lambda request: Respond("Yes."))
    [request] = await asked(team)
    await team.decide(request, Respond("Yes."), by="ana")
    for other in (Respond("No."), Reject("no"), Edit(receiver="tech")):
        assert await refused_decision(team, request, other) == "this was responded already, by ana"
    assert "by ana" in await refused_decision(team, request, Respond("Yes."), by="bob")
    assert result.output == "Yes."


@story
async def a_later_message_is_answered_once(stage: Stage) -> None:
    team = stage.team([ANA])
    result = await by_ana(stage, team, Respond("Hello!"), "hello")
    [request] = await asked(team)
    await team.decide(request.id, Respond("Hello!"), by="ana")
    assert await refused_decision(team, request, Respond("Bye!")) == "this was responded already, by ana"
    assert (result.output, len(await events(team, ApprovalRequested))) == ("Hello!", 1)


@story
async def a_program_may_answer_for_people(stage: Stage) -> None:
    def ask(request: ApprovalRequest) -> Decision | None:
        return Respond(f"Yes: {request.message}") if request.kind == "task" else None

    team = desk(stage, ask=ask)
    first = await stage.say(team, "refund!")
    assert (first.output, first.final_agent) == ("Yes: May we refund?", "ana")
    assert (await stage.say(team, "and when?")).output == "Yes: and when?"


@story
async def a_person_is_asked_only_when_the_handoff_is_approved(stage: Stage) -> None:
    def rule(request: ApprovalRequest) -> Decision:
        return Approve() if request.kind == "approval" else Respond("Yes.")

    team = desk(stage, handoff("ana", approval=True))
    result = await settled(stage, team, await waits(stage, team, "refund!"), rule)
    assert [(request.kind, request.call) for request in await asked(team)] == [
        ("approval", "3.0"),
        ("task", "3.0=task"),
    ]
    assert (result.output, result.final_agent) == ("Yes.", "ana")


@story
async def the_other_calls_of_a_turn_are_done_before_a_person_is_asked(stage: Stage) -> None:
    def look() -> str:
        """Look."""
        stage.effects.append("looked")
        return "looked"

    turn = calls(LAWYER, ("look", {}), hands_off("tech", "repair"))
    team = stage.team([triage(tools=[look]), ANA, Agent("tech")], cast(triage=tries(turn)))
    waiting = await waits(stage, team, "refund!")
    assert stage.did == ["looked"]
    result = await settled(stage, team, waiting, lambda request: Reject("no"))
    assert result.output.split(" | ") == [
        "ana did not take it: no; you still have the task",
        "looked",
        "ignored: this conversation already goes to ana",
    ]


@story
async def a_handoff_that_a_person_takes_counts_and_one_she_rejects_does_not(stage: Stage) -> None:
    limits = Limits(max_handoffs=1)
    model = cast(triage=tries(LAWYER, hands_off("tech", "repair")), tech=says("Repaired."))
    team = stage.team([triage(), ANA, Agent("tech")], model, limits=limits)
    result = await by_ana(stage, team, Reject("no"), "refund!")
    assert (result.output, result.ledger.handoffs) == ("Repaired.", 1)


async def cancelled(stage: Stage, team: Team) -> RunResult:
    """How a run ends that is cancelled while a person is awaited; she cannot answer any more."""
    result = await waits(stage, team, "go")
    if result.status == "waiting":
        assert await team.cancel(CONVERSATION)
        result = stage.outcomes[1] = await team.resume(CONVERSATION)
    [request] = await asked(team)
    with pytest.raises(ApprovalError, match="the run ended"):
        await team.decide(request, Respond("too late"))
    await assert_at_rest(team)
    assert (result.status, result.output) == ("cancelled", "")
    return result


@story
async def a_run_is_cancelled_while_a_person_is_asked_to_take_over(stage: Stage) -> None:
    result = await cancelled(stage, desk(stage))
    assert (result.final_agent, chain(result)) == ("triage", [("ana", "RETURNED", 1)])


@story
async def a_run_is_cancelled_while_a_person_works_for_it(stage: Stage) -> None:
    result = await cancelled(stage, office(stage))
    assert result.final_agent == "boss"
    assert ("ana", "RETURNED", 1) in chain(result)


@story
async def a_run_is_cancelled_while_a_person_owes_the_answer(stage: Stage) -> None:
    result = await cancelled(stage, stage.team([ANA]))
    assert (result.final_agent, result.handoff_chain) == ("ana", [])


@story
async def a_message_that_comes_while_a_person_is_awaited_waits_for_her_too(stage: Stage) -> None:
    team = stage.team([ANA])
    first = await waits(stage, team, "one")
    second = await stage.say(team, "two")
    if first.status == "waiting":
        assert (second.status, [each.id for each in second.requests]) == (
            *("waiting", [each.id for each in first.requests]),
        )
        for request in first.requests:
            await team.decide(request, Respond("Re: one"), by="ana")
    result = await settled(stage, team, await team.resume(CONVERSATION), lambda request: Respond("Re: two"))
    answered = await team.run("one", conversation=CONVERSATION, key="say-1")
    stage.outcomes |= {1: answered, 2: result}
    assert [answered.output, result.output] == ["Re: one", "Re: two"]
    assert [request.message for request in await asked(team)] == ["one", "two"]


@story
async def a_model_is_told_which_receivers_are_people(stage: Stage) -> None:
    members: list[Member] = [triage("ana", "bob", delegate("bob")), ANA, Person("bob", name="Bob")]
    await stage.say(stage.team(members, cast(triage=says("Nothing to do."))), "hello")
    for request in stage.requests("triage"):
        generic, ask_bob = request.tools
        assert "- ana: Knows the contracts.\n- bob: Bob, a person" in generic.description
        assert "Bob, a person" in ask_bob.description
