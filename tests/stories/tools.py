"""Stories of tools: failures, large results, and the order of calls."""

import asyncio
import time
from collections.abc import Callable, Sequence

from changeover import Agent, RunContext, tool
from changeover.messages import Message, ToolResult
from changeover.relay.events import ToolFinished, ToolStarted
from changeover.testing import Reply, ScriptedModel, calls, hands_off, says
from changeover.tools.tool import Tool, ToolDefinition
from tests.stories.stage import CONVERSATION, Stage, events, story

Fn = Callable[..., object]


def uses(*turn: str) -> ScriptedModel:
    """A model that calls these tools in one turn, and then answers with their results."""

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if isinstance(messages[-1], ToolResult):
            return says(" | ".join(message.text for message in messages if isinstance(message, ToolResult)))
        return calls(*((name, {}) for name in turn))

    return ScriptedModel(play)


async def use(stage: Stage, *tools: Tool | Fn, parallel_tools: bool = False) -> str:
    """What a model reads when it calls each of these tools once, in one turn."""
    names = [each.name if isinstance(each, Tool) else each.__name__ for each in tools]
    team = stage.team([Agent("solo", tools=tools, parallel_tools=parallel_tools)], uses(*names))
    return (await stage.say(team, "do it")).text


def acts(stage: Stage, name: str, seconds: float = 0.0, *, read_only: bool = False) -> Tool:
    """A tool that leaves its name in the world when it begins and when it ends."""

    async def act() -> str:
        stage.effects.append(f"{name} begins")
        await asyncio.sleep(seconds)
        stage.effects.append(f"{name} ends")
        return name

    return tool(name=name, read_only=read_only)(act)


def meets(stage: Stage, name: str, others: Sequence[str], *, read_only: bool = False) -> Tool:
    """A tool that ends only when the others have begun."""

    async def meet() -> str:
        stage.effects.append(f"{name} begins")
        for _ in range(500):
            if all(f"{other} begins" in stage.effects for other in others):
                return f"{name} met {' and '.join(others)}"
            await asyncio.sleep(0.002)
        return f"{name} met nobody"

    return tool(name=name, read_only=read_only)(meet)


@story
async def a_tool_is_called_with_what_the_model_wrote(stage: Stage) -> None:
    def add(first: int, second: int = 2) -> dict[str, int]:
        """Add two numbers."""
        stage.effects.append(f"{first} + {second}")
        return {"sum": first + second}

    model = ScriptedModel({"solo": [calls(("add", {"first": 1})), says("Three.")]})
    team = stage.team([Agent("solo", tools=[add])], model)
    assert (await stage.say(team, "1 + 2?")).output == "Three."
    assert stage.did == ["1 + 2"]
    assert [(done.text, done.ok) for done in await events(team, ToolFinished)] == [('{"sum":3}', True)]
    for request in stage.requests("solo"):
        [definition] = request.tools
        assert (definition.name, definition.description) == ("add", "Add two numbers.")
        assert definition.parameters["required"] == ["first"]


@story
async def a_tool_that_raises(stage: Stage) -> None:
    def broken() -> str:
        raise ConnectionError("the shop is closed")

    async def broken_too() -> str:
        raise KeyError("order")

    said = await use(stage, broken, broken_too)
    assert said == "broken failed: ConnectionError: the shop is closed | broken_too failed: KeyError: 'order'"


@story
async def a_tool_that_lets_a_cancellation_out(stage: Stage) -> None:
    async def cancelled() -> str:
        inner = asyncio.ensure_future(asyncio.sleep(60))
        inner.cancel()
        await inner
        return "never"

    async with asyncio.timeout(5):
        assert (await use(stage, cancelled)).startswith("cancelled failed: ")


@story
async def a_tool_that_hangs(stage: Stage) -> None:
    @tool(timeout=0.01)
    async def hang() -> str:
        await asyncio.sleep(60)
        return "never"

    @tool(timeout=0.01)
    def hang_in_a_thread() -> str:
        time.sleep(0.1)
        return "too late"

    first, second = (await use(stage, hang, hang_in_a_thread)).split(" | ")
    assert first.startswith("hang failed: it took longer than 0.01 seconds")
    assert second.startswith("hang_in_a_thread failed: it took longer than 0.01 seconds")


@story
async def a_tool_that_returns_what_no_text_can_hold(stage: Stage) -> None:
    def strange() -> object:
        stage.effects.append("done")
        return object()

    said = await use(stage, strange)
    assert said.startswith("strange ran, but it returned object, which cannot be shown as JSON")
    assert stage.did == ["done"]


@story
async def a_tool_that_returns_five_megabytes(stage: Stage) -> None:
    def much() -> str:
        return "x" * 5_000_000

    @tool(max_result=10)
    def some() -> str:
        return "y" * 100

    long, short = (await use(stage, much, some)).split(" | ")
    assert 50_000 < len(long) < 50_200
    assert long.endswith("[cut: the first 50000 of 5000000 characters are shown]")
    assert short == "yyyyyyyyyy\n[cut: the first 10 of 100 characters are shown]"


@story
async def a_tool_that_fails_is_tried_as_often_as_it_says(stage: Stage) -> None:
    @tool(retries=1)
    async def moody() -> str:
        stage.effects.append(f"try {len(stage.effects) + 1}")
        if len(stage.effects) < 2:
            raise ConnectionError("not now")
        return "now"

    assert await use(stage, moody) == "now"
    assert stage.did[:2] == ["try 1", "try 2"]
    assert len(stage.did) == 2 or stage.lives > 1


@story
async def the_run_goes_on_after_tools_that_failed(stage: Stage) -> None:
    def broken() -> str:
        raise ConnectionError("closed")

    model = ScriptedModel(
        {"triage": [*[calls(("broken", {}))] * 5, hands_off("billing", "it fails")], "billing": [says("Done.")]}
    )
    team = stage.team([Agent("triage", tools=[broken]), Agent("billing")], model)
    assert (await stage.say(team, "charged twice")).output == "Done."  # what a tool does wrong is no mistake of a model
    assert [done.ok for done in await events(team, ToolFinished)] == [False] * 5


@story
async def writes_take_effect_in_call_order_whatever_their_speed(stage: Stage) -> None:
    said = await use(stage, acts(stage, "slow", 0.02), acts(stage, "quick"), acts(stage, "middling", 0.005))
    assert said == "slow | quick | middling"
    assert stage.did == [f"{name} {what}" for name in ("slow", "quick", "middling") for what in ("begins", "ends")]


@story
async def plain_functions_take_effect_in_call_order_too(stage: Stage) -> None:
    def slow() -> str:
        time.sleep(0.02)
        stage.effects.append("slow")
        return "slow"

    def quick() -> str:
        stage.effects.append("quick")
        return "quick"

    assert await use(stage, slow, quick) == "slow | quick"
    assert stage.did == ["slow", "quick"]


@story
async def reads_of_one_turn_run_at_once(stage: Stage) -> None:
    names = ["left", "middle", "right"]
    reads = [meets(stage, name, [other for other in names if other != name], read_only=True) for name in names]
    said = await use(stage, *reads)
    assert said == "left met middle and right | middle met left and right | right met left and middle"


@story
async def plain_reads_run_at_once_too(stage: Stage) -> None:
    def read(name: str, other: str) -> Tool:
        def look() -> str:
            stage.effects.append(name)
            for _ in range(500):
                if other in stage.effects:
                    return f"{name} met {other}"
                time.sleep(0.002)
            return f"{name} met nobody"

        return tool(name=name, read_only=True)(look)

    assert await use(stage, read("left", "right"), read("right", "left")) == "left met right | right met left"


@story
async def a_write_waits_for_the_reads_before_it(stage: Stage) -> None:
    reads = [acts(stage, "look", 0.02, read_only=True), acts(stage, "peek", 0.01, read_only=True)]
    said = await use(stage, *reads, acts(stage, "save"))
    assert said == "look | peek | save"
    first = {did: stage.effects.index(did) for did in stage.effects}
    assert first["save begins"] > max(first["look ends"], first["peek ends"])
    assert first["peek begins"] < first["look ends"]


@story
async def a_read_does_not_wait_for_the_write_before_it(stage: Stage) -> None:
    said = await use(stage, meets(stage, "save", ["look"]), meets(stage, "look", ["save"], read_only=True))
    assert said == "save met look | look met save"


@story
async def an_agent_with_parallel_tools_runs_all_at_once(stage: Stage) -> None:
    tools = [meets(stage, "one", ["two"]), meets(stage, "two", ["one"])]
    assert await use(stage, *tools, parallel_tools=True) == "one met two | two met one"


@story
async def results_come_in_call_order_though_the_last_is_first_to_finish(stage: Stage) -> None:
    reads = [acts(stage, name, wait, read_only=True) for name, wait in (("c", 0.03), ("b", 0.015), ("a", 0.0))]
    assert await use(stage, *reads) == "c | b | a"
    ended = [did for did in dict.fromkeys(stage.effects) if did.endswith("ends")]
    assert ended == ["a ends", "b ends", "c ends"]


@story
async def a_handoff_waits_for_slow_reads(stage: Stage) -> None:
    look = acts(stage, "look", 0.02, read_only=True)
    turn = calls(hands_off("billing", "x"), ("look", {}))
    model = ScriptedModel({"triage": [turn], "billing": [says("Done.")]})
    team = stage.team([Agent("triage", tools=[look]), Agent("billing")], model)
    assert (await stage.say(team, "charged twice")).output == "Done."
    kinds = [type(record.event).__name__ for record in await team.history(CONVERSATION)]
    assert kinds.index("ToolFinished") < kinds.index("HandoffOffered")


@story
async def a_tool_knows_the_run_it_serves(stage: Stage) -> None:
    def who(ctx: RunContext) -> list[object]:
        """Say what is known."""
        stage.effects.append(ctx.idempotency_key)
        return [ctx.conversation, ctx.run, ctx.agent, ctx.user, ctx.input, ctx.correlation_id, ctx.context]

    model = uses("who")
    team = stage.team([Agent("solo", tools=[who])], model)
    options = {"user": "ana", "correlation_id": "c-1", "context": {"order": "17"}}
    result = await stage.say(team, "do it", **options)
    assert result.output == f'["story","{result.run_id}","solo","ana","do it","c-1",{{"order":"17"}}]'
    [key] = stage.did
    assert key.startswith("story:")
    for request in stage.requests("solo"):
        [definition] = request.tools
        assert definition.parameters["properties"] == {}


@story
async def each_call_has_an_idempotency_key_of_its_own(stage: Stage) -> None:
    def once(ctx: RunContext) -> str:
        """Do it."""
        stage.effects.append(ctx.idempotency_key)
        return "done"

    model = ScriptedModel({"solo": [calls(("once", {}), ("once", {})), calls(("once", {})), says("Done.")]})
    await stage.say(stage.team([Agent("solo", tools=[once])], model), "do it three times")
    assert len(stage.did) == len(set(stage.did)) == 3


@story
async def what_a_tool_does_to_its_copy_of_the_context_changes_nothing(stage: Stage) -> None:
    def meddle(ctx: RunContext) -> str:
        """Try to change things."""
        ctx.context["order"] = "18"  # type: ignore[index]
        ctx.context["address"]["city"] = "Rome"
        return "tried"

    team = stage.team([Agent("solo", tools=[meddle])], uses("meddle"))
    result = await stage.say(team, "do it", context={"order": "17", "address": {"city": "Bern"}})
    assert (result.output, result.context) == ("tried", {"order": "17", "address": {"city": "Bern"}})


@story
async def what_a_tool_does_to_its_arguments_changes_nothing(stage: Stage) -> None:
    def append(items: list[int]) -> str:
        """Add one."""
        items.append(4)
        return f"{items}"

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        return says(repr(messages[1])) if len(messages) > 1 else calls(("append", {"items": [1, 2, 3]}))

    result = await stage.say(stage.team([Agent("solo", tools=[append])], ScriptedModel(play)), "do it")
    assert "'items': [1, 2, 3]}" in result.output


@story
async def the_intent_of_an_at_most_once_tool_is_on_record_before_it_acts(stage: Stage) -> None:
    @tool(at_most_once=True)
    async def pay() -> str:
        stage.effects.append(f"paid after {len(await events(team, ToolStarted))} intent")
        return "paid"

    team = stage.team([Agent("solo", tools=[pay])], uses("pay"))
    said = (await stage.say(team, "do it")).output
    assert said == "paid" or (stage.lives > 1 and said.startswith("unknown: "))
    assert stage.did == ["paid after 1 intent"] or not stage.did
