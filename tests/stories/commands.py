"""Stories of Commands: tools and Function members that choose the next agent and add variables."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from changeover import END, Agent, Command, Function, Limits, MessageOnly, RunContext, RunResult, delegate, tool
from changeover.errors import FunctionError, HandoffTargetNotFoundError, MaxHandoffsExceededError
from changeover.messages import Message, Note, ToolResult, User
from changeover.models import Usage
from changeover.relay.events import CallRefused, HandoffOffered, HandoffReturned, ToolFinished
from changeover.testing import Reply, ScriptedModel, calls, delegates, fails, hands_off, says
from changeover.tools.tool import Tool, ToolDefinition
from tests.stores.entries import until
from tests.stories.scripts import recites
from tests.stories.stage import CONVERSATION, Stage, events, story

PARCEL: dict[str, dict[str, Any]] = {
    "context": {"topic": "tea"},
    "artifacts": {"notes": "file://notes.md", "draft": None},
    "workflow_state": {"phase": "writing", "next": "review", "done": ["research"], "remaining": ["review"]},
}


def gives(name: str, command: Command, **options: Any) -> Tool:
    """A tool that returns this."""

    def give() -> Command:
        return command

    return tool(name=name, **options)(give)


def goes(id: str, command: Command) -> Function:
    """A Function member that returns this."""
    return Function(id, lambda ctx: command)


def plays(turn: Reply) -> ScriptedModel:
    """Models: the first makes this turn, and the agent that reads the results answers with them."""

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        results = [message.text for message in messages if isinstance(message, ToolResult)]
        return says(f"{agent} reads: {' | '.join(results)}") if results else turn

    return ScriptedModel(play)


def tells(results: str) -> list[str]:
    """What came back of branches or of a delegate: each agent, and what it said or why it failed."""
    given = json.loads(results)
    return [
        f"{each['agent']}: {each['response'] if each['success'] else each['error']}"
        for each in (given if isinstance(given, list) else [given])
    ]


def shows(ctx: RunContext) -> str:
    """Answer with what was handed over."""
    received = ctx.accept_handoff()
    assert received is not None
    own = {name: value for name, value in received.context.items() if not name.startswith("_handoff_")}
    parcel = {"context": own, "artifacts": received.artifacts, "workflow_state": received.workflow_state}
    assert ctx.context == received.context
    assert (ctx.artifacts, ctx.workflow_state) == (received.artifacts, received.workflow_state)
    return json.dumps({"sender": received.sender, "message": received.message, **parcel})


async def arrives(stage: Stage, sender: Agent | Function, model: ScriptedModel | None) -> RunResult:
    """`sender` hands the parcel to `writer`, which finds all of it; the result of the run has it too."""
    result = await stage.say(stage.team([sender, Function("writer", shows)], model), "write", context={"user_id": 7})
    own = {"user_id": 7, "topic": "tea"}
    assert json.loads(result.output) == {"sender": sender.id, "message": "Go on.", **PARCEL, "context": own}
    assert (result.variables, result.artifacts, result.workflow_state) == (own, *list(PARCEL.values())[1:])
    assert result.context["_handoff_chain"] == [sender.id, "writer"]
    assert (result.final_agent, [(h.sender, h.receiver, h.mode, h.state) for h in result.handoff_chain]) == (
        "writer",
        [(sender.id, "writer", "transfer", "COMPLETE")],
    )
    return result


@story
async def a_tool_hands_the_conversation_on_with_all_that_travels(stage: Stage) -> None:
    route = gives("route", Command(goto="writer", update=PARCEL, message="Go on."))
    result = await arrives(stage, Agent("editor", tools=[route]), plays(calls(("route", {}))))
    assert (result.handoff_chain[0].tool, result.context["_handoff_tool"]) == ("route", "route")


@story
async def a_function_hands_the_conversation_on_with_all_that_travels(stage: Stage) -> None:
    await arrives(stage, goes("editor", Command(goto="writer", update=PARCEL, message="Go on.")), None)


@story
async def updates_of_commands_are_merged_key_by_key(stage: Stage) -> None:
    first = {"context": {"topic": "tea", "tone": "dry"}, "artifacts": {"notes": None, "draft": None}}
    second = {"context": {"tone": "warm"}, "artifacts": {"notes": "file://notes.md"}}
    members = [
        goes("a", Command("b", {**first, "workflow_state": {"phase": "plan", "done": ["brief"], "remaining": ["x"]}})),
        goes("b", Command("c", {**second, "workflow_state": {"phase": "write", "done": ["plan"]}})),
        Function("c", shows),
    ]
    result = await stage.say(stage.team(members), "write")
    assert result.variables == {"topic": "tea", "tone": "warm"}
    assert result.artifacts == {"notes": "file://notes.md", "draft": None}
    assert result.workflow_state == {"phase": "write", "done": ["plan"], "remaining": ["x"]}
    assert json.loads(result.output)["workflow_state"] == result.workflow_state


@story
async def what_a_command_adds_is_known_to_the_receivers_model_and_its_tools(stage: Stage) -> None:
    def look(ctx: RunContext) -> str:
        """Look around."""
        return f"{ctx.context['topic']}, {ctx.artifacts['notes']}, {ctx.workflow_state['phase']}"

    editor, writer = goes("editor", Command("writer", PARCEL)), Agent("writer", tools=[look])
    result = await stage.say(stage.team([editor, writer], plays(calls(("look", {})))), "write")
    assert result.output == "writer reads: tea, file://notes.md, writing"
    for request in stage.requests("writer"):
        assert '"topic": "tea"' in request.instructions


@story
async def variables_artifacts_and_workflow_state_stay_with_the_conversation(stage: Stage) -> None:
    def writer(ctx: RunContext) -> str:
        return f"{ctx.input}: {ctx.artifacts['notes']}, {ctx.workflow_state['phase']}"

    team = stage.team([goes("editor", Command("writer", PARCEL)), Function("writer", writer)])
    assert (await stage.say(team, "write")).output == "write: file://notes.md, writing"
    second = await stage.say(team, "again")
    assert (second.output, second.final_agent) == ("again: file://notes.md, writing", "writer")
    assert (second.artifacts, second.workflow_state) == (PARCEL["artifacts"], PARCEL["workflow_state"])


@story
async def a_flow_that_fails_keeps_what_it_has_and_goes_on_from_there(stage: Stage) -> None:
    def writer(ctx: RunContext) -> str:
        if ctx.input != "try again":
            raise ConnectionError("no ink")
        return f"Wrote from {ctx.artifacts['notes']}."

    team = stage.team([goes("editor", Command("writer", PARCEL)), Function("writer", writer)])
    error = await stage.error(FunctionError, team, "write")
    assert error.result is not None
    assert (error.result.artifacts, error.result.workflow_state) == (PARCEL["artifacts"], PARCEL["workflow_state"])
    assert (await stage.say(team, "try again")).output == "Wrote from file://notes.md."


@story
async def a_tool_ends_the_run_with_its_output(stage: Stage) -> None:
    finish = gives("finish", Command(END, {"output": "All done.", "workflow_state": {"phase": "done"}}))

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        return calls(("finish", {}), text="One moment.") if len(messages) == 1 else recites(agent, messages, tools)

    team = stage.team([Agent("clerk", tools=[finish]), Agent("other")], ScriptedModel(play))
    first = await stage.say(team, "file this")
    assert (first.output, first.final_agent, first.status) == ("All done.", "clerk", "completed")
    assert (first.workflow_state, first.handoff_chain, first.usage.requests) == ({"phase": "done"}, [], 1)
    second = await stage.say(team, "what was that?")
    assert second.final_agent == "clerk"
    assert "Assistant(agent='clerk', text='All done.'" in second.output
    assert "the run ends here" in second.output


@story
async def a_function_ends_the_run_with_its_output(stage: Stage) -> None:
    def gate(ctx: RunContext) -> Command:
        return Command(END, {"output": f"No {ctx.input} today.", "context": {"closed": True}})

    team = stage.team([goes("door", Command("gate")), Function("gate", gate), Agent("other")], ScriptedModel(recites))
    results = [await stage.say(team, text) for text in ("tea", "coffee")]
    assert [(result.output, result.final_agent) for result in results] == [
        ("No tea today.", "gate"),
        ("No coffee today.", "gate"),
    ]
    assert [len(result.handoff_chain) for result in results] == [1, 0]
    assert results[0].handoff_chain[0].state == "COMPLETE"
    assert results[0].variables == {"closed": True}
    assert "Assistant(agent='gate', text='No tea today.'" in (await stage.say(team, "who?", agent="other")).output


@story
async def an_end_without_an_output_is_an_empty_answer(stage: Stage) -> None:
    team = stage.team([Agent("clerk", tools=[gives("finish", Command(END))])], plays(calls(("finish", {}))))
    first = await stage.say(team, "file this")
    assert (first.output, first.status) == ("", "completed")
    assert (await stage.say(team, "and?")).output == "clerk reads: the run ends here"


@story
async def a_tool_that_only_adds_something_is_done_and_its_agent_goes_on(stage: Stage) -> None:
    def look(ctx: RunContext) -> str:
        """Look around."""
        return f"{ctx.context['topic']}, {ctx.artifacts['notes']}, {ctx.workflow_state['phase']}"

    turn = calls(("note", {}), ("look", {}))
    team = stage.team([Agent("solo", tools=[gives("note", Command(update=PARCEL)), look]), Agent("other")], plays(turn))
    result = await stage.say(team, "remember this")
    assert result.output == "solo reads: done | tea, file://notes.md, writing"
    assert (result.final_agent, result.handoff_chain) == ("solo", [])
    assert (result.variables, result.artifacts, result.workflow_state) == tuple(PARCEL.values())


@story
async def a_function_that_only_adds_something_is_asked_for_a_goto(stage: Stage) -> None:
    team = stage.team([goes("note", Command(update=PARCEL)), Agent("other")], ScriptedModel({}))
    error = await stage.error(FunctionError, team, "remember this")
    assert "a Command that goes somewhere: give it a goto" in str(error)
    assert error.result is not None
    assert (error.result.artifacts, error.result.workflow_state) == ({}, {})


async def noted(stage: Stage, writer: Agent, command: Command) -> list[str]:
    """The notes that `writer` reads when a tool sends it this command, and when a Function member does."""

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent == "editor":
            return calls(("route", {}))
        return says(repr([message for message in messages if isinstance(message, Note)]))

    editors: list[Agent | Function] = [Agent("editor", tools=[gives("route", command)]), goes("editor", command)]
    teams = [stage.team([editor, writer], ScriptedModel(play)) for editor in editors]
    return [(await stage.say(team, "write", conversation=f"{at}")).output for at, team in enumerate(teams)]


@story
async def the_message_of_a_command_is_a_note_for_the_receiver(stage: Stage) -> None:
    notes = await noted(stage, Agent("writer"), Command("writer", message="Be brief."))
    assert notes == ["[Note(text='Be brief.', author='editor')]"] * 2


@story
async def the_message_of_a_command_is_read_also_by_a_receiver_that_reads_nothing_else(stage: Stage) -> None:
    notes = await noted(stage, Agent("writer", strategy=MessageOnly()), Command("writer", message="Be brief."))
    assert notes == ["[Note(text='Be brief.', author='editor')]"] * 2


@story
async def a_command_without_a_message_leaves_no_note(stage: Stage) -> None:
    assert await noted(stage, Agent("writer"), Command("writer")) == ["[]", "[]"]


@story
async def a_goto_to_an_unknown_agent_fails_the_tool_and_its_agent_goes_on(stage: Stage) -> None:
    team = stage.team(
        [Agent("editor", tools=[gives("route", Command("sales", PARCEL))]), Agent("writer")],
        plays(calls(("route", {}))),
    )
    result = await stage.say(team, "write")
    assert result.output == "editor reads: no agent is called 'sales'; this team has: editor, writer"
    assert (result.final_agent, result.handoff_chain) == ("editor", [])
    assert [(refused.why, refused.receiver) for refused in await events(team, CallRefused)] == [("command", "sales")]


@story
async def a_tool_that_repeats_a_goto_to_an_unknown_agent_ends_the_run(stage: Stage) -> None:
    model = ScriptedModel({"editor": [calls(("route", {}))] * 3})
    team = stage.team([Agent("editor", tools=[gives("route", Command("sales"))]), Agent("writer")], model)
    error = await stage.error(HandoffTargetNotFoundError, team, "write")
    assert (error.sender, error.receiver, error.available) == ("editor", "sales", ("editor", "writer"))
    assert len(await events(team, CallRefused)) == 3


@story
async def a_function_with_a_goto_to_an_unknown_agent_ends_the_run(stage: Stage) -> None:
    def editor(ctx: RunContext) -> Command:
        return Command("sales" if ctx.input == "write" else "writer")

    team = stage.team([Function("editor", editor), Agent("writer")], ScriptedModel({"writer": [says("Written.")]}))
    error = await stage.error(HandoffTargetNotFoundError, team, "write")
    assert (error.sender, error.receiver, error.available) == ("editor", "sales", ("editor", "writer"))
    assert str(error) == "'editor' tried to hand off to 'sales', who does not exist; there are: editor, writer"
    assert error.result is not None
    assert (error.result.status, error.result.handoff_chain) == ("failed", [])
    assert (await stage.say(team, "write, please")).output == "Written."


@story
async def every_goto_counts_as_a_handoff(stage: Stage) -> None:
    members = [goes("a", Command("b")), goes("b", Command("c")), Function("c", lambda ctx: "Arrived.")]
    team = stage.team(members)
    assert (await stage.say(team, "go", limits=Limits(max_handoffs=2), conversation="two")).output == "Arrived."
    error = await stage.error(MaxHandoffsExceededError, team, "go", limits=Limits(max_handoffs=1), conversation="one")
    assert (error.limit, [(h.sender, h.receiver) for h in error.chain]) == (1, [("a", "b")])


@story
async def a_goto_beyond_the_limit_is_reported_to_the_model_if_so_declared(stage: Stage) -> None:
    route = gives("route", Command("b"))
    team = stage.team(
        [Agent("a", tools=[route]), Function("b", lambda ctx: "Arrived.")],
        plays(calls(("route", {}))),
        limits=Limits(max_handoffs=0, on_limit="tell"),
    )
    result = await stage.say(team, "go")
    assert result.output == "a reads: refused: the run has made all its 0 handoffs; answer yourself"


def desk(*tools: Tool) -> list[Agent]:
    """An agent with these tools, and those it may go to."""
    return [Agent("triage", tools=tools), Agent("billing"), Agent("tech")]


@story
async def a_command_before_a_transfer_wins(stage: Stage) -> None:
    turn = calls(("route", {}), hands_off("billing", "refund"))
    result = await stage.say(stage.team(desk(gives("route", Command("tech"))), plays(turn)), "it broke")
    assert (result.final_agent, len(result.handoff_chain)) == ("tech", 1)
    assert result.output == "tech reads: transferred to tech | ignored: this conversation already goes to tech"


@story
async def a_transfer_before_a_command_wins(stage: Stage) -> None:
    turn = calls(hands_off("billing", "refund"), ("route", {}))
    route = gives("route", Command("tech", {"context": {"device": "phone"}}))
    result = await stage.say(stage.team(desk(route), plays(turn)), "it broke")
    assert (result.final_agent, len(result.handoff_chain)) == ("billing", 1)
    assert result.output == (
        "billing reads: transferred to billing | ignored: this conversation already goes to billing"
    )
    assert result.variables == {"device": "phone"}  # where it leads is ignored; what it adds was added


@story
async def of_two_commands_in_one_turn_the_first_that_can_lead_does(stage: Stage) -> None:
    names = {"lost": "sales", "first": "billing", "second": "tech"}
    turn = calls(*((name, {}) for name in names))
    team = stage.team(desk(*(gives(name, Command(goto)) for name, goto in names.items())), plays(turn))
    result = await stage.say(team, "it broke")
    assert [h.receiver for h in result.handoff_chain] == ["billing"]
    nobody, made, ignored = result.output.split(" | ")
    assert nobody.startswith("billing reads: no agent is called 'sales'")
    assert (made, ignored) == ("transferred to billing", "ignored: this conversation already goes to billing")


@story
async def an_end_before_a_command_wins(stage: Stage) -> None:
    tools = [gives("finish", Command(END, {"output": "Closed."})), gives("route", Command("tech"))]
    team = stage.team(desk(*tools), plays(calls(("finish", {}), ("route", {}), hands_off("billing", "refund"))))
    result = await stage.say(team, "it broke")
    assert (result.output, result.final_agent, result.handoff_chain) == ("Closed.", "triage", [])
    second = await stage.say(team, "and now?")
    assert second.output == "triage reads: the run ends here | " + " | ".join(["ignored: the run ends here"] * 2)


@story
async def a_command_before_an_end_wins(stage: Stage) -> None:
    tools = [gives("finish", Command(END, {"output": "Closed."})), gives("route", Command("tech"))]
    result = await stage.say(stage.team(desk(*tools), plays(calls(("route", {}), ("finish", {})))), "it broke")
    assert (result.final_agent, len(result.handoff_chain)) == ("tech", 1)
    assert result.output == "tech reads: transferred to tech | ignored: this conversation already goes to tech"


async def order(stage: Stage, turn: Reply) -> list[str]:
    """What `tech` reads of a turn with a goto, a write and a delegate; all others were done when it was reached."""

    def save() -> str:
        """Save it."""
        stage.effects.append("saved")
        return "saved"

    async def check(ctx: RunContext) -> str:
        await asyncio.sleep(0.01)
        stage.effects.append("checked")
        return "checked"

    triage = Agent("triage", tools=[gives("route", Command("tech")), save], handoffs=[delegate("checker")])
    team = stage.team([triage, Function("checker", check), Agent("tech")], plays(turn))
    result = await stage.say(team, "it broke")
    assert (result.final_agent, [h.receiver for h in result.handoff_chain]) == ("tech", ["checker", "tech"])
    assert sorted(stage.did) == ["checked", "saved"]
    kinds = [record.event for record in await team.history(CONVERSATION)]
    [goto] = [at for at, event in enumerate(kinds) if isinstance(event, HandoffOffered) and event.receiver == "tech"]
    done = [at for at, event in enumerate(kinds) if isinstance(event, HandoffReturned | ToolFinished)]
    assert len(done) == 3
    assert goto > max(done)
    return result.text.removeprefix("tech reads: ").split(" | ")


@story
async def a_command_acts_after_delegates_and_tools_written_after_it(stage: Stage) -> None:
    routed, saved, checked = await order(stage, calls(("route", {}), ("save", {}), delegates("checker", "check")))
    assert (routed, saved, tells(checked)) == ("transferred to tech", "saved", ["checker: checked"])


@story
async def a_command_acts_after_delegates_and_tools_written_before_it(stage: Stage) -> None:
    checked, saved, routed = await order(stage, calls(delegates("checker", "check"), ("save", {}), ("route", {})))
    assert (routed, saved, tells(checked)) == ("transferred to tech", "saved", ["checker: checked"])


@story
async def results_of_parallel_reads_are_merged_in_call_order(stage: Stage) -> None:
    def finds(name: str, after: str) -> Tool:
        async def find() -> Command:
            await until(lambda: not after or after in stage.effects)
            stage.effects.append(name)
            found = {"context": {"last": name, name: True}, "artifacts": {"last": name}}
            return Command(update={**found, "workflow_state": {"phase": name, "done": [name]}})

        return tool(name=name, read_only=True)(find)

    tools = [finds("a", "c"), finds("b", ""), finds("c", "b")]
    team = stage.team([Agent("solo", tools=tools)], plays(calls(("a", {}), ("b", {}), ("c", {}))))
    result = await stage.say(team, "look")
    assert result.output == "solo reads: done | done | done"
    assert result.variables == {"last": "c", "a": True, "b": True, "c": True}
    assert (result.artifacts, result.workflow_state) == ({"last": "c"}, {"phase": "c", "done": ["c"]})
    assert stage.did == ["b", "c", "a"] or stage.lives > 1


@story
async def a_function_loops_by_going_to_itself(stage: Stage) -> None:
    def climb(ctx: RunContext) -> str | Command:
        done = ctx.workflow_state.get("done", [])
        stage.effects.append(f"step {len(done) + 1}")
        if len(done) == 3:
            return f"Up after {', '.join(done)}."
        return Command("climber", {"workflow_state": {"done": [*done, f"{len(done) + 1}"]}})

    result = await stage.say(stage.team([Function("climber", climb)]), "climb")
    assert (result.output, result.final_agent) == ("Up after 1, 2, 3.", "climber")
    assert [(h.sender, h.receiver, h.strategy) for h in result.handoff_chain] == [
        ("climber", "climber", "message_only")
    ] * 3
    assert stage.did == ["step 1", "step 2", "step 3", "step 4"]


@story
async def a_loop_without_an_end_is_stopped(stage: Stage) -> None:
    team = stage.team([goes("ring", Command("ring"))], guards=())
    error = await stage.error(MaxHandoffsExceededError, team, "go")
    assert (error.limit, len(error.chain)) == (10, 10)


@story
async def an_agent_that_a_tool_sends_to_itself_starts_afresh(stage: Stage) -> None:
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        fresh = any(isinstance(message, Note) for message in messages)
        return recites(agent, messages, tools) if fresh else calls(("again", {}))

    again = gives("again", Command("solo", message="Second try."))
    result = await stage.say(stage.team([Agent("solo", tools=[again])], ScriptedModel(play)), "try")
    assert result.output == repr([User("try"), Note("Second try.", "solo")])


@story
async def a_received_handoff_has_the_metrics_of_the_run_so_far(stage: Stage) -> None:
    def report(ctx: RunContext) -> str:
        received = ctx.accept_handoff()
        assert received is not None
        metrics = received.metrics
        stage.effects.append(f"{ctx.input} after {metrics.elapsed > 0}")
        return f"{metrics.tokens} tokens, {metrics.retries} retries"

    routes = Reply(calls=calls(("route", {})).calls, usage=Usage(100, 20, 1))
    script = {"editor": [fails("overloaded"), fails("overloaded"), routes], "reporter": []}
    route = gives("route", Command("desk"))
    desk = goes("desk", Command("reporter"))
    team = stage.team([Agent("editor", tools=[route]), desk, Function("reporter", report)], ScriptedModel(script))
    assert (await stage.say(team, "report")).output == "120 tokens, 2 retries"
    # Another life has another clock, which begins anew.
    assert stage.did == ["report after True"] or stage.lives > 1


BAD: dict[str, tuple[Command, str]] = {
    "key": (Command(update={"_handoff_tool": "x"}), "update sets '_handoff_tool', which only Changeover writes"),
    "output": (Command("writer", {"output": "x"}), "'output', which is the run's answer; give it only with goto=END"),
    "nobody": (Command(""), "goto is empty"),
    "none": (Command([]), "goto is []; give the id of an agent, a Send(…) or a list of them, or END"),
    "reserved": (Command(update={"context": {"_handoff_from": "me"}}), "'_handoff_from', which only Changeover writes"),
    "artifact": (Command(update={"artifacts": {"cup": 7}}), "['cup'] is 7; give a reference (str), or None"),
    "state": (Command(update={"workflow_state": {"step": 1}}), "holds 'step', which is unknown; it holds phase: str"),
    "json": (Command(update={"context": {"it": object()}}), "which JSON cannot hold"),
}


@story
async def a_tool_that_returns_a_bad_command_is_told_what_is_wrong(stage: Stage) -> None:
    tools = [gives(name, command) for name, (command, _) in BAD.items()]
    team = stage.team([Agent("editor", tools=tools), Agent("writer")], plays(calls(*((name, {}) for name in BAD))))
    result = await stage.say(team, "write")
    for (name, (_, wrong)), said in zip(BAD.items(), result.output.split(" | "), strict=True):
        assert f"{name} ran, but the Command that it returned cannot be carried out: " in said
        assert wrong in said
    assert (result.final_agent, result.variables, result.artifacts) == ("editor", {}, {})


@story
async def a_function_that_returns_a_bad_command_fails_with_what_is_wrong(stage: Stage) -> None:
    for name, (command, wrong) in BAD.items():
        team = stage.team([goes("editor", command), Agent("writer")], ScriptedModel({}))
        error = await stage.error(FunctionError, team, "write", conversation=name)
        assert error.agent == "editor"
        assert wrong in str(error)


@story
async def a_team_without_handoffs_refuses_a_goto_of_a_tool(stage: Stage) -> None:
    tools = [gives("route", Command("writer", {"context": {"topic": "tea"}})), gives("note", Command(update=PARCEL))]
    team = stage.team(
        [Agent("editor", tools=tools), Agent("writer")],
        plays(calls(("route", {}), ("note", {}))),
        handoffs_enabled=False,
    )
    result = await stage.say(team, "write")
    assert result.output == "editor reads: refused: each agent of this team works alone | done"
    assert (result.final_agent, result.handoff_chain) == ("editor", [])


@story
async def a_team_without_handoffs_lets_a_command_end_a_run(stage: Stage) -> None:
    door = goes("door", Command(END, {"output": "Closed."}))
    team = stage.team([door, Agent("writer")], ScriptedModel({}), handoffs_enabled=False)
    assert (await stage.say(team, "open?")).output == "Closed."


@story
async def an_at_most_once_tool_may_return_a_command(stage: Stage) -> None:
    def book() -> Command:
        """Book it."""
        stage.effects.append("booked")
        return Command("writer", {"artifacts": {"ticket": "file://17"}})

    editor = Agent("editor", tools=[tool(at_most_once=True)(book)])
    result = await stage.say(stage.team([editor, Agent("writer")], plays(calls(("book", {})))), "book it")
    if stage.lives > 1 and result.final_agent == "editor":
        assert result.output.startswith("editor reads: unknown: ")
        assert (result.artifacts, result.handoff_chain) == ({}, [])
        return
    assert (result.output, result.artifacts) == ("writer reads: transferred to writer", {"ticket": "file://17"})
    assert stage.effects == ["booked"]


@story
async def a_goto_too_many_of_a_function_ends_the_run_also_where_models_are_told(stage: Stage) -> None:
    limits = Limits(max_handoffs=0, on_limit="tell")
    team = stage.team([goes("door", Command("writer")), Agent("writer")], ScriptedModel({}), limits=limits)
    async with asyncio.timeout(5):
        error = await stage.error(MaxHandoffsExceededError, team, "open?")
    assert (error.limit, error.chain) == (0, [])


@story
async def of_two_commands_at_once_the_first_in_call_order_leads(stage: Stage) -> None:
    async def slow() -> Command:
        await asyncio.sleep(0.02)
        return Command("billing", {"context": {"by": "slow"}})

    quick = gives("quick", Command("tech", {"context": {"by": "quick"}}))
    members = [Agent("triage", tools=[slow, quick], parallel_tools=True), Agent("billing"), Agent("tech")]
    result = await stage.say(stage.team(members, plays(calls(("slow", {}), ("quick", {})))), "it broke")
    assert (result.final_agent, result.variables) == ("billing", {"by": "quick"})
    assert result.output == (
        "billing reads: transferred to billing | ignored: this conversation already goes to billing"
    )


@story
async def a_team_without_handoffs_ends_a_run_whose_function_goes_elsewhere(stage: Stage) -> None:
    team = stage.team([goes("door", Command("writer")), Agent("writer")], ScriptedModel({}), handoffs_enabled=False)
    async with asyncio.timeout(2):
        error = await stage.error(FunctionError, team, "open?")
    assert "works alone" in str(error)


@story
async def the_error_of_a_repeated_goto_to_an_unknown_agent_names_the_known_ones(stage: Stage) -> None:
    model = ScriptedModel({"editor": [calls(("route", {}))] * 3})
    editor = Agent("editor", tools=[gives("route", Command("sales"))], handoffs=())
    error = await stage.error(HandoffTargetNotFoundError, stage.team([editor, Agent("writer")], model), "write")
    assert error.available == ("editor", "writer")
