"""Stories of teams that switch handoffs off, wholly or for some agents."""

from collections.abc import Sequence
from typing import Any

from changeover import Agent, Command, Function, delegate, tool
from changeover.errors import FunctionError
from changeover.guards import Rule
from changeover.guards.switch import place_of
from changeover.messages import Message, ToolResult
from changeover.relay.events import CallRefused, HandoffOffered, RuleFired
from changeover.testing import Reply, ScriptedModel, calls, delegates, hands_off, says
from changeover.tools.tool import ToolDefinition
from tests.stories.delegates import asks, cast
from tests.stories.guards import tries_then_tells
from tests.stories.scripts import names_its_tools
from tests.stories.stage import Stage, events, story

LOW, HIGH = sorted(("near", "far"), key=place_of)
"""Two conversations, and a share by which only the first of them has handoffs."""
SHARE = (place_of(LOW) + place_of(HIGH)) / 2


@story
async def with_a_share_handoffs_are_offered_in_some_conversations_and_stay_so(stage: Stage) -> None:
    team = stage.team([Agent("triage"), Agent("billing")], ScriptedModel(names_its_tools), handoffs_enabled=SHARE)
    for conversation, shown in ((LOW, "handoff(triage, billing)"), (HIGH, "")):
        for text in ("whom?", "and now?"):
            assert (await stage.say(team, text, conversation=conversation)).output == shown


@story
async def handoffs_may_be_switched_off_by_agent(stage: Stage) -> None:
    members = [Agent("triage"), Agent("billing"), Agent("sales")]
    switched: dict[str, Any] = {"triage": False, "sales": SHARE}
    team = stage.team(members, ScriptedModel(names_its_tools), handoffs_enabled=switched)
    has = "handoff(triage, billing, sales)"
    for agent, conversation, shown in (
        ("triage", LOW, ""),
        ("billing", HIGH, has),
        ("sales", LOW, has),
        ("sales", HIGH, ""),
    ):
        assert (await stage.say(team, "whom?", agent=agent, conversation=conversation)).output == shown


@story
async def a_call_of_a_handoff_where_handoffs_are_off_is_answered_as_an_unknown_tool(stage: Stage) -> None:
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    ways = {"handoff": hands_off("billing", "Pay it."), "delegate_to_clerk": delegates("clerk", "count")}
    for name, turn in ways.items():

        def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition], turn: Reply = turn) -> Reply:
            return says(messages[-1].text) if isinstance(messages[-1], ToolResult) else turn

        triage = Agent("triage", tools=[look], handoffs=["billing", delegate("clerk")])
        members, switched = [triage, Agent("billing"), Agent("clerk")], {"triage": False}
        team = stage.team(members, ScriptedModel(play), handoffs_enabled=switched)
        # A model that was not shown the tool, but remembers it.
        result = await stage.say(team, "Help!", conversation=name)
        assert result.output == f"there is no tool called {name!r}; your tools: look"
        assert result.final_agent == "triage"
        assert await events(team, HandoffOffered, name) == []


@story
async def where_agents_work_alone_a_command_leads_nowhere(stage: Stage) -> None:
    def pass_on() -> Command:
        """Pass it on."""
        return Command("billing")

    members = [Agent("triage", tools=[pass_on]), Agent("billing")]
    model = cast(triage=asks(("pass_on", {})), billing=says("Paid."))
    team = stage.team(members, model, handoffs_enabled=SHARE)
    assert (await stage.say(team, "Pay!", conversation=LOW)).output == "Paid."
    result = await stage.say(team, "Pay!", conversation=HIGH)
    assert result.output == "refused: each agent of this team works alone"
    assert [each.why for each in await events(team, CallRefused, HIGH)] == ["ignored"]


@story
async def where_agents_work_alone_a_function_that_leads_elsewhere_fails(stage: Stage) -> None:
    door = Function("door", lambda ctx: Command("billing"))
    team = stage.team([door, Agent("billing")], cast(billing=says("Paid.")), handoffs_enabled={"door": SHARE})
    assert (await stage.say(team, "Pay!", conversation=LOW)).output == "Paid."
    error = await stage.error(FunctionError, team, "Pay!", conversation=HIGH)
    assert "works alone" in str(error)


@story
async def a_delegate_hands_off_where_the_conversation_of_its_root_does(stage: Stage) -> None:
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent == "boss":
            return says(messages[-1].text) if len(messages) > 1 else delegates("clerk", "count")
        return names_its_tools(agent, messages, tools)

    boss = Agent("boss", handoffs=[delegate("clerk")])
    clerk = Agent("clerk", handoffs=["boss"])
    for conversation, shown in ((LOW, "handoff(boss)"), (HIGH, "")):
        team = stage.team([boss, clerk], ScriptedModel(play), handoffs_enabled={"clerk": SHARE})
        result = await stage.say(team, "How many?", conversation=conversation)
        assert f'"response":"{shown}"' in result.output or (not shown and "response" not in result.output)


@story
async def where_agents_work_alone_no_rule_leads_anywhere(stage: Stage) -> None:
    rule = Rule("to billing", if_=lambda ctx: True, goto="billing")
    for conversation, final in ((LOW, "billing"), (HIGH, "triage")):
        model = cast(triage=says("I do it."), billing=says("Paid."))
        team = stage.team([Agent("triage"), Agent("billing")], model, rules=[rule], handoffs_enabled=SHARE)
        assert (await stage.say(team, "Pay!", conversation=conversation)).final_agent == final
        assert len(await events(team, RuleFired, conversation)) == (final == "billing")


@story
async def a_team_of_which_all_is_switched_on_hands_off_as_ever(stage: Stage) -> None:
    for number, enabled in enumerate([1.0, 1, {"triage": True}, {}]):
        model = cast(triage=tries_then_tells, billing=says("Paid."))
        team = stage.team([Agent("triage"), Agent("billing")], model, handoffs_enabled=enabled)
        assert (await stage.say(team, "Pay!", conversation=f"on-{number}")).output == "Paid."


@story
async def of_a_turn_that_holds_a_handoff_where_there_is_none_the_tools_are_used(stage: Stage) -> None:
    def save() -> str:
        """Save."""
        stage.effects.append("saved")
        return "saved"

    turn = calls(hands_off("billing", "Pay it."), ("save", {}))
    team = stage.team(
        [Agent("triage", tools=[save]), Agent("billing")],
        cast(triage=lambda messages: says(messages[-1].text) if len(messages) > 1 else turn),
        handoffs_enabled={"triage": 0.0},
    )
    assert (await stage.say(team, "Pay!")).output == "saved"
    assert stage.did == ["saved"]
