"""Stories of one model turn with several calls."""

from collections.abc import Sequence

from changeover import Agent, Variable, handoff
from changeover.messages import Assistant, Message, ToolResult
from changeover.relay.events import CallRefused, HandoffOffered, ToolFinished
from changeover.testing import Reply, ScriptedModel, calls, hands_off, says
from changeover.tools.tool import ToolDefinition
from tests.stories.stage import CONVERSATION, Stage, events, story


def recites_results(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
    """Answer with the results of the turn before, in their order."""
    return says(" | ".join(message.text for message in messages if isinstance(message, ToolResult)))


async def tool_and_handoff(stage: Stage, turn: Reply) -> list[str]:
    """What billing reads of a turn in which triage saves and hands off; the saving has been done by then."""

    def save(order: str) -> str:
        """Save an order."""
        stage.effects.append(f"saved {order}")
        return f"saved {order}"

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        return recites_results(agent, messages, tools) if agent == "billing" else turn

    team = stage.team([Agent("triage", tools=[save]), Agent("billing")], ScriptedModel(play))
    result = await stage.say(team, "charged twice")
    assert (result.final_agent, len(result.handoff_chain)) == ("billing", 1)
    assert stage.did == ["saved 17"]
    kinds = [type(record.event) for record in await team.history(CONVERSATION)]
    assert kinds.index(ToolFinished) < kinds.index(HandoffOffered)
    return result.text.split(" | ")


@story
async def a_tool_and_a_handoff_in_one_turn(stage: Stage) -> None:
    turn = calls(("save", {"order": "17"}), hands_off("billing", "refund"))
    assert await tool_and_handoff(stage, turn) == ["saved 17", "transferred to billing"]


@story
async def a_handoff_and_a_tool_in_one_turn(stage: Stage) -> None:
    turn = calls(hands_off("billing", "refund"), ("save", {"order": "17"}))
    assert await tool_and_handoff(stage, turn) == ["transferred to billing", "saved 17"]


@story
async def of_two_handoffs_in_one_turn_the_first_is_made(stage: Stage) -> None:
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent != "triage":
            return recites_results(agent, messages, tools)
        return calls(hands_off("billing", "refund"), hands_off("tech", "repair"), hands_off("billing", "again"))

    team = stage.team([Agent("triage"), Agent("billing"), Agent("tech")], ScriptedModel(play))
    result = await stage.say(team, "it broke and I was charged twice")
    assert [h.receiver for h in result.handoff_chain] == ["billing"]
    first, second, third = result.output.split(" | ")
    assert first == "transferred to billing"
    assert second.startswith("ignored")
    assert third.startswith("ignored")
    assert [refused.why for refused in await events(team, CallRefused)] == ["ignored", "ignored"]


@story
async def of_two_handoffs_in_one_turn_the_first_that_can_be_made_is_made(stage: Stage) -> None:
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent != "triage":
            return recites_results(agent, messages, tools)
        return calls(hands_off("sales", "refund"), ("handoff_to_tech", {}), hands_off("billing", "repair"))

    tech = handoff("tech", variables=[Variable("device")])
    team = stage.team(
        [Agent("triage", handoffs=["billing", tech]), Agent("billing"), Agent("tech")], ScriptedModel(play)
    )
    result = await stage.say(team, "charged twice")
    assert [h.receiver for h in result.handoff_chain] == ["billing"]
    assert [refused.why for refused in await events(team, CallRefused)] == ["receiver", "arguments"]
    unknown, bad, done = result.output.split(" | ")
    assert "'sales'" in unknown
    assert "device" in bad
    assert done == "transferred to billing"


@story
async def an_unknown_tool_beside_a_handoff_does_not_stop_it(stage: Stage) -> None:
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent == "billing":
            return recites_results(agent, messages, tools)
        return calls(("ship", {}), hands_off("billing", "refund"))

    team = stage.team([Agent("triage"), Agent("billing")], ScriptedModel(play))
    result = await stage.say(team, "charged twice")
    assert (result.final_agent, result.output) == (
        "billing",
        "there is no tool called 'ship'; your tools: handoff | transferred to billing",
    )


@story
async def the_sender_is_not_asked_again_after_its_handoff(stage: Stage) -> None:
    model = ScriptedModel({"triage": [hands_off("billing", "refund")], "billing": [says("Done."), says("Bye.")]})
    team = stage.team([Agent("triage"), Agent("billing")], model)
    await stage.say(team, "charged twice")
    await stage.say(team, "thanks")
    assert len(stage.requests("triage")) <= 1


@story
async def every_call_of_a_long_turn_is_answered_once_and_in_order(stage: Stage) -> None:
    def add(n: int) -> str:
        """Add a number."""
        stage.effects.append(f"added {n}")
        return f"added {n}"

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if isinstance(messages[-1], ToolResult):
            asked = [call.id for message in messages if isinstance(message, Assistant) for call in message.calls]
            answered = [message.call for message in messages if isinstance(message, ToolResult)]
            return says(f"{asked == answered} {len(answered)}")
        return calls(*(("add", {"n": n}) if n % 7 else ("subtract", {"n": n}) for n in range(40)))

    team = stage.team([Agent("solo", tools=[add])], ScriptedModel(play))
    assert (await stage.say(team, "add them up")).output == "True 40"
    assert stage.did == [f"added {n}" for n in range(40) if n % 7]
