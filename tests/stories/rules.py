"""Stories of rules: conditions that send a conversation to an agent or deny handoffs."""

from collections.abc import Sequence
from typing import Any

from changeover import (
    Agent,
    Approval,
    Approve,
    Command,
    Edit,
    Function,
    Limits,
    MessageOnly,
    Person,
    Reject,
    Respond,
    RunContext,
    Team,
    Variable,
    delegate,
    tool,
)
from changeover.agent.agent import Member
from changeover.guards import Deny, Rule
from changeover.guards.approval import Decision
from changeover.messages import Message, ToolResult
from changeover.protocol import Rejected
from changeover.relay.events import (
    ApprovalDecided,
    ApprovalWaived,
    FellBack,
    HandoffOffered,
    RuleFailed,
    RuleFired,
)
from changeover.testing import ManualClock, Reply, calls, delegates, hands_off, says
from changeover.testing.scripted import Line
from tests.stories.answers import chain
from tests.stories.approvals import always, must_wait, settled, until_completed
from tests.stories.delegates import asks, cast
from tests.stories.guards import Says
from tests.stories.scripts import texts
from tests.stories.stage import CONVERSATION, Stage, events, story

VIP = {"tier": "vip"}


def is_vip(ctx: RunContext) -> bool:
    return ctx.context.get("tier") == "vip"


def is_always(ctx: RunContext) -> bool:
    return True


def cannot_say(ctx: RunContext) -> bool:
    return bool(ctx.context["tier"] == "vip")


def gives_a_word(ctx: RunContext) -> Any:
    return "yes"


TO_SENIOR = Rule("vip goes to senior", if_=is_vip, goto="senior", message="Be kind.")


def desk(stage: Stage, *rules: Rule, senior: Member | None = None, **options: Any) -> Team:
    """Triage answers by itself, and a senior is there too."""
    model = cast(triage=says("I do it."), senior=lambda messages: says(" | ".join(texts(messages))))
    members = [Agent("triage"), senior or Agent("senior"), Agent("other")]
    return stage.team(members, model, rules=rules or (TO_SENIOR,), **options)


def nobody_asked(stage: Stage, agent: str) -> bool:
    return not any(request.agent == agent for request in stage.seen)


@story
async def a_rule_leads_to_its_receiver_before_a_model_is_asked(stage: Stage) -> None:
    team = desk(stage)
    result = await stage.say(team, "Hello", context=VIP)
    assert (result.output, result.final_agent) == ("Hello | Be kind.", "senior")
    assert [(each.sender, each.receiver, each.message) for each in result.handoff_chain] == [
        ("triage", "senior", "Be kind.")
    ]
    assert nobody_asked(stage, "triage")
    [fired] = await events(team, RuleFired)
    assert (fired.rule, fired.agent, fired.goto) == ("vip goes to senior", "triage", "senior")
    assert result.ledger.handoffs == 1
    assert result.context["_handoff_from"] == "triage"


@story
async def a_rule_that_does_not_hold_changes_nothing(stage: Stage) -> None:
    team = desk(stage)
    result = await stage.say(team, "Hello", context={"tier": "tin"})
    assert (result.output, result.handoff_chain) == ("I do it.", [])
    assert await events(team, RuleFired) == []


@story
async def a_rule_concerns_the_agents_that_it_names(stage: Stage) -> None:
    rule = Rule("vip", if_=is_vip, goto="senior", agents=["other"])
    for agent, final in (("triage", "triage"), ("other", "senior")):
        team = desk(stage, rule)
        result = await stage.say(team, "Hello", context=VIP, agent=agent, conversation=f"named-{agent}")
        assert result.final_agent == final


@story
async def a_rule_leads_nowhere_where_the_conversation_already_is(stage: Stage) -> None:
    team = desk(stage)
    result = await stage.say(team, "Hello", context=VIP, agent="senior")
    assert (result.final_agent, result.handoff_chain) == ("senior", [])


@story
async def of_two_rules_that_hold_the_first_leads_and_then_the_second(stage: Stage) -> None:
    rules = [Rule("first", if_=is_vip, goto="other"), Rule("second", if_=is_vip, goto="senior")]
    team = desk(stage, *rules)
    result = await stage.say(team, "Hello", context=VIP)
    assert [each.receiver for each in result.handoff_chain] == ["other", "senior"]
    assert [each.rule for each in await events(team, RuleFired)] == ["first", "second"]


@story
async def a_rule_leads_once_in_a_run_and_again_in_the_next(stage: Stage) -> None:
    def back(messages: Sequence[Message]) -> Line:
        return hands_off("triage", "Yours, after all.")

    model = cast(triage=says("I do it."), senior=back)
    team = stage.team([Agent("triage"), Agent("senior")], model, rules=[TO_SENIOR])
    for text in ("one", "two"):
        result = await stage.say(team, text, context=VIP)
        assert [each.receiver for each in result.handoff_chain] == ["senior", "triage"]
        assert (result.output, result.final_agent) == ("I do it.", "triage")
    assert len(await events(team, RuleFired)) == 2


@story
async def a_rule_holds_as_soon_as_a_tool_has_found_it_out(stage: Stage) -> None:
    def look_up() -> Command:
        """Look the customer up."""
        stage.effects.append("looked up")
        return Command(update={"context": VIP})

    model = cast(triage=calls(("look_up", {})), senior=lambda messages: says(f"after {len(messages)}"))
    team = stage.team([Agent("triage", tools=[look_up]), Agent("senior")], model, rules=[TO_SENIOR])
    result = await stage.say(team, "Hello")
    # What was asked, what the tool gave, and what the rule says.
    assert (result.output, result.final_agent, stage.did) == ("after 4", "senior", ["looked up"])


@story
async def what_a_receiver_sees_after_a_rule_is_as_its_strategy_says(stage: Stage) -> None:
    team = desk(stage, senior=Agent("senior", strategy=MessageOnly()))
    await stage.say(team, "Before")
    result = await stage.say(team, "Hello", context=VIP)
    assert result.output == "Hello | Be kind."
    assert result.handoff_chain[-1].strategy == "message_only"


@story
async def a_rule_may_lead_to_a_function_and_to_a_person(stage: Stage) -> None:
    machine = Function("senior", lambda ctx: f"{ctx.context['_handoff_from']} sent {ctx.agent}")
    result = await stage.say(desk(stage, senior=machine), "Hello", context=VIP, conversation="machine")
    assert (result.output, result.final_agent) == ("triage sent senior", "senior")
    ends: list[tuple[Decision, str]] = [(Respond("Welcome."), "Welcome."), (Reject("not I"), "I do it.")]
    for number, (decision, output) in enumerate(ends):
        team = desk(stage, senior=Person("senior"))
        waiting = await stage.say(team, "Hello", context=VIP, conversation=f"person-{number}")
        must_wait(stage, waiting)
        assert (await settled(stage, team, waiting, always(decision))).output == output


@story
async def a_rule_may_hand_over_to_a_pulled_agent(stage: Stage) -> None:
    team = desk(stage, senior=Agent("senior", pull=True))
    waiting = await stage.say(team, "Hello", context=VIP)
    if waiting.status == "waiting":
        [claim] = await stage.claim(team, "senior")
        await claim.accept()
        await claim.complete("Welcome.")
    result = stage.outcomes[1] = await team.resume(CONVERSATION)
    assert (result.output, result.final_agent) == ("Welcome.", "senior")


def rejects(package: Any) -> Rejected:
    return Rejected("not now")


STOPPED: list[tuple[str, dict[str, Any], list[tuple[str, str, int]]]] = [
    ("guard", {"guards": [Says(Deny("not on Sundays"))]}, []),
    ("broken guard", {"guards": [Says(ValueError("what?"))]}, []),
    ("rejected", {"senior": Agent("senior", accepts=rejects)}, [("senior", "REJECTED", 1)]),
    ("closed", {"senior": Agent("senior", accepts_handoffs=False)}, [("senior", "REJECTED", 1)]),
    ("ignorant", {"senior": Agent("senior", requires=[Variable("order")])}, [("senior", "RETURNED", 1)]),
    ("no handoffs", {"limits": Limits(max_handoffs=0)}, []),
    ("with fallback", {"senior": Agent("senior", accepts=rejects), "fallback": True}, [("senior", "REJECTED", 1)]),
]


@story
async def where_the_handoff_of_a_rule_is_not_made_the_agent_goes_on_by_itself(stage: Stage) -> None:
    for number, (_, options, tried) in enumerate(STOPPED):
        team = desk(stage, **options)
        where = f"stopped-{number}"
        result = await stage.say(team, "Hello", context=VIP, conversation=where)
        assert (result.output, result.final_agent, result.status) == ("I do it.", "triage", "completed")
        assert (chain(result), result.fell_back, result.ledger.handoffs) == (tried, False, 0)
        assert await events(team, FellBack, where) == []


@story
async def a_rule_that_was_stopped_is_no_mistake_of_the_model_and_takes_none_of_its_tools(stage: Stage) -> None:
    def play(messages: Sequence[Message]) -> Reply:
        said = [each.text for each in messages if isinstance(each, ToolResult)]
        return says(" | ".join(said)) if len(said) == 2 else calls(("ship", {}))

    guards = [Says(Deny("no"))]
    team = stage.team([Agent("triage"), Agent("senior")], cast(triage=play), rules=[TO_SENIOR], guards=guards)
    result = await stage.say(team, "Hello", context=VIP)
    # Three mistakes would be one too many, and the rule's is none of them.
    assert result.output.count("there is no tool called 'ship'; your tools: handoff") == 2


@story
async def an_agent_that_the_receiver_of_a_rule_suggests_is_asked_next(stage: Stage) -> None:
    senior = Agent("senior", accepts=lambda package: Rejected("not mine", "other"))
    members = [Agent("triage"), senior, Agent("other")]
    team = stage.team(members, cast(other=says("Mine.")), rules=[TO_SENIOR])
    result = await stage.say(team, "Hello", context=VIP)
    assert (result.output, chain(result)) == ("Mine.", [("senior", "REJECTED", 1), ("other", "COMPLETE", 2)])


ASKS_FIRST = Rule("vip", if_=is_vip, goto="senior", message="Be kind.", approval=True)


@story
async def a_person_may_be_asked_before_a_rule_leads_anywhere(stage: Stage) -> None:
    ends: list[tuple[Decision, str, str]] = [
        (Approve(), "senior", "Hello | Be kind."),
        (Reject("too soon"), "triage", "I do it."),
        (Edit(receiver="other"), "other", "Here."),
        (Respond("Ask her for her name."), "triage", "I do it."),
    ]
    for number, (decision, final, output) in enumerate(ends):
        model = cast(
            triage=says("I do it."), senior=lambda messages: says(" | ".join(texts(messages))), other=says("Here.")
        )
        team = stage.team([Agent("triage"), Agent("senior"), Agent("other")], model, rules=[ASKS_FIRST])
        where = f"asked-{number}"
        waiting = await stage.say(team, "Hello", context=VIP, conversation=where)
        must_wait(stage, waiting)
        for request in waiting.requests:
            assert (request.agent, request.receiver, request.message) == ("triage", "senior", "vip: Be kind.")
            assert await events(team, HandoffOffered, where) == []
        result = await settled(stage, team, waiting, always(decision))
        assert (result.final_agent, result.output) == (final, output)
        assert len(await events(team, RuleFired, where)) == 1
    for seen in stage.requests("triage"):
        if seen.conversation == "asked-3":
            assert texts(seen.messages) == ["Hello", "Ask her for her name."]


@story
async def what_expires_before_a_rule_leads_anywhere_leaves_the_agent_to_itself(stage: Stage) -> None:
    clock = ManualClock()
    team = desk(stage, Rule("vip", if_=is_vip, goto="senior", approval=Approval(expires=60)), clock=clock)
    result = await stage.say(team, "Hello", context=VIP)
    must_wait(stage, result)
    if result.status == "waiting":
        await clock.advance(60)
        await until_completed(team, 1)
        result = stage.outcomes[1] = await team.resume(CONVERSATION)
    assert (result.output, result.final_agent) == ("I do it.", "triage")
    assert [each.expired for each in await events(team, ApprovalDecided)] == [True]


@story
async def whether_a_person_is_asked_about_a_rule_may_be_for_a_function_to_say(stage: Stage) -> None:
    team = desk(stage, Rule("vip", if_=is_vip, goto="senior", approval=lambda ctx, arguments: False))
    result = await stage.say(team, "Hello", context=VIP)
    assert result.final_agent == "senior"
    assert [each.rule for each in await events(team, ApprovalWaived)] == ["vip"]


@story
async def a_rule_that_cannot_be_judged_leads_nowhere_and_says_so_once(stage: Stage) -> None:
    for number, judge in enumerate([cannot_say, gives_a_word]):
        where = f"odd-{number}"
        team = desk(stage, Rule("odd", if_=judge, goto="senior"))
        result = await stage.say(team, "Hello", conversation=where)
        assert (result.output, result.final_agent) == ("I do it.", "triage")
        [failed] = await events(team, RuleFailed, where)
        assert failed.reason == ("KeyError: 'tier'", "it returned a str, not True or False")[number]


@story
async def a_rule_that_could_not_be_judged_is_asked_again_when_more_is_known(stage: Stage) -> None:
    def look_up() -> Command:
        """Look the customer up."""
        return Command(update={"context": VIP})

    model = cast(triage=calls(("look_up", {})), senior=says("Welcome."))
    rules = [Rule("vip", if_=cannot_say, goto="senior")]
    team = stage.team([Agent("triage", tools=[look_up]), Agent("senior")], model, rules=rules)
    assert (await stage.say(team, "Hello")).output == "Welcome."
    assert (len(await events(team, RuleFailed)), len(await events(team, RuleFired))) == (1, 1)


@story
async def a_delegate_is_led_elsewhere_only_by_a_rule_that_names_it(stage: Stage) -> None:
    for number, (named, answer) in enumerate([((), "clerk"), (("clerk",), "senior")]):
        rule = Rule("vip", if_=lambda ctx: ctx.agent != "boss", goto="senior", agents=named)
        boss = Agent("boss", handoffs=[delegate("clerk")])
        model = cast(boss=asks(delegates("clerk", "count")), clerk=says("clerk"), senior=says("senior"))
        team = stage.team([boss, Agent("clerk"), Agent("senior")], model, rules=[rule])
        result = await stage.say(team, "How many?", conversation=f"below-{number}")
        assert f'"response":"{answer}"' in result.output


@story
async def a_handoff_by_a_rule_can_be_rolled_back_and_is_not_made_again_in_its_run(stage: Stage) -> None:
    def ask(question: str) -> str:
        """Ask."""
        return "nothing"

    senior = Agent("senior", tools=[tool(approval=True)(ask)])
    model = cast(triage=says("I do it."), senior=calls(("ask", {"question": "Who?"})))
    team = stage.team([Agent("triage"), senior], model, rules=[TO_SENIOR])
    waiting = await stage.say(team, "Hello", context=VIP)
    must_wait(stage, waiting)
    if waiting.status == "waiting":
        await team.rollback(waiting.handoff_chain[-1], reason="too early", by="ana")
    result = stage.outcomes[1] = await team.resume(CONVERSATION)
    assert (result.output, result.final_agent, chain(result)) == ("I do it.", "triage", [("senior", "RETURNED", 1)])
