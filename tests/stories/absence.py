"""Stories of agents that are disabled or removed, before or during a handoff to them."""

from collections.abc import Sequence
from typing import Any

from changeover import Agent, Command, Function, Send, Team, delegate, handoff
from changeover.errors import HandoffTargetNotFoundError
from changeover.messages import Message
from changeover.protocol import HandoffPackage, Metadata, Task
from changeover.relay.events import CallRefused, HandoffAccepted, HandoffRejected
from changeover.routing import Profile
from changeover.testing import Reply, ScriptedModel, calls, delegates, hands_off, says
from changeover.tools.tool import ToolDefinition
from tests.stories.delegates import came_back
from tests.stories.specialists import desk, wants
from tests.stories.stage import CONVERSATION, Stage, events, story

GONE = "'billing' is not available now; you can hand off to: "


def repeats(line: Reply) -> ScriptedModel:
    """The desk says its line, then the result of its call; every other agent says its name."""

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent != "desk":
            return says(f"{agent} is here.")
        return line if len(messages) == 1 else says(messages[-1].text)

    return ScriptedModel(play)


def office(stage: Stage, line: Reply, desk: Agent | None = None, *others: Any, **options: Any) -> Team:
    members = [desk or Agent("desk"), *(others or (Agent("billing"), Agent("sales")))]
    return stage.team(members, repeats(line), **options)


@story
async def a_disabled_agent_is_not_offered_and_the_model_is_told_the_others(stage: Stage) -> None:
    team = office(stage, hands_off("billing", "Charged twice."))
    await team.router.disable("billing")
    result = await stage.say(team, "I was charged twice!")
    assert (result.output, result.final_agent) == (f"{GONE}desk, sales", "desk")
    [refused] = await events(team, CallRefused)
    assert (refused.why, refused.receiver) == ("receiver", "billing")
    for request in stage.requests("desk"):
        [definition] = request.tools
        assert definition.parameters["properties"]["to"]["enum"] == ["desk", "sales"]
        assert "billing" not in definition.description


@story
async def a_model_that_insists_on_a_removed_agent_fails_as_with_an_invented_one(stage: Stage) -> None:
    insists = ScriptedModel({"desk": [hands_off("billing", "x")] * 3})
    team = stage.team([Agent("desk"), Agent("billing"), Agent("sales")], insists)
    await team.router.remove("billing")
    error = await stage.error(HandoffTargetNotFoundError, team, "go")
    assert (error.sender, error.receiver, list(error.available)) == ("desk", "billing", ["desk", "sales"])


@story
async def declared_handoffs_to_a_disabled_agent_are_closed(stage: Stage) -> None:
    ways: list[Any] = [handoff("billing"), delegate("billing"), handoff("sales")]
    for number, line in enumerate([calls(("handoff_to_billing", {})), delegates("billing", "Send it back.")]):
        team = office(stage, line, Agent("desk", handoffs=ways))
        await team.router.disable("billing")
        result = await stage.say(team, "I was charged twice!", conversation=f"c{number}")
        assert result.output == f"{GONE}sales"
    for request in stage.requests("desk"):
        assert [tool.name for tool in request.tools] == ["handoff_to_sales"]


@story
async def without_enabled_receivers_no_handoff_tool_is_offered(stage: Stage) -> None:
    team = office(stage, hands_off("billing", "x"), None, Agent("billing"))
    await team.router.disable("billing")
    result = await stage.say(team, "go")
    assert result.output == f"{GONE}desk"
    for request in stage.requests("desk"):
        assert not request.tools


@story
async def an_agent_that_is_disabled_in_the_middle_of_a_turn_gets_no_later_handoff(stage: Stage) -> None:
    async def close_billing() -> str:
        """Nobody is there today."""
        await team.router.disable("billing")
        return "closed"

    both = calls(("close_billing", {}), ("handoff", {"to": "billing", "message": "Charged twice."}))
    team = office(stage, both, Agent("desk", tools=[close_billing]))
    result = await stage.say(team, "I was charged twice!")
    assert result.output == f"{GONE}desk, sales"


@story
async def an_offer_that_is_under_way_when_its_receiver_is_disabled_is_rejected(stage: Stage) -> None:
    async def leaves(package: HandoffPackage) -> bool:
        await team.router.disable("billing")
        return True

    billing = Agent("billing", accepts=leaves, handoffs=())
    desk = Agent("desk", handoffs=[handoff("billing", alternatives=["sales"])])
    team = office(stage, calls(("handoff_to_billing", {})), desk, billing, Agent("sales", handoffs=()))
    result = await stage.say(team, "I was charged twice!")
    [rejected] = await events(team, HandoffRejected)
    assert (rejected.receiver, rejected.reason) == ("billing", "it is not available now")
    assert result.final_agent == "sales"


@story
async def an_offer_from_code_to_a_disabled_agent_is_rejected(stage: Stage) -> None:
    team = office(stage, says("-"), Agent("desk"), Agent("billing"), Agent("sales"))
    await team.router.disable("billing")
    package = HandoffPackage(
        Task("Send it back."),
        metadata=Metadata(sender="shop", receiver="billing", idempotency_key="k", conversation="code"),
    )
    result = await team.offer(package)
    assert (result.state, result.reason) == ("REJECTED", "it is not available now")


@story
async def commands_of_tools_and_functions_do_not_reach_a_disabled_agent(stage: Stage) -> None:
    def route(ctx: Any) -> Command:
        return Command(goto="billing")

    def spread() -> Command:
        """Ask both."""
        return Command(goto=[Send("billing", {}), Send("sales", {})])

    team = stage.team([Function("desk", route), Agent("billing"), Agent("sales")], repeats(says("-")))
    await team.router.disable("billing")
    error = await stage.error(HandoffTargetNotFoundError, team, "go")
    assert list(error.available) == ["desk", "sales"]
    other = office(stage, calls(("spread", {})), Agent("desk", tools=[spread]))
    await other.router.disable("billing")
    result = await stage.say(other, "go", conversation="other")
    assert "'billing' is not available now; this team has: desk, sales" in result.output
    assert [each.receiver for each in await events(other, HandoffAccepted, "other")] == ["sales"]


@story
async def a_disabled_agent_finishes_its_run_and_the_next_message_goes_to_the_start_agent(stage: Stage) -> None:
    async def close_myself() -> str:
        """That is it for today."""
        await team.router.disable("billing")
        return "closed"

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent == "desk":
            return hands_off("billing", "x") if messages[-1].text == "first" else says("The desk again.")
        done = any(message.text == "closed" for message in messages)
        return says("Sent back.") if done else calls(("close_myself", {}))

    billing = Agent("billing", tools=[close_myself], handoffs=())
    team = stage.team([Agent("desk"), billing], ScriptedModel(play))
    first = await stage.say(team, "first")
    assert (first.output, first.final_agent) == ("Sent back.", "billing")
    assert (await stage.say(team, "second")).output == "The desk again."


@story
async def models_are_told_what_a_profile_adds_to_the_code(stage: Stage) -> None:
    team = office(stage, says("Nothing to do."), None, Agent("billing", description="Sends money."), Agent("sales"))
    await team.router.put(Profile("billing", description="Other words.", capabilities=("refunds",)))
    await stage.say(team, "Hello")
    for request in stage.requests("desk"):
        [definition] = request.tools
        assert "- billing: Sends money.; capabilities: refunds" in definition.description
        assert "Other words." not in definition.description


@story
async def a_disabled_agent_is_never_found_as_a_specialist(stage: Stage) -> None:
    one, two = (Agent(name, capabilities=["law"], handoffs=()) for name in ("one", "two"))
    team = desk(stage, calls(wants("law")), one, two)
    await team.router.disable("one")
    result = await stage.say(team, "go")
    assert came_back(result)[0].agent == "two"
    for request in stage.requests("desk"):
        assert "- two" in request.instructions
        assert "- one" not in request.instructions
    assert [each.receiver for each in await team.handoffs(CONVERSATION)] == ["two"]
