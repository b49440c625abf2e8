"""Stories of tasks that all receivers decline: a person picks a receiver, answers, or gives them back."""

import json
from typing import Any

from changeover import (
    Agent,
    Approve,
    Command,
    Edit,
    Function,
    Person,
    Reject,
    Respond,
    RunResult,
    Team,
    Variable,
    delegate,
    handoff,
)
from changeover.errors import HandoffRefusedError
from changeover.guards.approval import Decision
from changeover.relay.events import HandoffOffered
from changeover.testing import delegates, hands_off, says
from tests.stories.answers import chain, declines, follow_each_other, tells, triage, tries
from tests.stories.approvals import asked, decided, must_wait, refused_decision, settled
from tests.stories.delegates import asks, boss, came_back, cast
from tests.stories.rejections import sends
from tests.stories.stage import CONVERSATION, Stage, events, story

THREE = [("billing", "REJECTED", 1), ("sales", "REJECTED", 2), ("tech", "REJECTED", 3)]


def unwilling(*ids: str) -> list[Agent]:
    return [Agent(id, accepts=declines(f"{id} is closed"), handoffs=()) for id in ids]


def desk(stage: Stage, *more: Agent | Person) -> Team:
    """Triage hands over to billing, then to sales, then to tech, and all decline."""
    way = handoff("billing", alternatives=["sales", "tech", "late"])
    members = [*unwilling("billing", "sales", "tech"), Agent("late", handoffs=())]
    model = cast(triage=tries(hands_off("billing", "refund")), late=tells)
    return stage.team([triage(way), *members, *more], model)


def shown(result: RunResult, call: str, sender: str, receiver: str) -> None:
    """The request shows the receivers that were asked, and why the last one declined."""
    for request in result.requests:
        assert (request.kind, request.call, request.agent, request.receiver) == ("escalation", call, sender, receiver)
        assert request.arguments["reason"] == f"{receiver} is closed"
        assert request.arguments["declined"][-1] == receiver


@story
async def a_task_that_three_receivers_decline_is_put_before_a_person(stage: Stage) -> None:
    team = desk(stage)
    waiting = await stage.say(team, "charged twice")
    must_wait(stage, waiting)
    shown(waiting, "3.0+2=escalation", "triage", "tech")
    for request in waiting.requests:
        assert (request.arguments["declined"], request.message) == (["billing", "sales", "tech"], "refund")
        assert [each.id for each in await team.approvals(CONVERSATION)] == [request.id]
        assert (chain(waiting), waiting.final_agent) == (THREE, "triage")
    result = await settled(stage, team, waiting, lambda request: Respond("The bank is closed."))
    assert len(await events(team, HandoffOffered)) == 3
    assert (result.output, result.final_agent, result.ledger.handoffs) == (
        *("ana answered: The bank is closed.", "triage", 0),
    )


@story
async def a_person_picks_another_receiver_for_a_task_that_all_declined(stage: Stage) -> None:
    result = await decided(stage, desk(stage), Edit(receiver="late"), "charged twice")
    assert (result.output, result.final_agent) == ("transferred to late", "late")
    assert chain(result) == [*THREE, ("late", "COMPLETE", 4)]
    assert follow_each_other(result.handoff_chain)


@story
async def a_person_gives_back_a_task_that_all_declined(stage: Stage) -> None:
    result = await decided(stage, desk(stage), Reject("say sorry"), "charged twice")
    assert (result.output, result.final_agent, chain(result)) == ("given back by ana: say sorry", "triage", THREE)


@story
async def a_person_may_pick_an_agent_that_declined_before(stage: Stage) -> None:
    team = desk(stage)
    result = await decided(stage, team, lambda request: pick(request.call), "charged twice")
    assert chain(result) == [*THREE, ("billing", "REJECTED", 4), ("late", "COMPLETE", 5)]
    assert [request.call for request in await asked(team)] == ["3.0+2=escalation", "3.0+3=escalation"]


def pick(call: str) -> Edit:
    """Pick a receiver that declines once more, then one that accepts."""
    return Edit(receiver="billing" if call == "3.0+2=escalation" else "late")


@story
async def a_person_may_pick_a_person(stage: Stage) -> None:
    def rule(request: Any) -> Decision:
        return Edit(receiver="boss") if request.kind == "escalation" else Respond("I did it myself.")

    result = await decided(stage, desk(stage, Person("boss")), rule, "charged twice")
    assert (result.output, result.final_agent) == ("I did it myself.", "boss")
    assert chain(result) == [*THREE, ("boss", "COMPLETE", 4)]


@story
async def an_escalation_is_answered_in_ways_that_fit_it(stage: Stage) -> None:
    team = desk(stage)
    waiting = await stage.say(team, "charged twice")
    must_wait(stage, waiting)
    for request in waiting.requests:
        told = await refused_decision(team, request, Approve())
        assert "approved is no answer to an escalation" in told
        assert "Edit(receiver=…)" in told
        assert "'nobody'" in await refused_decision(team, request, Edit(receiver="nobody"))
        assert "receiver" in await refused_decision(team, request, Edit())
        assert "no arguments" in await refused_decision(team, request, Edit(arguments={}, receiver="late"))
        assert [each.id for each in await team.approvals()] == [request.id]
    result = await settled(stage, team, waiting, lambda request: Edit(receiver="late"))
    [request] = await asked(team)
    await team.decide(request, Edit(receiver="late"), by="ana")
    assert await refused_decision(team, request, Respond("no")) == "this was edited already, by ana"
    assert result.final_agent == "late"


@story
async def after_three_rejected_offers_a_person_is_asked(stage: Stage) -> None:
    turns = [hands_off(receiver, "refund") for receiver in ("billing", "sales", "tech")]
    team = stage.team([triage(), *unwilling("billing", "sales", "tech")], cast(triage=tries(*turns)))
    waiting = await stage.say(team, "charged twice")
    must_wait(stage, waiting)
    shown(waiting, "11.0=escalation", "triage", "tech")
    result = await settled(stage, team, waiting, lambda request: Respond("Paid in cash."))
    assert chain(result) == THREE
    assert follow_each_other(result.handoff_chain)
    assert result.output.split(" | ") == [
        "billing did not take it: billing is closed; you still have the task",
        "sales did not take it: sales is closed; you still have the task",
        "ana answered: Paid in cash.",
    ]


@story
async def after_three_offers_without_the_required_context_a_person_is_asked(stage: Stage) -> None:
    turns = [hands_off("billing", f"refund {n}") for n in (1, 2, 3)]
    team = stage.team([triage(), Agent("billing", requires=[Variable("order")])], cast(triage=tries(*turns)))
    result = await decided(stage, team, Reject("ask the user"), "charged twice")
    assert chain(result) == [("billing", "RETURNED", attempt) for attempt in (1, 2, 3)]
    assert result.output.endswith("given back by ana: ask the user")
    [request] = await asked(team)
    assert (request.kind, request.arguments["reason"]) == ("escalation", "it has to know order")


@story
async def a_task_that_was_given_back_may_be_offered_again_and_is_escalated_at_once(stage: Stage) -> None:
    turns = [hands_off(receiver, "refund") for receiver in ("billing", "sales", "tech", "billing", "late")]
    team = stage.team(
        [triage(), *unwilling("billing", "sales", "tech"), Agent("late")],
        cast(triage=tries(*turns), late=says("Done.")),
    )
    result = await decided(stage, team, Reject("try again"), "charged twice")
    assert chain(result) == [*THREE, ("billing", "REJECTED", 4), ("late", "COMPLETE", 5)]
    assert [request.kind for request in await asked(team)] == ["escalation"] * 2
    assert result.output == "Done."


def office(stage: Stage) -> Team:
    """The boss gives a task to a clerk, then a deputy, then a temp, and all decline; a scribe works meanwhile."""
    ways = [delegate("clerk", alternatives=["deputy", "temp"]), delegate("scribe")]
    turn = asks(delegates("clerk", "count"), delegates("scribe", "write"))
    model = cast(boss=turn, scribe=says("Written."), late=says("Three."))
    members = [*unwilling("clerk", "deputy", "temp"), Agent("scribe"), Agent("late")]
    return stage.team([boss(*ways), *members], model)


async def settle_delegate(stage: Stage, decision: Decision) -> RunResult:
    """What comes of a task that no delegate wants if a person decides so."""
    team = office(stage)
    waiting = await stage.say(team, "how many?")
    must_wait(stage, waiting)
    shown(waiting, "3.0+2=escalation", "boss", "temp")
    result = await settled(stage, team, waiting, lambda request: decision)
    _, scribe = came_back(result)
    assert (scribe.agent, scribe.response, result.final_agent) == ("scribe", "Written.", "boss")
    return result


@story
async def a_person_picks_another_delegate_for_a_task_that_all_declined(stage: Stage) -> None:
    result = await settle_delegate(stage, Edit(receiver="late"))
    back = came_back(result)[0]
    assert (back.handoff_id, back.agent, back.success, back.response) == ("story:3.0+3", "late", True, "Three.")
    assert [(each.receiver, each.attempt) for each in result.handoff_chain if each.attempt == 4] == [("late", 4)]


@story
async def a_person_answers_in_place_of_delegates_that_declined(stage: Stage) -> None:
    back = came_back(await settle_delegate(stage, Respond("Four.")))[0]
    assert (back.agent, back.success, back.response, back.error) == ("ana", True, "Four.", "")


@story
async def a_person_gives_back_a_task_that_all_delegates_declined(stage: Stage) -> None:
    back = came_back(await settle_delegate(stage, Reject("count it yourself")))[0]
    assert (back.success, back.response, back.error) == (False, "", "given back by ana: count it yourself")


@story
async def a_task_that_a_delegates_delegates_decline_is_escalated_in_the_delegates_conversation(stage: Stage) -> None:
    members = [
        boss(delegate("lead")),
        Agent("lead", handoffs=[delegate("clerk", alternatives=["deputy", "temp"])]),
        *unwilling("clerk", "deputy", "temp"),
    ]
    model = cast(boss=asks(delegates("lead", "count")), lead=asks(delegates("clerk", "count")))
    team = stage.team(members, model)
    waiting = await stage.say(team, "how many?")
    must_wait(stage, waiting)
    for request in waiting.requests:
        assert (request.kind, request.conversation) == ("escalation", f"{CONVERSATION}/3.0")
    result = await settled(stage, team, waiting, lambda request: Respond("Four."))
    [back] = came_back(result)
    assert json.loads(back.response)["response"] == "Four."


def function_desk(stage: Stage) -> Team:
    """A function hands over to billing, which does not want it."""
    members = [*unwilling("billing"), Agent("late", handoffs=())]
    return stage.team([Function("desk", lambda ctx: Command(goto="billing")), *members], cast(late=says("Done.")))


async def failed(stage: Stage, team: Team, decision: Decision, text: str = "charged twice") -> HandoffRefusedError:
    """How a run fails that waits for a person who decides so."""
    try:
        waiting = await stage.say(team, text)
        must_wait(stage, waiting)
        for request in waiting.requests:
            await team.decide(request, decision, by="ana")
        # Not by `resume`, which would try it once more.
        await team.run(text, conversation=CONVERSATION, key="say-1")
    except HandoffRefusedError as error:
        stage.outcomes[1] = error
        return error
    raise AssertionError("it did not fail")


@story
async def a_handoff_from_code_that_all_decline_is_put_before_a_person_at_once(stage: Stage) -> None:
    team = function_desk(stage)
    waiting = await stage.say(team, "charged twice")
    must_wait(stage, waiting)
    shown(waiting, "2=escalation", "desk", "billing")
    result = await settled(stage, team, waiting, lambda request: Edit(receiver="late"))
    assert (result.output, chain(result)) == ("Done.", [("billing", "REJECTED", 1), ("late", "COMPLETE", 2)])


@story
async def a_person_may_answer_what_code_handed_over(stage: Stage) -> None:
    result = await decided(stage, function_desk(stage), Respond("We call you back."), "charged twice")
    assert (result.output, result.status, chain(result)) == (
        *("We call you back.", "completed", [("billing", "REJECTED", 1)]),
    )


@story
async def a_handoff_from_code_that_is_given_back_has_failed(stage: Stage) -> None:
    error = await failed(stage, function_desk(stage), Reject("nobody is here"))
    assert "given back by ana: nobody is here" in str(error)
    assert error.result is not None
    assert chain(error.result) == [("billing", "REJECTED", 1)]


@story
async def a_branch_that_all_decline_returns_as_a_person_decides(stage: Stage) -> None:
    turn = {"guest": "second", "second": "third"}
    members = [
        Agent(id, accepts=declines(f"{id} is closed", turn.get(id)), handoffs=()) for id in ("guest", "second", "third")
    ]
    cook = Agent("cook", handoffs=())
    team = stage.team([sends("guest", "cook"), *members, cook], cast(cook=says("Tea.")))
    waiting = await stage.say(team, "tea, please")
    must_wait(stage, waiting)
    shown(waiting, "2.0+2=escalation", "fan", "third")
    result = await settled(stage, team, waiting, lambda request: Respond("Here is coffee."))
    assert result.output == "ana: Here is coffee. | cook: Tea."


@story
async def a_branch_that_all_decline_goes_to_the_agent_that_a_person_picks(stage: Stage) -> None:
    turn = {"guest": "second", "second": "third"}
    members = [
        Agent(id, accepts=declines(f"{id} is closed", turn.get(id)), handoffs=()) for id in ("guest", "second", "third")
    ]
    cook = Agent("cook", handoffs=())
    team = stage.team([sends("guest"), *members, cook], cast(cook=says("Tea.")))
    result = await decided(stage, team, Edit(receiver="cook"), "tea, please")
    assert (result.output, chain(result)[-1]) == ("cook: Tea.", ("cook", "RETURNED", 4))
