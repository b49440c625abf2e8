"""Stories of guards and rules that judge the alternatives of a declined handoff."""

from collections.abc import Sequence
from typing import Any

from changeover import Agent, Approve, Edit, Function, Limits, Team, delegate, handoff
from changeover.facts import Ledger
from changeover.guards import Allow, Ask, Deny, Rule
from changeover.guards.guard import Answer, Facts, Offer
from changeover.relay.events import AlternativeRefused, ApprovalRequested, FellBack, HandoffOffered, RuleFired
from changeover.testing import delegates, hands_off, says
from changeover.tools.command import Command
from tests.stories.answers import chain, declines, triage, tries
from tests.stories.approvals import always, must_wait, settled
from tests.stories.delegates import asks, boss, came_back, cast
from tests.stories.rejections import asked_in
from tests.stories.stage import CONVERSATION, Stage, events, story


class NotTo:
    """A guard that has something against these receivers."""

    def __init__(self, *receivers: str, answer: Answer | None = None) -> None:
        self._receivers, self._answer = receivers, answer or Deny("they are closed")

    def check(self, offer: Offer, ledger: Ledger, facts: Facts) -> Answer:
        return self._answer if offer.receiver in self._receivers else Allow()


def desk(stage: Stage, *members: Agent, alternatives: Sequence[str], **options: Any) -> Team:
    """Triage hands over to billing, which does not want it; then the alternatives are asked."""
    billing = Agent("billing", accepts=declines("not mine"), handoffs=())
    model = cast(
        triage=tries(hands_off("billing", "refund")), **{member.id: says(f"{member.id} did it") for member in members}
    )
    return stage.team([triage(handoff("billing", alternatives=alternatives)), billing, *members], model, **options)


@story
async def an_alternative_that_a_guard_refuses_is_skipped_and_the_next_one_asked(stage: Stage) -> None:
    members = [asked_in(stage, "sales"), asked_in(stage, "tech")]
    team = desk(stage, *members, alternatives=["sales", "tech"], guards=[NotTo("sales")])
    result = await stage.say(team, "charged twice")
    assert (result.output, stage.did) == ("tech did it", ["tech"])
    assert chain(result) == [("billing", "REJECTED", 1), ("tech", "COMPLETE", 3)]
    [refused] = await events(team, AlternativeRefused)
    assert (refused.receiver, refused.reason) == ("sales", "they are closed")
    assert [each.declined_by for each in await events(team, HandoffOffered)] == [(), ("billing", "sales")]
    assert await team.handoffs(CONVERSATION) == result.handoff_chain


@story
async def where_guards_refuse_all_others_the_sender_is_told_why(stage: Stage) -> None:
    team = desk(stage, Agent("sales"), alternatives=["sales"], guards=[NotTo("sales")])
    result = await stage.say(team, "charged twice")
    assert result.output == (
        "billing did not take it: not mine; sales was not asked: they are closed; you still have the task"
    )
    assert (result.final_agent, chain(result)) == ("triage", [("billing", "REJECTED", 1)])


@story
async def a_refusal_counts_as_one_of_the_tries_after_which_a_person_is_asked(stage: Stage) -> None:
    members = [Agent("sales"), Agent("tech"), Agent("other")]
    team = desk(stage, *members, alternatives=["sales", "tech", "other"], guards=[NotTo("sales", "tech")])
    waiting = await stage.say(team, "charged twice")
    must_wait(stage, waiting)
    for request in waiting.requests:
        assert (request.kind, request.arguments["declined"]) == ("escalation", ["billing", "sales", "tech"])
    # Guards do not judge a receiver that a person names.
    result = await settled(stage, team, waiting, always(Edit(receiver="tech")))
    assert (result.output, chain(result)) == ("tech did it", [("billing", "REJECTED", 1), ("tech", "COMPLETE", 4)])


@story
async def with_fallback_the_sender_goes_on_alone_after_as_many_refusals(stage: Stage) -> None:
    members = [Agent("sales"), Agent("tech"), Agent("other")]
    options = {"guards": [NotTo("sales", "tech")], "fallback": True}
    team = desk(stage, *members, alternatives=["sales", "tech", "other"], **options)
    result = await stage.say(team, "charged twice")
    assert (result.final_agent, result.fell_back) == ("triage", True)
    assert len(await events(team, FellBack)) == 1


@story
async def an_alternative_that_needs_approval_is_skipped_without_asking_a_person(stage: Stage) -> None:
    asking = [{"guards": [NotTo("sales", answer=Ask("Sure?"))]}, {"guards": [NotTo("sales", answer=Ask(""))]}]
    for number, options in enumerate(asking):
        team = desk(stage, Agent("sales"), Agent("tech"), alternatives=["sales", "tech"], **options)
        result = await stage.say(team, "charged twice", conversation=f"asking-{number}")
        assert result.output == "tech did it"
        [refused] = await events(team, AlternativeRefused, f"asking-{number}")
        assert refused.reason.startswith("a person would have to say yes first")
        assert await events(team, ApprovalRequested, f"asking-{number}") == []


@story
async def an_approval_for_one_receiver_does_not_hold_for_an_alternative(stage: Stage) -> None:
    rule = Rule("money", if_=lambda ctx: True, approval=True)
    team = desk(stage, Agent("sales"), alternatives=["sales"], rules=[rule])
    waiting = await stage.say(team, "charged twice")
    must_wait(stage, waiting)
    result = await settled(stage, team, waiting, always(Approve()))
    assert "sales was not asked: a person would have to say yes first: money" in result.output
    assert [each.receiver for each in await events(team, RuleFired)] == ["billing", "sales"]
    assert len(await events(team, ApprovalRequested)) == 1


@story
async def after_a_delegate_declines_the_next_one_that_guards_allow_is_asked(stage: Stage) -> None:
    ways = [delegate("clerk", alternatives=["deputy", "temp"], guards=[NotTo("deputy")])]
    members = [Agent("clerk", accepts=declines("no")), asked_in(stage, "deputy"), asked_in(stage, "temp")]
    model = cast(boss=asks(delegates("clerk", "count")), temp=says("Three."))
    result = await stage.say(stage.team([boss(*ways), *members], model), "how many?")
    [back] = came_back(result)
    assert (back.agent, back.response, stage.did) == ("temp", "Three.", ["temp"])


@story
async def a_function_whose_next_receiver_is_refused_is_answered_by_a_person(stage: Stage) -> None:
    door = Function("door", lambda ctx: Command("billing"))
    billing = Agent("billing", accepts=declines("not mine", "sales"))
    team = stage.team([door, billing, Agent("sales")], cast(sales=says("Sold.")), guards=[NotTo("sales")])
    waiting = await stage.say(team, "charged twice")
    must_wait(stage, waiting)
    assert [request.kind for request in waiting.requests] == ["escalation"] * len(waiting.requests)
    result = await settled(stage, team, waiting, always(Edit(receiver="sales")))
    assert result.output == "Sold."


def crowded(stage: Stage, *alternatives: str) -> Team:
    """Triage hands over to billing, and does not take it back; two agents may work, and that is who they are."""
    members = [
        triage(accepts=declines("not again")),
        Agent("billing", handoffs=[handoff("triage", alternatives=alternatives)]),
        *(asked_in(stage, name) for name in alternatives),
    ]
    billing = tries(hands_off("triage", "yours"))
    model = cast(triage=hands_off("billing", "refund"), billing=lambda messages: billing(messages[3:]))
    return stage.team(members, model, limits=Limits(max_agents=2, on_limit="tell"), guards=())


@story
async def an_alternative_that_would_be_one_agent_too_many_is_passed_over(stage: Stage) -> None:
    team = crowded(stage, "sales")
    result = await stage.say(team, "charged twice")
    assert (result.final_agent, result.ledger.agents, stage.did) == ("billing", 2, [])
    assert result.output == (
        "triage did not take it: not again; sales was not asked: 2 agents may work in the run, and that would be one"
        " more; you still have the task"
    )


@story
async def a_person_cannot_pick_one_agent_too_many(stage: Stage) -> None:
    team = crowded(stage, "sales", "tech")
    waiting = await stage.say(team, "charged twice")
    must_wait(stage, waiting)
    result = await settled(stage, team, waiting, always(Edit(receiver="tech")))
    assert (result.final_agent, result.ledger.agents, stage.did) == ("billing", 2, [])
    assert result.output == ("refused: 2 agents may work in the run, and that would be one more; answer yourself")
