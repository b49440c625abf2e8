"""Stories of rejected handoffs: which receiver is asked next, and what the sender is told."""

from collections.abc import Sequence
from typing import Any

from changeover import Agent, Command, Function, RunContext, Send, Team, delegate, handoff
from changeover.messages import Message
from changeover.protocol import HandoffPackage, Rejected
from changeover.relay.events import CallRefused, HandoffOffered
from changeover.testing import Reply, calls, delegates, hands_off, says
from tests.stories.answers import chain, declines, follow_each_other, tells, triage, tries
from tests.stories.delegates import asks, boss, came_back, cast
from tests.stories.stage import CONVERSATION, Stage, events, story

REFUND = hands_off("billing", "refund")


def asked_in(stage: Stage, id: str, reason: str = "", suggested: str | None = None) -> Agent:
    """A member that notes that it was asked, and declines if it is given a reason."""

    def accepts(package: HandoffPackage) -> Rejected | bool:
        stage.effects.append(id)
        return Rejected(reason, suggested) if reason else True

    return Agent(id, accepts=accepts, handoffs=())


def desk(stage: Stage, *members: Agent, alternatives: Sequence[str] = ()) -> Team:
    """Triage hands over to billing or, if billing does not want it, to the alternatives."""
    model = cast(
        triage=tries(hands_off("billing", "refund")), **{member.id: says(f"{member.id} did it") for member in members}
    )
    return stage.team([triage(handoff("billing", alternatives=alternatives)), *members], model)


@story
async def a_handoff_that_is_rejected_goes_to_the_alternatives_in_their_order(stage: Stage) -> None:
    members = [asked_in(stage, "billing", "closed"), asked_in(stage, "sales", "busy"), asked_in(stage, "tech")]
    team = desk(stage, *members, asked_in(stage, "other"), alternatives=["sales", "tech", "other"])
    result = await stage.say(team, "charged twice")
    assert (result.output, stage.did) == ("tech did it", ["billing", "sales", "tech"])
    assert chain(result) == [("billing", "REJECTED", 1), ("sales", "REJECTED", 2), ("tech", "COMPLETE", 3)]
    assert [each.id for each in result.handoff_chain] == ["story:3.0", "story:3.0+1", "story:3.0+2"]
    assert follow_each_other(result.handoff_chain)
    assert [each.declined_by for each in await events(team, HandoffOffered)] == [(), ("billing",), ("billing", "sales")]
    assert {(each.message, each.tool, each.mode) for each in result.handoff_chain} == {
        ("refund", "handoff_to_billing", "transfer")
    }
    assert await events(team, CallRefused) == []
    assert await team.handoffs(CONVERSATION) == result.handoff_chain


@story
async def an_agent_that_the_receiver_suggests_is_asked_before_the_alternatives(stage: Stage) -> None:
    members = [asked_in(stage, "billing", "not mine", "tech"), asked_in(stage, "sales"), asked_in(stage, "tech")]
    result = await stage.say(desk(stage, *members, alternatives=["sales"]), "charged twice")
    assert (result.output, stage.did) == ("tech did it", ["billing", "tech"])
    assert chain(result) == [("billing", "REJECTED", 1), ("tech", "COMPLETE", 2)]


@story
async def an_agent_that_the_receiver_suggests_is_asked_without_declared_alternatives(stage: Stage) -> None:
    members = [asked_in(stage, "billing", "not mine", "tech"), asked_in(stage, "tech")]
    result = await stage.say(desk(stage, *members), "charged twice")
    assert (result.output, result.final_agent) == ("tech did it", "tech")


@story
async def a_suggested_agent_that_does_not_exist_is_skipped(stage: Stage) -> None:
    members = [asked_in(stage, "billing", "not mine", "nobody"), asked_in(stage, "sales")]
    result = await stage.say(desk(stage, *members, alternatives=["sales"]), "charged twice")
    assert (result.output, stage.did) == ("sales did it", ["billing", "sales"])


@story
async def an_agent_that_declined_is_not_asked_again_when_the_next_one_suggests_it(stage: Stage) -> None:
    members = [asked_in(stage, "billing", "not mine"), asked_in(stage, "sales", "theirs", "billing")]
    team = desk(stage, *members, asked_in(stage, "tech"), alternatives=["sales", "billing", "tech"])
    result = await stage.say(team, "charged twice")
    assert (result.output, stage.did) == ("tech did it", ["billing", "sales", "tech"])


@story
async def a_receiver_that_suggests_itself_is_not_asked_again(stage: Stage) -> None:
    result = await stage.say(desk(stage, asked_in(stage, "billing", "later", "billing")), "charged twice")
    assert result.output == "billing did not take it: later; you still have the task"
    assert stage.did == ["billing"]


@story
async def a_rejected_offer_may_come_to_its_sender_by_suggestion(stage: Stage) -> None:
    def play(messages: Sequence[Message]) -> Reply:
        found = tells(messages)
        return says(f"I do it myself: {found.text}") if found.text else hands_off("billing", "refund")

    team = stage.team([triage(), Agent("billing", accepts=declines("yours", "triage"))], cast(triage=play))
    result = await stage.say(team, "charged twice")
    assert (result.output, result.final_agent) == ("I do it myself: transferred to triage", "triage")
    assert chain(result) == [("billing", "REJECTED", 1), ("triage", "COMPLETE", 2)]


@story
async def a_task_that_a_delegate_rejects_goes_to_the_alternatives(stage: Stage) -> None:
    members = [asked_in(stage, "clerk", "no"), asked_in(stage, "deputy", "nor I"), asked_in(stage, "temp")]
    model = cast(boss=asks(delegates("clerk", "count")), temp=says("Three."))
    team = stage.team([boss(delegate("clerk", alternatives=["deputy", "temp"])), *members], model)
    result = await stage.say(team, "how many?")
    [back] = came_back(result)
    assert (back.handoff_id, back.agent, back.success, back.response) == ("story:3.0+2", "temp", True, "Three.")
    assert chain(result) == [("clerk", "REJECTED", 1), ("deputy", "REJECTED", 2), ("temp", "RETURNED", 3)]
    assert follow_each_other(result.handoff_chain)
    assert result.handoff_chain[-1].task_id == "story/3.0+2#2"
    assert {each.conversation for each in await team.history(CONVERSATION)} == {CONVERSATION, "story/3.0+2"}
    assert (stage.did, result.ledger.handoffs) == (["clerk", "deputy", "temp"], 1)


@story
async def of_two_tasks_each_goes_its_own_way_to_an_alternative(stage: Stage) -> None:
    ways = [delegate("clerk", alternatives=["temp"]), delegate("scribe", alternatives=["temp"])]
    model = cast(boss=asks(delegates("clerk", "count"), delegates("scribe", "write")), temp=says("Done."))
    members = [boss(*ways), Agent("clerk", accepts_handoffs=False), asked_in(stage, "scribe", "no"), Agent("temp")]
    result = await stage.say(stage.team(members, model), "count and write")
    assert [(back.handoff_id, back.agent) for back in came_back(result)] == [
        ("story:3.0+1", "temp"),
        ("story:3.1+1", "temp"),
    ]
    assert {(each.id, each.retry_of) for each in result.handoff_chain if each.receiver == "temp"} == {
        ("story:3.0+1", "story:3.0"),
        ("story:3.1+1", "story:3.1"),
    }


@story
async def a_sender_may_offer_a_rejected_task_to_another_receiver(stage: Stage) -> None:
    members = [asked_in(stage, "billing", "closed"), asked_in(stage, "tech")]
    model = cast(triage=tries(REFUND, hands_off("tech", "refund, please")), tech=says("Done."))
    team = stage.team([triage(), *members], model)
    result = await stage.say(team, "charged twice")
    assert (result.output, result.final_agent) == ("Done.", "tech")
    assert chain(result) == [("billing", "REJECTED", 1), ("tech", "COMPLETE", 2)]
    assert follow_each_other(result.handoff_chain)
    assert [each.id for each in result.handoff_chain] == ["story:3.0", "story:7.0"]
    assert [each.attempt for each in await events(team, HandoffOffered)] == [1, 2]


@story
async def a_sender_may_offer_a_rejected_task_to_the_same_receiver_again(stage: Stage) -> None:
    def accepts(package: HandoffPackage) -> bool:
        return "please" in package.task.description

    model = cast(triage=tries(REFUND, hands_off("billing", "refund, please")), billing=says("Refunded."))
    team = stage.team([triage(), Agent("billing", accepts=accepts)], model)
    result = await stage.say(team, "charged twice")
    assert (result.output, chain(result)) == ("Refunded.", [("billing", "REJECTED", 1), ("billing", "COMPLETE", 2)])


@story
async def a_sender_may_do_a_rejected_task_itself(stage: Stage) -> None:
    model = cast(triage=tries(REFUND))
    team = stage.team([triage(), Agent("billing", accepts=declines("no")), Agent("tech")], model)
    result = await stage.say(team, "charged twice")
    assert (result.status, result.final_agent, result.ledger.handoffs) == ("completed", "triage", 0)
    after = await stage.say(team, "again")
    assert (after.final_agent, after.handoff_chain) == ("triage", [])


@story
async def the_next_message_begins_to_count_anew(stage: Stage) -> None:
    def play(messages: Sequence[Message]) -> Reply:
        return REFUND if messages[-1].text in ("one", "two") else says("Sorry.")

    team = stage.team([triage(), Agent("billing", accepts=declines("no"))], cast(triage=play))
    runs = [await stage.say(team, text) for text in ("one", "two")]
    assert [chain(run) for run in runs] == [[("billing", "REJECTED", 1)]] * 2
    assert [run.handoff_chain[0].retry_of for run in runs] == ["", ""]


@story
async def a_handoff_that_was_taken_ends_the_count(stage: Stage) -> None:
    def accepts(package: HandoffPackage) -> bool:
        return package.task.description == "please"

    turns = [delegates("clerk", "now"), delegates("clerk", "please"), delegates("clerk", "now")]
    model = cast(boss=tries(*turns), clerk=says("Done."))
    result = await stage.say(stage.team([boss(), Agent("clerk", accepts=accepts)], model), "go")
    assert chain(result) == [("clerk", "REJECTED", 1), ("clerk", "RETURNED", 2), ("clerk", "REJECTED", 1)]
    assert [each.retry_of for each in result.handoff_chain] == ["", "story:3.0", ""]


@story
async def handoffs_of_one_turn_do_not_follow_each_other(stage: Stage) -> None:
    turn = calls(delegates("clerk", "count"), delegates("clerk", "sum"), hands_off("billing", "refund"))
    members = [triage("billing", delegate("clerk")), Agent("clerk", accepts_handoffs=False), Agent("billing")]
    result = await stage.say(stage.team(members, cast(triage=tries(turn), billing=says("Done."))), "charged twice")
    assert chain(result) == [("clerk", "REJECTED", 1), ("clerk", "REJECTED", 1), ("billing", "COMPLETE", 1)]
    assert {each.retry_of for each in result.handoff_chain} == {""}


@story
async def what_one_delegate_declines_is_not_counted_against_another(stage: Stage) -> None:
    ids = ["clerk", "deputy", "temp", "guest"]
    model = cast(boss=tries(*(delegates(id, f"task for {id}") for id in ids)))
    members = [boss(*map(delegate, ids)), *(Agent(id, accepts=declines("no")) for id in ids)]
    result = await stage.say(stage.team(members, model), "go")
    assert (result.status, chain(result)) == ("completed", [(id, "REJECTED", 1) for id in ids])


@story
async def a_rejection_is_not_a_mistake_of_the_model(stage: Stage) -> None:
    turns = [REFUND, hands_off("tech", "x"), calls(("ship", {})), calls(("ship", {}))]
    members = [triage(), Agent("billing", accepts=declines("no")), Agent("tech", accepts=declines("no"))]
    result = await stage.say(stage.team(members, cast(triage=tries(*turns))), "charged twice")
    assert (result.status, result.output.count("there is no tool called 'ship'")) == ("completed", 2)


@story
async def a_tool_may_be_told_that_its_goto_was_declined(stage: Stage) -> None:
    def refund() -> Command:
        """Refund."""
        return Command(goto="billing")

    model = cast(triage=tries(calls(("refund", {}))))
    team = stage.team([triage(tools=[refund]), Agent("billing", accepts=declines("closed"))], model)
    result = await stage.say(team, "charged twice")
    assert (result.final_agent, chain(result)) == ("triage", [("billing", "REJECTED", 1)])
    assert "billing did not take it: closed" in result.output


@story
async def a_function_goes_to_the_agent_that_its_receiver_suggests(stage: Stage) -> None:
    members = [asked_in(stage, "billing", "not mine", "tech"), asked_in(stage, "tech")]
    desk = Function("desk", lambda ctx: Command(goto="billing"))
    team = stage.team([desk, *members], cast(tech=says("Done.")))
    result = await stage.say(team, "charged twice")
    assert (result.output, chain(result)) == ("Done.", [("billing", "REJECTED", 1), ("tech", "COMPLETE", 2)])


def sends(*receivers: str) -> Function:
    """A function that asks each of these, and answers with what came back."""

    def fan(ctx: RunContext) -> Any:
        """Ask several."""
        if ctx.returned:
            return " | ".join(f"{each.agent}: {each.response or each.error}" for each in ctx.returned)
        return Command(goto=[Send(receiver, {"task": "tea"}) for receiver in receivers])

    return Function("fan", fan)


@story
async def a_branch_that_is_rejected_comes_back_beside_the_others(stage: Stage) -> None:
    members = [Agent("cook", handoffs=()), Agent("guest", accepts=declines("I do not cook"), handoffs=())]
    team = stage.team([sends("guest", "cook"), *members], cast(cook=says("Here you are.")))
    result = await stage.say(team, "tea, please")
    assert result.output == "guest: guest did not take it: I do not cook | cook: Here you are."
    assert sorted(chain(result)) == [("cook", "RETURNED", 1), ("guest", "REJECTED", 1)]


@story
async def a_rejected_branch_goes_to_the_agent_that_its_receiver_suggests(stage: Stage) -> None:
    members = [Agent("cook", handoffs=()), Agent("guest", accepts=declines("I do not cook", "cook"), handoffs=())]
    team = stage.team([sends("guest", "cook"), *members], cast(cook=says("Tea.")))
    result = await stage.say(team, "tea, please")
    assert result.output == "cook: Tea. | cook: Tea."
    assert {(each.id, each.receiver, each.retry_of) for each in result.handoff_chain} == {
        ("story:2.0", "guest", ""),
        ("story:2.0+1", "cook", "story:2.0"),
        ("story:2.1", "cook", ""),
    }
