"""Stories of branches: Sends that run at once and return to their sender."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from changeover import END, Agent, Command, Function, Limits, RunContext, RunResult, Send
from changeover.errors import MaxHandoffsExceededError
from changeover.messages import Message, ToolResult
from changeover.models import Usage
from changeover.testing import Reply, ScriptedModel, calls, says
from changeover.tools.tool import ToolDefinition
from tests.stories.commands import gives, goes, plays, tells
from tests.stories.stage import CONVERSATION, Stage, story


def lists_branches(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
    """Call `spread`, then answer with what came back."""
    last = messages[-1]
    return says(" | ".join(tells(last.text))) if isinstance(last, ToolResult) else calls(("spread", {}))


async def spread(stage: Stage, sends: Sequence[Send | str], *members: Function, **options: Any) -> RunResult:
    """A tool of `boss` sends these out; the answer is what comes back to it."""
    boss = Agent("boss", tools=[gives("spread", Command(goto=sends))])
    return await stage.say(stage.team([boss, *members], ScriptedModel(lists_branches), **options), "tea, please")


async def fan(stage: Stage, sends: Sequence[Send | str], *members: Function, **options: Any) -> RunResult:
    """The Function member `boss` sends these out; its answer is what comes back to it."""

    def boss(ctx: RunContext) -> str | Command:
        if not ctx.returned:
            return Command(goto=sends)
        return " | ".join(f"{each.agent}: {each.response or each.error}" for each in ctx.returned)

    return await stage.say(stage.team([Function("boss", boss), *members], **options), "tea, please")


def slow_first(stage: Stage) -> Function:
    """A member whose first branch in order, the one with n=1, is the last to finish."""

    async def work(ctx: RunContext) -> str:
        await asyncio.sleep(0.02 if ctx.context["n"] == 1 else 0.0)
        stage.effects.append(f"worked on {ctx.context['n']}")
        return f"{ctx.context['n']} of {ctx.input}"

    return Function("worker", work)


@story
async def an_end_in_a_branch_ends_only_the_branch(stage: Stage) -> None:
    branch = goes("helper", Command(END, {"output": "Half of it."}))
    result = await spread(stage, ["helper", "helper"], branch)
    assert (result.output, result.final_agent) == ("helper: Half of it. | helper: Half of it.", "boss")


@story
async def branches_of_a_tool_come_back_to_its_caller_in_order(stage: Stage) -> None:
    result = await spread(stage, [Send("worker", {"n": 1}), Send("worker", {"n": 2})], slow_first(stage))
    assert result.output == "worker: 1 of tea, please | worker: 2 of tea, please"
    assert (result.final_agent, result.variables) == ("boss", {})
    assert [(h.sender, h.receiver, h.mode, h.state, h.variables) for h in result.handoff_chain] == [
        ("boss", "worker", "delegate", "RETURNED", {"n": 1}),
        ("boss", "worker", "delegate", "RETURNED", {"n": 2}),
    ]
    assert stage.did == ["worked on 2", "worked on 1"] or stage.lives > 1


@story
async def branches_of_a_function_come_back_to_it_in_order(stage: Stage) -> None:
    def boss(ctx: RunContext) -> str | Command:
        if not ctx.returned:
            return Command([Send("worker", {"n": 1}), Send("worker", {"n": 2}), Send("worker", {"n": 3})])
        assert all(each.success and each.handoff_id.startswith(f"{CONVERSATION}:") for each in ctx.returned)
        return " | ".join(f"{each.agent}: {each.response}" for each in ctx.returned)

    team = stage.team([Function("boss", boss), slow_first(stage)])
    result = await stage.say(team, "tea")
    assert result.output == "worker: 1 of tea | worker: 2 of tea | worker: 3 of tea"
    assert (result.final_agent, [h.state for h in result.handoff_chain]) == ("boss", ["RETURNED"] * 3)
    assert (await stage.say(team, "coffee")).output.startswith("worker: 1 of coffee")


@story
async def branches_of_a_function_are_known_to_it_once(stage: Stage) -> None:
    def boss(ctx: RunContext) -> str | Command:
        rounds = ctx.context.get("rounds", 0)
        seen = [*ctx.context.get("seen", []), len(ctx.returned)]
        if rounds < 2:
            return Command([Send("worker", {"n": 2})] * (rounds + 1), {"context": {"rounds": rounds + 1, "seen": seen}})
        return Command("boss" if rounds == 2 else "last", {"context": {"rounds": rounds + 1, "seen": seen}})

    last = Function("last", lambda ctx: f"{ctx.context['seen']} {len(ctx.returned)}")
    result = await stage.say(stage.team([Function("boss", boss), slow_first(stage), last]), "tea")
    assert result.output == "[0, 1, 2, 0] 0"


@story
async def a_branch_works_on_its_task_and_its_context(stage: Stage) -> None:
    def worker(ctx: RunContext) -> str:
        received = ctx.accept_handoff()
        assert received is not None
        own = {name: value for name, value in received.context.items() if not name.startswith("_handoff_")}
        return f"{received.sender} wants {ctx.input!r} with {json.dumps(own)} {received.artifacts}"

    def boss(ctx: RunContext) -> str | Command:
        if ctx.returned:
            return " | ".join(each.response for each in ctx.returned)
        heat, pour = Send("worker", {"n": 1, "topic": "milk"}, task="heat it"), Send("worker", task="pour it")
        return Command([heat, pour, "worker"], {"context": {"topic": "tea"}, "artifacts": {"cup": "file://cup"}})

    result = await stage.say(stage.team([Function("boss", boss), Function("worker", worker)]), "tea, please")
    cup = "{'cup': 'file://cup'}"
    assert result.output.split(" | ") == [
        f'boss wants \'heat it\' with {{"topic": "milk", "n": 1}} {cup}',
        f'boss wants \'pour it\' with {{"topic": "tea"}} {cup}',
        f'boss wants \'tea, please\' with {{"topic": "tea"}} {cup}',
    ]
    assert result.variables == {"topic": "tea"}


@story
async def a_branch_that_thinks_reads_its_task_and_the_request(stage: Stage) -> None:
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent == "boss":
            return lists_branches(agent, messages, tools)
        return says(f"{messages[-1].text}, for {'tea, please' in messages[0].text}")

    boss = Agent("boss", tools=[gives("spread", Command([Send("cook", task="boil"), Send("cook", task="pour")]))])
    result = await stage.say(stage.team([boss, Agent("cook")], ScriptedModel(play)), "tea, please")
    assert result.output == "cook: boil, for True | cook: pour, for True"
    assert result.usage.requests == 4


@story
async def a_single_send_comes_back_too(stage: Stage) -> None:
    boss = Agent("boss", tools=[gives("spread", Command(Send("worker", {"n": 2})))])
    result = await stage.say(stage.team([boss, slow_first(stage)], ScriptedModel(lists_branches)), "tea")
    assert result.output == "worker: 2 of tea"


@story
async def a_branch_may_hand_over_and_send_out_branches_of_its_own(stage: Stage) -> None:
    def middle(ctx: RunContext) -> str | Command:
        if not ctx.returned:
            return Command([Send("worker", {"n": 2}), Send("porter")])
        return f"({' and '.join(each.response for each in ctx.returned)})"

    porter = goes("porter", Command("carrier"))
    carrier = Function("carrier", lambda ctx: f"carried by {ctx.agent}")
    result = await spread(stage, ["middle", "porter"], Function("middle", middle), slow_first(stage), porter, carrier)
    assert result.output == "middle: (2 of tea, please and carried by carrier) | porter: carried by carrier"
    assert (result.final_agent, result.ledger.handoffs) == ("boss", 6)


@story
async def a_branch_to_an_unknown_agent_fails_alone(stage: Stage) -> None:
    result = await spread(stage, [Send("worker", {"n": 1}), "nobody", Send("worker", {"n": 2})], slow_first(stage))
    assert result.output == (
        "worker: 1 of tea, please | nobody: no agent is called 'nobody'; this team has: boss, worker"
        " | worker: 2 of tea, please"
    )
    assert [h.receiver for h in result.handoff_chain] == ["worker", "worker"]


def breaks(ctx: RunContext) -> str:
    """Fail."""
    raise ConnectionError("the kettle is cold")


BROKEN = "broken: the function of 'broken' raised ConnectionError: the kettle is cold"


@story
async def the_failure_of_one_branch_keeps_the_others(stage: Stage) -> None:
    sends: list[Send | str] = [Send("worker", {"n": 1}), "broken", Send("worker", {"n": 2})]
    result = await spread(stage, sends, slow_first(stage), Function("broken", breaks))
    assert result.output == f"worker: 1 of tea, please | {BROKEN} | worker: 2 of tea, please"
    assert [h.state for h in result.handoff_chain] == ["RETURNED", "FAILED", "RETURNED"]
    assert "the kettle is cold" in result.handoff_chain[1].error


@story
async def a_function_gets_the_failure_of_a_branch_beside_the_others(stage: Stage) -> None:
    sends: list[Send | str] = [Send("worker", {"n": 1}), "broken", Send("worker", {"n": 2})]
    result = await fan(stage, sends, slow_first(stage), Function("broken", breaks))
    assert result.output == f"worker: 1 of tea, please | {BROKEN} | worker: 2 of tea, please"


@story
async def when_every_branch_fails_the_sender_is_told(stage: Stage) -> None:
    result = await spread(stage, ["broken", "broken"], Function("broken", breaks))
    assert (result.output, result.status) == (f"{BROKEN} | {BROKEN}", "completed")


@story
async def a_command_needs_no_handoff_that_is_declared(stage: Stage) -> None:
    tools = [gives("spread", Command(["worker"])), gives("route", Command("writer"))]
    turns = [calls(("spread", {})), calls(("route", {}))]
    model = ScriptedModel({"editor": turns, "writer": [says("Written.")]})
    worker = Function("worker", lambda ctx: "Looked up.")
    team = stage.team([Agent("editor", tools=tools, handoffs=()), Agent("writer", handoffs=()), worker], model)
    result = await stage.say(team, "write")
    assert (result.output, [h.receiver for h in result.handoff_chain]) == ("Written.", ["worker", "writer"])
    for request in stage.requests("editor"):
        assert [definition.name for definition in request.tools] == ["spread", "route"]


@story
async def every_branch_counts_as_a_handoff(stage: Stage) -> None:
    sends = [Send("worker", {"n": n}) for n in (1, 2, 3)]
    boss = Agent("boss", tools=[gives("spread", Command(sends))])
    team = stage.team([boss, slow_first(stage)], ScriptedModel(lists_branches))
    result = await stage.say(team, "tea", limits=Limits(max_handoffs=3), conversation="three")
    assert (len(result.handoff_chain), result.ledger.handoffs) == (3, 3)
    error = await stage.error(MaxHandoffsExceededError, team, "tea", limits=Limits(max_handoffs=2), conversation="two")
    assert (error.limit, [h.receiver for h in error.chain]) == (2, ["worker", "worker"])
    assert [h.state for h in error.chain] == ["RETURNED", "RETURNED"]


@story
async def branches_and_gotos_are_counted_together(stage: Stage) -> None:
    def boss(ctx: RunContext) -> Command:
        return Command("last") if ctx.returned else Command([Send("worker", {"n": 2})] * 2)

    last = Function("last", lambda ctx: "Arrived.")
    team = stage.team([Function("boss", boss), slow_first(stage), last])
    assert (await stage.say(team, "go", limits=Limits(max_handoffs=3), conversation="three")).output == "Arrived."
    error = await stage.error(MaxHandoffsExceededError, team, "go", limits=Limits(max_handoffs=2), conversation="two")
    assert [h.receiver for h in error.chain] == ["worker", "worker"]


@story
async def branches_come_back_before_a_goto_of_their_turn_is_made(stage: Stage) -> None:
    tools = [gives("route", Command("tech")), gives("spread", Command([Send("worker", {"n": n}) for n in (1, 2)]))]
    turn = calls(("route", {}), ("spread", {}))
    team = stage.team([Agent("triage", tools=tools), Agent("tech"), slow_first(stage)], plays(turn))
    result = await stage.say(team, "help")
    routed, results = result.output.removeprefix("tech reads: ").split(" | ")
    assert (routed, tells(results)) == ("transferred to tech", ["worker: 1 of help", "worker: 2 of help"])
    assert [h.receiver for h in result.handoff_chain] == ["worker", "worker", "tech"]


@story
async def two_tools_of_one_turn_send_out_branches(stage: Stage) -> None:
    tools = [gives(name, Command([Send("worker", {"n": n})] * 2)) for name, n in (("one", 1), ("two", 2))]
    team = stage.team([Agent("boss", tools=tools), slow_first(stage)], plays(calls(("one", {}), ("two", {}))))
    result = await stage.say(team, "tea")
    assert [tells(text) for text in result.output.removeprefix("boss reads: ").split(" | ")] == [
        ["worker: 1 of tea"] * 2,
        ["worker: 2 of tea"] * 2,
    ]


@story
async def what_a_branch_receives_has_the_metrics_of_the_run_so_far(stage: Stage) -> None:
    def report(ctx: RunContext) -> str:
        received = ctx.accept_handoff()
        assert received is not None
        return f"{received.metrics.tokens} tokens, {received.metrics.retries} retries"

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        reply = lists_branches(agent, messages, tools)
        return Reply(text=reply.text, calls=reply.calls, usage=Usage(7, 3, 1))

    boss = Agent("boss", tools=[gives("spread", Command(["reporter", "reporter"]))])
    result = await stage.say(stage.team([boss, Function("reporter", report)], ScriptedModel(play)), "report")
    assert result.output == "reporter: 10 tokens, 0 retries | reporter: 10 tokens, 0 retries"
    assert result.ledger.tokens == 20


@story
async def a_branch_too_many_is_told_beside_the_others(stage: Stage) -> None:
    sends = [Send("worker", {"n": n}) for n in (1, 2, 3)]
    result = await spread(stage, sends, slow_first(stage), limits=Limits(max_handoffs=2, on_limit="tell"))
    assert result.output.split(" | ") == [
        "worker: 1 of tea, please",
        "worker: 2 of tea, please",
        "worker: refused: the run has made all its 2 handoffs; answer yourself",
    ]


@story
async def a_function_gets_the_failure_of_a_branch_to_an_unknown_agent_beside_the_other_results(stage: Stage) -> None:
    result = await fan(stage, [Send("worker", {"n": 1}), "nobody", Send("worker", {"n": 2})], slow_first(stage))
    assert result.output == (
        "worker: 1 of tea, please | nobody: no agent is called 'nobody'; this team has: boss, worker"
        " | worker: 2 of tea, please"
    )


@story
async def a_function_whose_branches_all_go_to_unknown_agents_is_told(stage: Stage) -> None:
    result = await fan(stage, ["nobody"], slow_first(stage))
    assert result.output == "nobody: no agent is called 'nobody'; this team has: boss, worker"


@story
async def branches_come_back_before_an_end_of_their_turn(stage: Stage) -> None:
    tools = [gives("finish", Command(END, {"output": "Closed."})), gives("spread", Command([Send("worker", {"n": 1})]))]
    team = stage.team([Agent("boss", tools=tools), slow_first(stage)], plays(calls(("finish", {}), ("spread", {}))))
    first = await stage.say(team, "tea")
    assert (first.output, [h.state for h in first.handoff_chain]) == ("Closed.", ["RETURNED"])
    ended, results = (await stage.say(team, "and?")).output.removeprefix("boss reads: ").split(" | ")
    assert (ended, tells(results)) == ("the run ends here", ["worker: 1 of tea"])


@story
async def what_branches_make_comes_back_in_the_order_of_the_branches(stage: Stage) -> None:
    async def maker(ctx: RunContext) -> Command:
        n = ctx.context["n"]
        await asyncio.sleep(0.02 if n == 1 else 0.0)
        made = {"artifacts": {"last": f"file://{n}", f"part-{n}": f"file://{n}"}, "workflow_state": {"phase": f"{n}"}}
        return Command(END, {**made, "output": f"made {n}", "context": {"mine": n}})

    sends = [Send("maker", {"n": 1}), Send("maker", {"n": 2})]
    result = await spread(stage, sends, Function("maker", maker))
    assert result.output == "maker: made 1 | maker: made 2"
    assert result.artifacts == {"last": "file://2", "part-1": "file://1", "part-2": "file://2"}
    assert result.workflow_state == {"phase": "2"}
    assert result.variables == {}


@story
async def a_team_without_handoffs_sends_out_no_branches(stage: Stage) -> None:
    result = await spread(stage, [Send("worker", {"n": 1})], slow_first(stage), handoffs_enabled=False)
    assert result.handoff_chain == []
    assert "works alone" in result.output


@story
async def a_message_for_several_branches_is_refused_and_not_lost(stage: Stage) -> None:
    boss = Agent("boss", tools=[gives("spread", Command([Send("worker")], message="Be brief."))])
    team = stage.team([boss, Function("worker", lambda ctx: "never")], plays(calls(("spread", {}))))
    assert (
        "message needs a goto to one agent; with Send(…), give each its task" in (await stage.say(team, "tea")).output
    )


@story
async def the_metadata_of_a_branch_names_the_tool_that_sent_it(stage: Stage) -> None:
    worker = Function("worker", lambda ctx: ctx.context["_handoff_tool"])
    assert (await spread(stage, ["worker"], worker)).output == "worker: spread"


@story
async def a_branch_that_goes_on_without_end_ends_the_whole_run(stage: Stage) -> None:
    ring = goes("ring", Command("ring"))
    boss = Agent("boss", tools=[gives("spread", Command(["ring"]))])
    team = stage.team([boss, ring], ScriptedModel(lists_branches), guards=())
    error = await stage.error(MaxHandoffsExceededError, team, "go")
    assert error.limit == 10
    assert error.result is not None
    assert (error.result.final_agent, error.result.ledger.handoffs) == ("boss", 10)
