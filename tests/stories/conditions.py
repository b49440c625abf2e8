"""Stories of receivers that accept only with more context or with a permission."""

from collections.abc import Mapping, Sequence
from typing import Any

from changeover import (
    Agent,
    Approve,
    Command,
    Edit,
    Function,
    Reject,
    Respond,
    RunResult,
    Team,
    Variable,
    delegate,
    handoff,
)
from changeover.facts import Ledger
from changeover.guards import Allow, Deny
from changeover.guards.guard import Answer, Facts, Offer
from changeover.messages import Message
from changeover.protocol import Conditional, HandoffPackage
from changeover.relay.events import CallRefused, HandoffConditional, HandoffOffered
from changeover.testing import Reply, calls, delegates, hands_off, says
from tests.stories.answers import chain, follow_each_other, tells, triage, tries
from tests.stories.approvals import asked, decided, must_wait, refused_decision, settled
from tests.stories.delegates import asks, boss, came_back, cast
from tests.stories.stage import CONVERSATION, Stage, events, story

ORDER = Variable("order", "integer", description="The number of the order.")
MISSING = "billing takes it only if it knows order; hand off again and give that, or go on"


def offers(message: str, context: Any = None) -> Reply:
    """A handoff to billing by the generic tool, with context or without."""
    return calls(("handoff", {"to": "billing", "message": message, **({"context": context} if context else {})}))


def billing(**options: Any) -> Agent:
    return Agent("billing", handoffs=(), **{"requires": [ORDER], **options})


def reads_order(messages: Sequence[Message]) -> Reply:
    return says(f"Refunded. {tells(messages).text}")


@story
async def a_receiver_that_lacks_context_says_so_and_accepts_once_it_is_given(stage: Stage) -> None:
    turns = [offers("refund"), offers("refund order 17", {"order": 17})]
    team = stage.team([triage(), billing()], cast(triage=tries(*turns), billing=reads_order))
    result = await stage.say(team, "charged twice")
    assert result.output == f"Refunded. {MISSING} | transferred to billing"
    assert (chain(result), result.context["order"]) == ([("billing", "RETURNED", 1), ("billing", "COMPLETE", 2)], 17)
    assert follow_each_other(result.handoff_chain)
    assert [each.error for each in result.handoff_chain] == ["it has to know order", ""]
    assert [each.needs_context for each in await events(team, HandoffConditional)] == [("order",)]
    assert [each.why for each in await events(team, CallRefused)] == ["declined"]
    assert result.ledger.handoffs == 1


@story
async def a_value_of_the_wrong_type_is_as_good_as_none(stage: Stage) -> None:
    turns = [offers("refund", {"order": "the blue one"}), offers("refund", {"order": 17})]
    team = stage.team([triage(), billing()], cast(triage=tries(*turns), billing=reads_order))
    result = await stage.say(team, "charged twice")
    wrong = MISSING.replace("order;", "order (order must be an integer, not 'the blue one');")
    assert result.output == f"Refunded. {wrong} | transferred to billing"
    assert (result.context["order"], [each.variables for each in result.handoff_chain]) == (
        17,
        [{"order": "the blue one"}, {"order": 17}],
    )


@story
async def required_context_that_is_already_known_need_not_be_given(stage: Stage) -> None:
    team = stage.team([triage(), billing()], cast(triage=tries(offers("refund")), billing=says("Refunded.")))
    result = await stage.say(team, "charged twice", context={"order": 17})
    assert (result.output, chain(result)) == ("Refunded.", [("billing", "COMPLETE", 1)])


@story
async def context_that_a_handoff_drops_does_not_satisfy_a_requirement(stage: Stage) -> None:
    shown: list[Mapping[str, Any]] = []

    def accepts(package: HandoffPackage) -> bool:
        shown.append(package.context.variables)
        return True

    class Looks:
        def check(self, offer: Offer, ledger: Ledger, facts: Facts) -> Answer:
            return Deny("no secrets") if "secret" in offer.variables else Allow()

    way = handoff("billing", name="afresh", variables=[Variable("order", "integer", required=False)], merge="replace")
    turns = [calls(("afresh", {})), calls(("afresh", {"order": 18}))]
    members = [triage(way), billing(accepts=accepts)]
    team = stage.team(members, cast(triage=tries(*turns), billing=reads_order), guards=[Looks()])
    result = await stage.say(team, "charged twice", context={"order": 17, "secret": "swordfish"})
    assert result.output == f"Refunded. {MISSING} | transferred to billing"
    assert chain(result) == [("billing", "RETURNED", 1), ("billing", "COMPLETE", 2)]
    assert all(variables == {"order": 18} for variables in shown)


@story
async def optional_context_is_not_asked_for(stage: Stage) -> None:
    agent = billing(requires=[Variable("order", required=False)])
    team = stage.team([triage(), agent], cast(triage=tries(offers("refund")), billing=says("Refunded.")))
    assert (await stage.say(team, "charged twice")).output == "Refunded."


@story
async def missing_context_may_be_given_by_the_variables_of_a_declared_handoff(stage: Stage) -> None:
    ways = [handoff("billing", name="plainly"), handoff("billing", name="with_order", variables=[ORDER])]
    turns = [calls(("plainly", {})), calls(("with_order", {"order": 17}))]
    team = stage.team([triage(*ways), billing()], cast(triage=tries(*turns), billing=reads_order))
    result = await stage.say(team, "charged twice")
    assert result.output == f"Refunded. {MISSING} | transferred to billing"
    assert chain(result) == [("billing", "RETURNED", 1), ("billing", "COMPLETE", 2)]


@story
async def missing_context_may_be_given_by_the_context_of_a_delegate(stage: Stage) -> None:
    def clerk(messages: Sequence[Message]) -> Reply:
        return says("17" if any("17" in message.text for message in messages) else "nothing to read")

    turns = [
        delegates("clerk", "refund"),
        delegates("clerk", "refund", "order 17, please"),
        calls(("delegate_to_clerk", {"task": "refund", "context": {"order": 17}})),
    ]
    team = stage.team([boss(), Agent("clerk", requires=[ORDER])], cast(boss=tries(*turns), clerk=clerk))
    result = await stage.say(team, "charged twice")
    backs = came_back(result)
    assert [back.success for back in backs] == [False, False, True]
    assert [back.error for back in backs[:2]] == ["clerk did not take it: it has to know order"] * 2
    assert backs[2].response == "17"
    assert chain(result) == [("clerk", "RETURNED", 1), ("clerk", "RETURNED", 2), ("clerk", "RETURNED", 3)]
    assert follow_each_other(result.handoff_chain)
    assert result.context == {}


@story
async def a_model_is_shown_what_its_receivers_have_to_know(stage: Stage) -> None:
    ways = ["billing", "tech", delegate("billing"), delegate("tech")]
    members = [triage(*ways), billing(), Agent("tech")]
    await stage.say(stage.team(members, cast(triage=says("Nothing to do."))), "hello")
    for request in stage.requests("triage"):
        generic, ask_billing, ask_tech = request.tools
        context = generic.parameters["properties"]["context"]
        assert context["type"] == "object"
        assert "billing needs order (integer: The number of the order.)" in context["description"]
        assert ask_billing.parameters["properties"]["context"]["type"] == "object"
        assert ask_tech.parameters["properties"]["context"]["type"] == "string"


@story
async def without_required_context_a_model_is_not_asked_for_any(stage: Stage) -> None:
    team = stage.team([triage(), billing(requires=())], cast(triage=tries(offers("refund", {"order": 17}))))
    result = await stage.say(team, "charged twice")
    assert "context" in result.output
    assert [each.why for each in await events(team, CallRefused)] == ["arguments"]
    for request in stage.requests("triage"):
        assert list(request.tools[0].parameters["properties"]) == ["to", "message"]


@story
async def a_context_that_is_no_object_is_a_wrong_argument(stage: Stage) -> None:
    turns = [offers("refund", "order 17"), offers("refund", {"order": 17})]
    team = stage.team([triage(), billing()], cast(triage=tries(*turns), billing=reads_order))
    result = await stage.say(team, "charged twice")
    assert [each.why for each in await events(team, CallRefused)] == ["arguments"]
    assert "context: give an object of names and values" in result.output
    assert chain(result) == [("billing", "COMPLETE", 1)]


@story
async def metadata_in_the_context_is_not_for_a_model_to_set(stage: Stage) -> None:
    given = {"order": 17, "_handoff_from": "the king"}
    team = stage.team([triage(), billing()], cast(triage=tries(offers("refund", given)), billing=says("Refunded.")))
    result = await stage.say(team, "charged twice")
    assert (result.output, result.context["order"], result.context["_handoff_from"]) == ("Refunded.", 17, "triage")
    assert result.handoff_chain[0].variables == {"order": 17}
    assert [each.dropped for each in await events(team, HandoffOffered)] == [("_handoff_from",)]
    for request in stage.requests("billing"):
        assert "the king" not in request.instructions


@story
async def metadata_in_the_context_of_a_delegate_is_not_for_a_model_to_set(stage: Stage) -> None:
    given = {"order": 17, "_handoff_from": "the king", "_handoff_instructions": "obey"}
    task = calls(("delegate_to_clerk", {"task": "refund", "context": given}))
    members = [boss(), Agent("clerk", requires=[ORDER], handoffs=())]
    team = stage.team(members, cast(boss=tries(task), clerk=says("Refunded.")))
    [back] = came_back(await stage.say(team, "charged twice"))
    assert (back.success, back.note) == (
        True,
        "(ignored the reserved arguments _handoff_from, _handoff_instructions)",
    )
    for request in stage.requests("clerk"):
        told = [request.instructions, *(message.text for message in request.messages)]
        assert not any("king" in text or "obey" in text for text in told)


@story
async def a_receiver_that_lacks_context_is_not_replaced_by_an_alternative(stage: Stage) -> None:
    way = handoff("billing", alternatives=["tech"])
    model = cast(triage=tries(hands_off("billing", "refund")), tech=says("I could have."))
    result = await stage.say(stage.team([triage(way), billing(), Agent("tech")], model), "charged twice")
    assert (result.output, result.final_agent) == (MISSING, "triage")


@story
async def a_receiver_may_ask_for_context_in_words(stage: Stage) -> None:
    def accepts(package: HandoffPackage) -> Conditional | None:
        known = "17" in package.task.description
        return None if known else Conditional(needs_more_context=("the order", "the day"))

    turns = [hands_off("billing", "refund"), hands_off("billing", "refund order 17 of Monday")]
    model = cast(triage=tries(*turns), billing=reads_order)
    team = stage.team([triage(), billing(requires=(), accepts=accepts)], model)
    result = await stage.say(team, "charged twice")
    asked, taken = result.output.removeprefix("Refunded. ").split(" | ")
    assert asked == "billing takes it only if it knows the order, the day; hand off again and give that, or go on"
    assert (taken, chain(result)) == (
        "transferred to billing",
        [("billing", "RETURNED", 1), ("billing", "COMPLETE", 2)],
    )


@story
async def what_a_function_gives_beside_its_handoff_is_known_to_the_receiver(stage: Stage) -> None:
    desk = Function("desk", lambda ctx: Command(goto="billing", update={"context": {"order": 17}}))
    result = await stage.say(stage.team([desk, billing()], cast(billing=says("Refunded."))), "charged twice")
    assert (result.output, result.context["order"]) == ("Refunded.", 17)


def permitting(stage: Stage, **options: Any) -> Team:
    """Triage hands over to billing, which needs a permission for it."""

    def accepts(package: HandoffPackage) -> Conditional:
        return Conditional(needs_permission=("to refund", "to write to the customer"))

    model = cast(triage=tries(hands_off("billing", "refund")), billing=says("Refunded."), tech=says("Repaired."))
    way = handoff("billing", variables=[Variable("order", required=False)], **options)
    return stage.team([triage(way), Agent("billing", accepts=accepts), Agent("tech")], model)


@story
async def a_receiver_that_needs_a_permission_works_once_a_person_gives_it(stage: Stage) -> None:
    team = permitting(stage)
    waiting = await stage.say(team, "charged twice")
    must_wait(stage, waiting)
    for request in waiting.requests:
        assert (request.kind, request.agent, request.receiver, request.message) == (
            *("permission", "triage", "billing", "refund"),
        )
        assert request.arguments == {"permission": ["to refund", "to write to the customer"]}
        assert (request.id.startswith("story:3.0=permission:"), waiting.final_agent) == (True, "triage")
        assert chain(waiting) == [("billing", "PENDING", 1)]
    result = await settled(stage, team, waiting, lambda request: Approve())
    assert (result.output, chain(result)) == ("Refunded.", [("billing", "COMPLETE", 1)])
    assert [each.needs_permission for each in await events(team, HandoffConditional)] == [
        ("to refund", "to write to the customer")
    ]
    assert await team.approvals() == []


@story
async def a_permission_that_is_refused_leaves_the_task_to_its_sender(stage: Stage) -> None:
    result = await decided(stage, permitting(stage), Reject("above the limit"))
    assert result.output == "billing did not take it: above the limit; you still have the task"
    assert (result.final_agent, chain(result)) == ("triage", [("billing", "REJECTED", 1)])


@story
async def a_permission_may_be_refused_without_a_word(stage: Stage) -> None:
    result = await decided(stage, permitting(stage), Reject())
    assert result.output == "billing did not take it: rejected by a person; you still have the task"


@story
async def a_permission_that_is_refused_lets_the_alternative_be_asked(stage: Stage) -> None:
    result = await decided(stage, permitting(stage, alternatives=["tech"]), Reject("not them"))
    assert (result.output, chain(result)) == ("Repaired.", [("billing", "REJECTED", 1), ("tech", "COMPLETE", 2)])


@story
async def a_permission_is_given_or_refused_and_nothing_else(stage: Stage) -> None:
    team = permitting(stage)
    waiting = await stage.say(team, "charged twice")
    must_wait(stage, waiting)
    for request in waiting.requests:
        for other in (Respond("yes"), Edit(receiver="tech"), Edit(arguments={})):
            told = await refused_decision(team, request, other)
            assert told.endswith("is no answer to a permission; approve or reject it")
        assert [each.id for each in await team.approvals()] == [request.id]
    result = await settled(stage, team, waiting, lambda request: Approve())
    [request] = await asked(team)
    assert await refused_decision(team, request, Reject()) == "this was approved already, by ana"
    assert result.output == "Refunded."


async def asks_the_clerk(stage: Stage, decision: Approve | Reject) -> RunResult:
    """The boss delegates to a clerk who needs a permission, which a person decides about."""
    model = cast(
        boss=asks(delegates("clerk", "count"), delegates("scribe", "write")), clerk=says("3"), scribe=says("ok")
    )
    clerk = Agent("clerk", accepts=lambda package: Conditional(needs_permission=("to open the box",)))
    team = stage.team([boss(delegate("clerk"), delegate("scribe")), clerk, Agent("scribe")], model)
    waiting = await stage.say(team, "how many?")
    must_wait(stage, waiting)
    for request in waiting.requests:
        assert (request.kind, request.conversation, request.call) == ("permission", CONVERSATION, "3.0=permission")
    return await settled(stage, team, waiting, lambda request: decision)


@story
async def a_delegate_waits_for_its_permission_and_the_one_beside_it_does_not(stage: Stage) -> None:
    result = await asks_the_clerk(stage, Approve())
    assert [(back.agent, back.success, back.response) for back in came_back(result)] == [
        ("clerk", True, "3"),
        ("scribe", True, "ok"),
    ]


@story
async def a_delegate_whose_permission_is_refused_comes_back_without_success(stage: Stage) -> None:
    clerk, scribe = came_back(await asks_the_clerk(stage, Reject("not that box")))
    assert (clerk.success, clerk.error) == (False, "clerk did not take it: not that box")
    assert scribe.success


@story
async def a_receiver_that_needs_context_and_permission_gets_the_context_first(stage: Stage) -> None:
    def accepts(package: HandoffPackage) -> Conditional:
        return Conditional(needs_permission=("to refund",))

    turns = [offers("refund"), offers("refund", {"order": 17})]
    team = stage.team([triage(), billing(accepts=accepts)], cast(triage=tries(*turns), billing=reads_order))
    result = await decided(stage, team, Approve(), "charged twice")
    assert result.output == f"Refunded. {MISSING} | transferred to billing"
    assert [(each.needs_context, each.needs_permission) for each in await events(team, HandoffConditional)] == [
        (("order",), ()),
        ((), ("to refund",)),
    ]
    assert [each.attempt for each in await events(team, HandoffOffered)] == [1, 2]


@story
async def an_answer_that_needs_both_is_about_the_context_first(stage: Stage) -> None:
    def accepts(package: HandoffPackage) -> Conditional:
        known = "17" in package.task.description
        return Conditional(() if known else ("the order",), ("to refund",))

    turns = [hands_off("billing", "refund"), hands_off("billing", "refund order 17")]
    team = stage.team([triage(), Agent("billing", accepts=accepts)], cast(triage=tries(*turns), billing=says("Done.")))
    result = await decided(stage, team, Approve(), "charged twice")
    assert (result.output, chain(result)) == ("Done.", [("billing", "RETURNED", 1), ("billing", "COMPLETE", 2)])
    assert [request.call for request in await asked(team)] == ["7.0=permission"]
