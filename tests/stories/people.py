"""Stories of people as members: a task waits until the person answers it, rejects it or hands it on."""

from collections.abc import Sequence
from typing import Any

from changeover import Agent, ApprovalRequest, Edit, Person, Reject, Respond, RunResult, Team, Variable, handoff
from changeover.guards.approval import Decision
from changeover.messages import Message
from changeover.relay.events import HandoffAccepted, HandoffOffered, HandoffRejected
from changeover.testing import Reply, hands_off, says
from tests.stories.answers import chain, follow_each_other, triage, tries
from tests.stories.approvals import asked, must_wait, settled
from tests.stories.delegates import cast
from tests.stories.escalations import failed
from tests.stories.stage import CONVERSATION, Stage, events, story

ANA = Person("ana", description="Knows the contracts.")
LAWYER = hands_off("ana", "May we refund?")


def desk(stage: Stage, *ways: Any, **options: Any) -> Team:
    """Triage hands over to ana, who is a person; there is also tech."""
    model = cast(triage=tries(LAWYER), tech=says("tech did it"))
    return stage.team([triage(*ways), ANA, Agent("tech", handoffs=())], model, **options)


async def waits(stage: Stage, team: Team, text: str, **options: Any) -> RunResult:
    """Say something that a person has to do something about."""
    waiting = await stage.say(team, text, **options)
    must_wait(stage, waiting)
    return waiting


async def by_ana(stage: Stage, team: Team, decision: Decision, text: str, **options: Any) -> RunResult:
    """Say something, and let a person do this about it."""
    return await settled(stage, team, await waits(stage, team, text, **options), lambda request: decision)


@story
async def a_person_who_receives_a_conversation_answers_it(stage: Stage) -> None:
    team = desk(stage)
    result = await by_ana(stage, team, Respond("Yes, we may."), "refund!")
    assert (result.output, result.final_agent, result.status) == ("Yes, we may.", "ana", "completed")
    assert chain(result) == [("ana", "COMPLETE", 1)]
    [accepted] = await events(team, HandoffAccepted)
    assert (accepted.receiver, accepted.by) == ("ana", "ana")
    assert (await team.approvals(), result.usage.requests) == ([], 1)


@story
async def a_person_is_shown_what_is_handed_over(stage: Stage) -> None:
    way = handoff("ana", variables=[Variable("order", "integer")])
    model = cast(triage=tries(hands_off("ana", "May we refund?", order=17)))
    team = stage.team([triage(way), ANA], model)
    waiting = await waits(stage, team, "refund!")
    for request in waiting.requests:
        assert (request.kind, request.call, request.conversation) == ("task", "3.0=task", CONVERSATION)
        assert (request.agent, request.tool, request.receiver) == ("triage", "handoff_to_ana", "ana")
        assert (request.message, request.arguments, request.expires_at) == ("May we refund?", {"order": 17}, None)
        assert [each.id for each in await team.approvals(CONVERSATION)] == [request.id]
        assert (waiting.final_agent, waiting.output, chain(waiting)) == ("triage", "", [("ana", "PENDING", 1)])
    result = await settled(stage, team, waiting, lambda request: Respond("Yes."))
    assert (result.output, result.context["order"], result.context["_handoff_from"]) == ("Yes.", 17, "triage")


@story
async def a_person_rejects_what_is_handed_over(stage: Stage) -> None:
    team = desk(stage)
    result = await by_ana(stage, team, Reject("on holiday"), "refund!")
    assert result.output == "ana did not take it: on holiday; you still have the task"
    assert (result.final_agent, chain(result)) == ("triage", [("ana", "REJECTED", 1)])
    assert [each.by for each in await events(team, HandoffRejected)] == ["ana"]


@story
async def a_handoff_that_a_person_rejects_goes_to_the_alternative(stage: Stage) -> None:
    team = desk(stage, handoff("ana", alternatives=["tech"]))
    result = await by_ana(stage, team, Reject("on holiday"), "refund!")
    assert (result.output, chain(result)) == ("tech did it", [("ana", "REJECTED", 1), ("tech", "COMPLETE", 2)])


@story
async def a_person_hands_on_what_was_handed_over(stage: Stage) -> None:
    team = desk(stage)
    result = await by_ana(stage, team, Edit(receiver="tech"), "refund!")
    assert (result.output, result.final_agent) == ("tech did it", "tech")
    assert chain(result) == [("ana", "REJECTED", 1), ("tech", "COMPLETE", 2)]
    assert follow_each_other(result.handoff_chain)
    assert result.handoff_chain[0].error == "handed on to tech"
    assert [each.message for each in await events(team, HandoffOffered)] == ["May we refund?"] * 2


@story
async def a_person_may_hand_a_conversation_back_to_its_sender(stage: Stage) -> None:
    result = await by_ana(stage, desk(stage), Edit(receiver="triage"), "refund!")
    assert (result.output, result.final_agent) == ("transferred to triage", "triage")
    assert chain(result) == [("ana", "REJECTED", 1), ("triage", "COMPLETE", 2)]


@story
async def one_person_hands_on_to_another(stage: Stage) -> None:
    def rule(request: ApprovalRequest) -> Decision:
        return Edit(receiver="bob") if request.receiver == "ana" else Respond("Bob says no.")

    team = stage.team([triage(), ANA, Person("bob")], cast(triage=tries(LAWYER)))
    result = await settled(stage, team, await waits(stage, team, "refund!"), rule)
    assert (result.output, result.final_agent) == ("Bob says no.", "bob")
    assert [(request.call, request.receiver) for request in await asked(team)] == [
        ("3.0=task", "ana"),
        ("3.0+1=task", "bob"),
    ]


@story
async def the_next_message_goes_to_the_person_too(stage: Stage) -> None:
    team = desk(stage)
    await by_ana(stage, team, Respond("Yes, we may."), "refund!")
    waiting = await waits(stage, team, "and when?")
    for request in waiting.requests:
        assert (request.kind, request.receiver, request.message) == ("task", "ana", "and when?")
        assert request.call.endswith("=task")
        assert waiting.final_agent == "ana"
    result = await settled(stage, team, waiting, lambda request: Respond("On Monday."))
    assert (result.output, result.final_agent, result.handoff_chain) == ("On Monday.", "ana", [])
    for text in ("thanks", "bye"):
        assert (await by_ana(stage, team, Respond(f"Re: {text}"), text)).output == f"Re: {text}"
    assert len({request.id for request in await asked(team)}) == 4


@story
async def a_person_gives_a_later_message_back_to_the_sender(stage: Stage) -> None:
    def play(messages: Sequence[Message]) -> Reply:
        return LAWYER if len(messages) == 1 else says(messages[-1].text)

    team = stage.team([triage(), ANA, Agent("tech")], cast(triage=play))
    await by_ana(stage, team, Respond("Yes, we may."), "refund!")
    result = await by_ana(stage, team, Reject("tell them it is on its way"), "and when?")
    assert (result.output, result.final_agent) == ("tell them it is on its way", "triage")
    assert chain(result) == [("triage", "COMPLETE", 1)]


@story
async def a_person_hands_a_later_message_on(stage: Stage) -> None:
    team = desk(stage)
    await by_ana(stage, team, Respond("Yes, we may."), "refund!")
    result = await by_ana(stage, team, Edit(receiver="tech"), "and when?")
    assert (result.output, result.final_agent, chain(result)) == ("tech did it", "tech", [("tech", "COMPLETE", 1)])
    assert result.handoff_chain[0].sender == "ana"


@story
async def after_a_person_the_conversation_returns_if_it_is_declared_so(stage: Stage) -> None:
    def play(messages: Sequence[Message]) -> Reply:
        return LAWYER if len(messages) == 1 else says("Triage is here.")

    team = stage.team([triage(handoff("ana", return_to="triage")), ANA], cast(triage=play))
    first = await by_ana(stage, team, Respond("Yes, we may."), "refund!")
    assert first.final_agent == "ana"
    after = await stage.say(team, "thanks")
    assert (after.output, after.final_agent) == ("Triage is here.", "triage")


@story
async def a_person_may_be_the_first_of_a_team(stage: Stage) -> None:
    team = stage.team([ANA, Agent("tech", handoffs=())], cast(tech=says("tech did it")))
    waiting = await waits(stage, team, "hello", context={"plan": "gold"})
    for request in waiting.requests:
        assert (request.kind, request.call, request.agent, request.tool) == ("task", "2=task", "", "")
        assert (request.receiver, request.message, request.arguments) == ("ana", "hello", {"plan": "gold"})
        assert waiting.final_agent == "ana"
    first = await settled(stage, team, waiting, lambda request: Respond("Hello!"))
    assert (first.output, first.final_agent, first.handoff_chain) == ("Hello!", "ana", [])
    second = await by_ana(stage, team, Edit(receiver="tech"), "it broke")
    assert (second.output, second.final_agent, chain(second)) == ("tech did it", "tech", [("tech", "COMPLETE", 1)])
    assert (await stage.say(team, "thanks")).final_agent == "tech"
    back = await by_ana(stage, team, Respond("Good."), "all is well", agent="ana")
    assert (back.output, back.final_agent) == ("Good.", "ana")


@story
async def a_person_who_declines_a_message_that_was_not_handed_over_ends_the_run(stage: Stage) -> None:
    team = stage.team([ANA, Agent("tech")], cast(tech=says("tech did it")))
    error = await failed(stage, team, Reject("not my business"), "hello")
    assert "not my business" in str(error)
    assert error.result is not None
    assert (error.result.final_agent, error.result.handoff_chain) == ("ana", [])
