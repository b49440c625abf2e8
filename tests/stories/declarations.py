"""Stories of agents that rows of the store declare: added, changed and removed while conversations go on."""

from collections.abc import Sequence
from typing import Any

from changeover import Agent, Team, tool
from changeover.ids import child_id
from changeover.messages import Message, Note
from changeover.relay.events import HandoffReturned, RunStarted
from changeover.relay.ports.declarations import Edit, Standing
from changeover.testing import Reply, ScriptedModel, calls, delegates, hands_off, says
from changeover.tools.tool import ToolDefinition
from tests.stories.service import at_work, ended
from tests.stories.stage import CONVERSATION, Stage, events, story

FIRST: dict[str, Any] = {"instructions": "The first instructions.", "description": "Sends money back."}
SECOND: dict[str, Any] = {**FIRST, "instructions": "The second instructions."}


async def change(team: Team, edition: int, *edits: Edit) -> None:
    """Write the changes of this edition, unless an earlier life did."""
    if await team.declarations.edition() < edition:
        await team.declarations.write(edits, by="ana@example.org")


def billing(document: dict[str, Any] | None = None, state: Standing | None = None) -> Edit:
    return Edit("agent", "billing", document, state)


def hands_over_once(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
    """The desk hands the first message over, and says what it is told of the second one."""
    notes = [message.text for message in messages if isinstance(message, Note)]
    if agent == "desk" and not notes and len(messages) == 1:
        return hands_off("billing", "Charged twice.")
    return says(f"{agent}: {'; '.join(notes)}")


@story
async def a_row_makes_an_agent_that_can_be_handed_to(stage: Stage) -> None:
    model = ScriptedModel({"desk": [hands_off("billing", "Charged twice.")], "billing": [says("Sent back.")]})
    team = stage.team([Agent("desk")], model)
    await change(team, 1, billing(FIRST))
    result = await stage.say(team, "I was charged twice!")
    assert (result.output, result.final_agent) == ("Sent back.", "billing")
    for request in stage.requests("desk"):
        [definition] = request.tools
        assert "Sends money back." in definition.description
    for request in stage.requests("billing"):
        assert "The first instructions." in request.instructions
    assert [event.edition for event in await events(team, RunStarted)] == [1]


@story
async def a_row_that_changes_during_a_run_holds_from_the_next_run_on(stage: Stage) -> None:
    @tool
    async def rewrite() -> str:
        """Change the row of the agent that comes next."""
        await change(team, 2, billing(SECOND))
        return "changed"

    script = {
        "desk": [calls(("rewrite", {})), hands_off("billing", "Charged twice.")],
        "billing": [says("Sent back."), says("Still sent back.")],
    }
    team = stage.team([Agent("desk", tools=[rewrite])], ScriptedModel(script))
    await change(team, 1, billing(FIRST))
    assert (await stage.say(team, "first")).output == "Sent back."
    assert (await stage.say(team, "second")).output == "Still sent back."
    for request in stage.requests("billing"):
        late = any(message.text == "second" for message in request.messages)
        assert ("The second instructions." if late else "The first instructions.") in request.instructions
    assert [event.edition for event in await events(team, RunStarted)] == [1, 2]


@story
async def an_agent_that_is_removed_ends_its_run_and_the_next_one_begins_at_the_start(stage: Stage) -> None:
    team = stage.team([Agent("desk")], ScriptedModel(hands_over_once))
    await change(team, 1, billing(FIRST))
    assert (await stage.say(team, "first")).final_agent == "billing"
    await change(team, 2, billing(state="removed"))
    result = await stage.say(team, "second")
    assert (result.output, result.final_agent) == ("desk: no longer available: agent 'billing'", "desk")
    for request in stage.requests("desk"):
        assert bool(request.tools) is (len(request.messages) == 1)
    third = await stage.say(team, "third")
    assert third.output.count("no longer available") == 1
    assert [event.withdrawn for event in await events(team, RunStarted)] == [(), ("agent 'billing'",), ()]


@story
async def an_agent_that_is_removed_during_a_run_is_still_handed_to_in_it(stage: Stage) -> None:
    @tool
    async def dismiss() -> str:
        """Remove the agent that comes next."""
        await change(team, 2, billing(state="removed"))
        return "removed"

    script = {
        "desk": [calls(("dismiss", {})), hands_off("billing", "Charged twice."), says("I am back.")],
        "billing": [says("Sent back.")],
    }
    team = stage.team([Agent("desk", tools=[dismiss])], ScriptedModel(script))
    await change(team, 1, billing(FIRST))
    assert (await stage.say(team, "first")).final_agent == "billing"
    result = await stage.say(team, "second")
    assert (result.output, result.final_agent) == ("I am back.", "desk")


@story
async def a_delegate_works_with_the_declarations_of_its_senders_run(stage: Stage) -> None:
    @tool
    async def dismiss() -> str:
        """Remove the delegate."""
        await change(team, 2, billing(state="removed"))
        return "removed"

    script = {
        "desk": [calls(("dismiss", {})), hands_off("lead", "Charged twice.")],
        "lead": [delegates("billing", "Send it back."), says("Done."), says("It is gone.")],
        "billing": [says("Sent back.")],
    }
    team = stage.team([Agent("desk", tools=[dismiss])], ScriptedModel(script))
    lead: dict[str, Any] = {"handoffs": [{"to": "billing", "delegate": True}]}
    await change(team, 1, billing({**FIRST, "handoffs": []}), Edit("agent", "lead", lead))
    result = await stage.say(team, "first")
    assert result.output == "Done."
    [returned] = await events(team, HandoffReturned)
    assert returned.response == "Sent back."
    below = child_id(CONVERSATION, returned.call)
    assert [event.edition for event in await events(team, RunStarted, below)] == [1]
    assert (await stage.say(team, "second")).output == "It is gone."
    for request in stage.requests("lead"):
        late = any(message.text == "second" for message in request.messages)
        assert [each.name for each in request.tools] == ([] if late else ["delegate_to_billing"])


@story
async def what_code_declares_wins_over_a_row_of_the_same_name(stage: Stage) -> None:
    model = ScriptedModel({"desk": [says("I am the code.")]})
    team = stage.team([Agent("desk", instructions="By code.")], model)
    await change(team, 1, Edit("agent", "desk", {"instructions": "By data."}))
    assert (await stage.say(team, "hello")).output == "I am the code."
    for request in stage.requests("desk"):
        assert "By code." in request.instructions


@story
async def a_disabled_agent_that_others_name_is_not_offered_until_it_is_enabled(stage: Stage) -> None:
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        return says(f"{agent}: {' '.join(each.name for each in tools)}")

    team = stage.team([Agent("desk", handoffs=[])], ScriptedModel(play))
    lead: dict[str, Any] = {"handoffs": [{"to": "billing"}, {"to": "desk"}]}
    await change(team, 1, billing({**FIRST, "handoffs": []}), Edit("agent", "lead", lead))
    seen = [(await stage.say(team, "1", agent="lead")).output]
    await change(team, 2, billing(state="disabled"))
    seen.append((await stage.say(team, "2")).output)
    await change(team, 3, billing(state="enabled"))
    seen.append((await stage.say(team, "3")).output)
    both = "lead: handoff_to_billing handoff_to_desk"
    assert seen == [both, "lead: handoff_to_desk", both]


@story
async def a_ticket_is_served_with_the_declarations_of_its_run(stage: Stage) -> None:
    script = {"desk": [hands_off("billing", "Charged twice.")], "billing": [says("Sent back.")]}
    team = stage.team([Agent("desk")], ScriptedModel(script))
    await change(team, 1, billing({**FIRST, "pull": True}))
    await stage.say(team, "I was charged twice!")
    await change(team, 2, billing({**SECOND, "pull": True}))
    async with at_work(stage, team, "billing"):
        result = await ended(stage, team, "I was charged twice!")
    assert (result.output, result.final_agent) == ("Sent back.", "billing")
    for request in stage.requests("billing"):
        assert "The first instructions." in request.instructions
    assert [event.edition for event in await events(team, RunStarted)] == [1]


@tool
def look_up(order: str) -> str:
    """Look an order up."""
    return f"{order} was paid twice"


LEAD: dict[str, Any] = {
    "type": "handoff",
    "to": "sdr",
    "description": "Hand off for sales outreach.",
    "instructions": "Call within a day.",
    "variables": [
        {"name": "lead_id", "required": True, "description": "The lead."},
        {"name": "campaign_type", "required": False},
    ],
}


@story
async def a_row_of_type_handoff_is_a_tool_with_target_variables_and_instructions(stage: Stage) -> None:
    script = {"desk": [calls(("handoff_to_sdr", {"lead_id": "123"}))], "sdr": [says("Called.")]}
    team = stage.team([Agent("clerk", handoffs=[])], ScriptedModel(script), start="clerk")
    await change(
        team,
        1,
        Edit("tool", "handoff_to_sdr", LEAD),
        Edit("agent", "desk", {"tools": ["handoff_to_sdr"], "handoffs": []}),
        Edit("agent", "sdr", {"instructions": "You sell."}),
    )
    result = await stage.say(team, "A lead!", agent="desk")
    assert (result.output, result.final_agent, result.context["lead_id"]) == ("Called.", "sdr", "123")
    for request in stage.requests("desk"):
        [definition] = request.tools
        assert (definition.name, definition.parameters["required"]) == ("handoff_to_sdr", ["lead_id"])
    for request in stage.requests("sdr"):
        assert "You sell." in request.instructions
        assert "Call within a day." in request.instructions


def looks_up_or_tells(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
    """Call the tool as long as there is one; then say its result, or what a note says."""
    if messages[-1].text in ("first", "second") and tools:
        return calls((tools[0].name, {"order": "o1"}))
    notes = [message.text for message in messages if isinstance(message, Note)]
    return says("; ".join(notes) or messages[-1].text)


@story
async def a_row_of_a_tool_is_called_until_it_is_removed_and_then_the_model_is_told(stage: Stage) -> None:
    team = stage.team([Agent("idle", handoffs=[])], ScriptedModel(looks_up_or_tells), tool_modules=[__name__])
    internal = {"type": "internal", "function": f"{__name__}:look_up"}
    desk = Edit("agent", "desk", {"tools": ["find_order"], "handoffs": []})
    await change(team, 1, Edit("tool", "find_order", internal), desk)
    assert (await stage.say(team, "first", agent="desk")).output == "o1 was paid twice"
    await change(team, 2, Edit("tool", "find_order", state="removed"))
    assert (await stage.say(team, "second")).output == "no longer available: tool 'find_order'"
