"""Stories of rules that deny a handoff, or require the approval of a person."""

from typing import Any

from changeover import (
    Agent,
    Approval,
    Approve,
    Command,
    Edit,
    Function,
    Reject,
    Respond,
    RunContext,
    Send,
    delegate,
    handoff,
)
from changeover.errors import HandoffRefusedError
from changeover.guards import Ask, Rule
from changeover.guards.approval import Decision
from changeover.relay.events import (
    ApprovalRequested,
    CallRefused,
    RuleFailed,
    RuleFired,
)
from changeover.testing import says
from tests.stories.approvals import always, asked, must_wait, settled
from tests.stories.delegates import asks, cast
from tests.stories.guards import Says, tries_then_tells
from tests.stories.rules import TO_SENIOR, VIP, cannot_say, desk, is_always, is_vip
from tests.stories.stage import CONVERSATION, Stage, events, story

AT_NIGHT = Rule("nobody at night", if_=is_vip, deny="they sleep until eight")


@story
async def what_a_rule_denies_is_told_with_its_name_and_reason(stage: Stage) -> None:
    members = [Agent("triage"), Agent("billing")]
    team = stage.team(members, cast(triage=tries_then_tells), rules=[AT_NIGHT])
    result = await stage.say(team, "Hello", context=VIP)
    assert result.output == "refused: by the rule 'nobody at night': they sleep until eight"
    assert (result.final_agent, result.handoff_chain) == ("triage", [])
    [fired] = await events(team, RuleFired)
    assert (fired.rule, fired.agent, fired.receiver, fired.reason) == (
        "nobody at night",
        "triage",
        "billing",
        "they sleep until eight",
    )
    [refused] = await events(team, CallRefused)
    assert (refused.why, fired.call) == ("guard", refused.call)


@story
async def a_rule_that_denies_lets_pass_what_it_does_not_concern(stage: Stage) -> None:
    named = Rule("not billing", if_=is_always, deny="no", agents=("billing",))
    for number, (rule, context) in enumerate([(AT_NIGHT, {}), (named, VIP)]):
        members = [Agent("triage"), Agent("billing")]
        team = stage.team(members, cast(triage=tries_then_tells, billing=says("Paid.")), rules=[rule])
        result = await stage.say(team, "Hello", context=context, conversation=f"pass-{number}")
        assert (result.output, result.final_agent) == ("Paid.", "billing")
        assert await events(team, RuleFired, f"pass-{number}") == []


@story
async def a_rule_that_denies_judges_delegates_commands_and_branches_too(stage: Stage) -> None:
    def pass_on() -> Command:
        """Pass it on."""
        return Command("clerk")

    def spread() -> Command:
        """Ask two."""
        return Command([Send("clerk"), Send("clerk")])

    ways = {
        "delegate": asks(("delegate_to_clerk", {"task": "count"})),
        "command": asks(("pass_on", {})),
        "branches": asks(("spread", {})),
    }
    for name, play in ways.items():
        boss = Agent("boss", handoffs=[delegate("clerk")], tools=[pass_on, spread])
        team = stage.team([boss, Agent("clerk")], cast(boss=play), rules=[AT_NIGHT])
        result = await stage.say(team, "How many?", context=VIP, conversation=name)
        assert "refused: by the rule 'nobody at night': they sleep until eight" in result.output
        assert result.handoff_chain == []
        assert [each.receiver for each in await events(team, RuleFired, name)] == ["clerk"]


@story
async def a_function_that_a_rule_denies_cannot_be_told_and_fails(stage: Stage) -> None:
    team = stage.team([Function("door", lambda ctx: Command("clerk")), Agent("clerk")], cast(), rules=[AT_NIGHT])
    error = await stage.error(HandoffRefusedError, team, "Hello", context=VIP)
    assert "by the rule 'nobody at night': they sleep until eight" in str(error)


@story
async def what_a_rule_leads_to_is_judged_by_the_others(stage: Stage) -> None:
    team = desk(stage, TO_SENIOR, AT_NIGHT)
    result = await stage.say(team, "Hello", context=VIP)
    assert (result.output, result.handoff_chain) == ("I do it.", [])
    assert [each.rule for each in await events(team, RuleFired)] == ["vip goes to senior", "nobody at night"]


BY_TWO = [
    Rule("money", if_=is_vip, approval=Approval(roles=["treasurer"]), message="May it go there?"),
    Rule("fame", if_=is_vip, approval=True),
]


@story
async def a_rule_may_have_a_person_asked_about_what_is_handed_over(stage: Stage) -> None:
    ends: list[tuple[Decision, str]] = [(Approve(), "Paid."), (Reject("no money"), "no money")]
    for number, (decision, output) in enumerate(ends):
        members = [Agent("triage"), Agent("billing")]
        team = stage.team(members, cast(triage=tries_then_tells, billing=says("Paid.")), rules=BY_TWO[1:])
        where = f"rule-{number}"
        waiting = await stage.say(team, "Hello", context=VIP, conversation=where)
        must_wait(stage, waiting)
        for request in waiting.requests:
            assert (request.tool, request.receiver, request.message) == ("handoff", "billing", "fame: Pay it.")
        assert output in (await settled(stage, team, waiting, always(decision))).output
        assert [(each.rule, each.reason) for each in await events(team, RuleFired, where)] == [("fame", "")]


@story
async def each_rule_that_wants_a_person_asked_has_one_asked(stage: Stage) -> None:
    way = handoff("billing", approval=True)
    members = [Agent("triage", handoffs=[way]), Agent("billing")]
    team = stage.team(members, cast(triage=tries_then_tells, billing=says("Paid.")), rules=BY_TWO)
    result = await stage.say(team, "Hello", context=VIP)
    must_wait(stage, result)
    while result.status == "waiting":
        [request] = result.requests
        await team.decide(request, Approve(), by="ana", roles=request.roles)
        result = await team.resume(CONVERSATION)
    stage.outcomes[1] = result
    assert result.output == "Paid."
    assert [(each.rule, each.roles) for each in await events(team, ApprovalRequested)] == [
        ("", ()),
        ("money", ("treasurer",)),
        ("fame", ()),
    ]
    assert [request.message for request in await asked(team)][1] == "May it go there?"


@story
async def a_person_may_be_asked_about_what_a_function_hands_over(stage: Stage) -> None:
    decisions: list[Decision] = [Approve(), Edit(receiver="other"), Respond("Stay here.")]
    for number, decision in enumerate(decisions):
        door = Function("door", lambda ctx: Command("clerk"))
        model = cast(clerk=says("clerk"), other=says("other"))
        team = stage.team([door, Agent("clerk"), Agent("other")], model, rules=BY_TWO[1:])
        waiting = await stage.say(team, "Hello", context=VIP, conversation=f"door-{number}")
        must_wait(stage, waiting)
        result = await settled(stage, team, waiting, always(decision))
        assert result.output == ("clerk", "other", "Stay here.")[number]


@story
async def a_rule_that_cannot_be_judged_denies_what_it_should_judge(stage: Stage) -> None:
    rules = [Rule("odd", if_=cannot_say, deny="no"), Rule("odd", if_=cannot_say, approval=True)]
    for number, rule in enumerate(rules):
        where = f"odd-judge-{number}"
        team = stage.team([Agent("triage"), Agent("billing")], cast(triage=tries_then_tells), rules=[rule])
        for _ in range(2):
            result = await stage.say(team, "Hello", conversation=where)
            assert result.output == "refused: the rule 'odd' could not be judged: KeyError: 'tier'"
        assert len(await events(team, RuleFailed, where)) == 2  # one for each run


@story
async def a_tool_whose_command_a_person_lets_pass_is_not_used_again(stage: Stage) -> None:
    def pass_on(ctx: RunContext) -> Command:
        """Pass it on."""
        stage.effects.append(f"passed on in {ctx.conversation}")
        return Command("clerk")

    options: list[dict[str, Any]] = [{"guards": [Says(Ask("Sure?"))]}, {"rules": BY_TWO[1:]}]
    for number, each in enumerate(options):
        model = cast(boss=asks(("pass_on", {})), clerk=says("Done."))
        team = stage.team([Agent("boss", tools=[pass_on]), Agent("clerk")], model, **each)
        waiting = await stage.say(team, "Go!", context=VIP, conversation=f"pass-on-{number}")
        must_wait(stage, waiting)
        result = await settled(stage, team, waiting, always(Approve()))
        assert (result.output, result.final_agent) == ("Done.", "clerk")
        assert stage.did.count(f"passed on in pass-on-{number}") == 1
