"""Stories of agents that give another a task and get the result back."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import Any

import msgspec

from changeover import Agent, Command, Full, Function, Limits, MessageOnly, RunContext, RunResult, Team, delegate
from changeover.agent.agent import Member
from changeover.errors import ConversationNotFound, ModelError
from changeover.handoffs.strategies import Strategy
from changeover.messages import Message, Note, ToolResult, User
from changeover.models import Usage
from changeover.protocol import DelegateResult
from changeover.relay.events import CallRefused, HandoffAccepted, HandoffOffered, RunStarted, ToolFinished
from changeover.stream import Recorded
from changeover.testing import Reply, ScriptedModel, calls, delegates, fails, hands_off, says
from changeover.testing.scripted import Line
from changeover.tools.tool import ToolDefinition
from tests.stories.scripts import names_its_tools, shown
from tests.stories.stage import CONVERSATION, Stage, events, story

Says = Callable[[Sequence[Message]], Line | Awaitable[Line]]


def cast(**parts: Line | Says) -> ScriptedModel:
    """A model for several agents: each always says its one line, or what it makes of the messages."""

    async def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Line:
        part = parts[agent]
        line = part(messages) if callable(part) else part
        return await line if isawaitable(line) else line

    return ScriptedModel(play)


def asks(*turn: Any) -> Says:
    """Make these calls in one turn, then answer with what came of them."""
    return lambda messages: recites_results(messages) if isinstance(messages[-1], ToolResult) else calls(*turn)


def recites_results(messages: Sequence[Message]) -> Reply:
    return says(" | ".join(message.text for message in results(messages)))


def results(messages: Sequence[Message]) -> list[ToolResult]:
    """The results of the last turn."""
    first = len(messages)
    while first and isinstance(messages[first - 1], ToolResult):
        first -= 1
    return [message for message in messages[first:] if isinstance(message, ToolResult)]


def read(text: str) -> DelegateResult:
    """A result as a model reads it."""
    return msgspec.json.decode(text, type=DelegateResult)


def came_back(result: RunResult) -> list[DelegateResult]:
    """What the sender read of its delegates, if its answer recites it."""
    return [read(text) for text in result.output.split(" | ")]


def boss(*ways: Any, tools: Sequence[Any] = (), **options: Any) -> Agent:
    return Agent("boss", handoffs=[*ways] or [delegate("clerk")], tools=tools, **options)


def count() -> int:
    """Count the parts."""
    return 3


def counts_first(messages: Sequence[Message]) -> Reply:
    return says("Three.") if isinstance(messages[-1], ToolResult) else calls(("count", {}))


@story
async def a_delegate_comes_back_with_a_structured_result_and_the_sender_goes_on(stage: Stage) -> None:
    model = cast(boss=asks(delegates("clerk", "count the parts")), clerk=counts_first)
    team = stage.team([boss(), Agent("clerk", tools=[count])], model)
    result = await stage.say(team, "how many?")
    assert came_back(result) == [
        DelegateResult("story:3.0", "clerk", success=True, response="Three.", iterations=2, tool_calls=1)
    ]
    assert (result.status, result.final_agent) == ("completed", "boss")


@story
async def a_delegate_is_on_record_as_a_handoff_that_was_returned(stage: Stage) -> None:
    model = cast(boss=asks(delegates("clerk", "count the parts")), clerk=says("Three."))
    team = stage.team([boss(), Agent("clerk")], model)
    [handoff] = (await stage.say(team, "how many?")).handoff_chain
    assert (handoff.id, handoff.sender, handoff.receiver, handoff.message) == (
        "story:3.0",
        "boss",
        "clerk",
        "count the parts",
    )
    assert (handoff.mode, handoff.state, handoff.error) == ("delegate", "RETURNED", "")
    assert (handoff.tool, handoff.strategy, handoff.task_id) == ("delegate_to_clerk", "recent", "story/3.0#2")
    assert await team.handoffs(CONVERSATION) == [handoff]


@story
async def the_usage_of_a_delegate_counts_for_the_run(stage: Stage) -> None:
    script = {
        "boss": [delegates("clerk", "count"), says("Three.", usage=Usage(10, 1, 1))],
        "clerk": [fails("busy"), says("Three.", usage=Usage(100, 20, 1))],
    }
    team = stage.team([boss(), Agent("clerk")], ScriptedModel(script))
    result = await stage.say(team, "how many?")
    assert result.usage == Usage(110, 21, 3)
    ledger = result.ledger
    assert (ledger.turns, ledger.handoffs, ledger.agents, ledger.retries, ledger.tokens) == (3, 1, 2, 1, 131)


@story
async def a_delegate_is_a_tool_with_a_task_and_a_context(stage: Stage) -> None:
    ways = [delegate("clerk"), delegate("office-2", name="ask_office", description="Knows the rules.")]
    members = [boss(*ways), Agent("clerk", description="Counts things."), Agent("office-2")]
    await stage.say(stage.team(members, cast(boss=says("Nothing to do."))), "hello")
    for request in stage.requests("boss"):
        clerk, office = request.tools
        assert (clerk.name, office.name) == ("delegate_to_clerk", "ask_office")
        assert clerk.description.endswith("Counts things.")
        assert office.description.endswith("Knows the rules.")
        assert list(clerk.parameters["properties"]) == ["task", "context"]
        assert clerk.parameters["required"] == ["task"]


async def briefing(stage: Stage, strategy: Strategy | None) -> tuple[str, list[Message]]:
    """What a delegate reads that is asked in the fourth run of a conversation: the briefing, and what follows it."""

    def clerk(messages: Sequence[Message]) -> Reply:
        return says(msgspec.json.encode(list(messages)).decode())

    def play(messages: Sequence[Message]) -> Reply:
        if isinstance(messages[-1], ToolResult):
            return recites_results(messages)
        if messages[-1].text == "how many?":
            return delegates("clerk", "count the parts", "they are in the box", text="One moment.")
        return says(f"Re: {messages[-1].text}")

    way = delegate("clerk", strategy=strategy)
    team = stage.team([boss(way, instructions="You are the boss."), Agent("clerk")], cast(boss=play, clerk=clerk))
    for text in ("one", "two", "three"):
        await stage.say(team, text)
    [result] = came_back(await stage.say(team, "how many?"))
    note, *others = msgspec.json.decode(result.response, type=list[Message])
    assert isinstance(note, Note)
    assert note.author == "boss"
    return note.text, others


@story
async def a_delegate_starts_fresh_with_its_task_and_a_briefing(stage: Stage) -> None:
    text, others = await briefing(stage, None)
    assert others == [User("count the parts", "boss")]
    request, about, recent = text.split("\n\n")
    assert request.endswith("\n> how many?")
    assert about.endswith("\n  they are in the box")
    assert recent.splitlines()[1:] == [  # the request is told once
        "> boss: Re: one",
        "> user: two",
        "> boss: Re: two",
        "> user: three",
        "> boss: Re: three",
    ]


@story
async def a_context_that_a_model_leaves_empty_is_no_information(stage: Stage) -> None:
    empty: list[Any] = [None, "", {}, []]
    turn = [("delegate_to_clerk", {"task": "count", "context": context}) for context in empty]
    model = cast(boss=asks(*turn), clerk=lambda messages: says(messages[0].text))
    team = stage.team([boss(), Agent("clerk")], model)
    backs = came_back(await stage.say(team, "how many?"))
    assert [back.response for back in backs] == ["The original request of the user:\n> how many?"] * 4


@story
async def a_delegate_may_be_told_everything_that_was_said(stage: Stage) -> None:
    text, _ = await briefing(stage, Full())
    assert [line for line in text.splitlines() if line.startswith(("> user", "> boss"))] == [
        f"> {who}{said}" for said in ("one", "two", "three") for who in ("user: ", "boss: Re: ")
    ]


@story
async def a_delegate_may_be_told_nothing_of_what_was_said(stage: Stage) -> None:
    text, _ = await briefing(stage, MessageOnly())
    assert "two" not in text
    assert "> user: how many?" not in text
    assert "> how many?" in text
    assert "they are in the box" in text


@story
async def a_request_that_is_passed_on_as_it_is_stands_in_the_briefing_once(stage: Stage) -> None:
    def clerk(messages: Sequence[Message]) -> Reply:
        return says(f"{sum(message.text.count('how many?') for message in messages)} {len(messages)}")

    model = cast(boss=asks(delegates("clerk", "how many?")), clerk=clerk)
    team = stage.team([boss(delegate("clerk", strategy=MessageOnly())), Agent("clerk")], model)
    [result] = came_back(await stage.say(team, "how many?"))
    assert result.response == "1 1"


@story
async def a_delegate_has_the_context_variables_of_its_sender(stage: Stage) -> None:
    def look(ctx: RunContext) -> dict[str, Any]:
        """Look at the context."""
        return {"user": ctx.user, "correlation": ctx.correlation_id, "input": ctx.input, **ctx.context}

    way = delegate("clerk", instructions="Be brief.")
    clerk = Agent("clerk", instructions="You count.", tools=[look])
    model = cast(boss=asks(delegates("clerk", "count")), clerk=asks(("look", {})))
    team = stage.team([boss(way, instructions="You are the boss."), clerk], model)
    options = {"context": {"order": "17"}, "user": "ana", "correlation_id": "c-1"}
    result = await stage.say(team, "how many?", **options)
    [back] = came_back(result)
    assert msgspec.json.decode(back.response) == {
        "user": "ana",
        "correlation": "c-1",
        "input": "count",
        "order": "17",
        "_handoff_from": "boss",
        "_handoff_tool": "delegate_to_clerk",
        "_handoff_instructions": "Be brief.",
        "_handoff_chain": ["boss", "clerk"],
    }
    assert result.context == {"order": "17"}
    for request in stage.requests("clerk"):
        assert request.instructions.startswith("You count.")
        assert "Be brief." in request.instructions
        assert '"order": "17"' in request.instructions
        assert "You are the boss." not in request.instructions


@story
async def a_function_can_be_a_delegate(stage: Stage) -> None:
    def stock(ctx: RunContext) -> str:
        """Know what is there."""
        stage.effects.append(ctx.idempotency_key)
        received = ctx.accept_handoff()
        assert received is not None
        return f"{received.sender} asks {received.message!r} about {ctx.context['order']}: {ctx.input}"

    members: list[Member] = [boss(delegate("stock")), Function("stock", stock)]
    team = stage.team(members, cast(boss=asks(delegates("stock", "count"))))
    [result] = came_back(await stage.say(team, "how many?", context={"order": "17"}))
    assert result == DelegateResult("story:3.0", "stock", success=True, response="boss asks 'count' about 17: count")
    assert stage.did == ["story/3.0:2"]


@story
async def a_function_that_raises_comes_back_as_a_failure(stage: Stage) -> None:
    def stock(ctx: RunContext) -> str:
        raise ConnectionError("the shelf is locked")

    members: list[Member] = [boss(delegate("stock")), Function("stock", stock)]
    team = stage.team(members, cast(boss=asks(delegates("stock", "count"))))
    result = await stage.say(team, "how many?")
    [back] = came_back(result)
    assert (back.success, back.response) == (False, "")
    assert back.error == "the function of 'stock' raised ConnectionError: the shelf is locked"
    assert (result.status, result.handoff_chain[0].state) == ("completed", "FAILED")


@story
async def a_delegate_whose_model_fails_comes_back_as_a_failure(stage: Stage) -> None:
    model = cast(boss=asks(delegates("clerk", "count")), clerk=fails("down", retryable=False))
    team = stage.team([boss(), Agent("clerk")], model)
    result = await stage.say(team, "how many?")
    [back] = came_back(result)
    assert (back.agent, back.success, back.response, back.iterations) == ("clerk", False, "", 0)
    assert back.error == "'clerk' got no usable reply from its model: down"
    [handoff] = result.handoff_chain
    assert (handoff.mode, handoff.state, handoff.error) == ("delegate", "FAILED", back.error)
    assert (result.status, result.final_agent) == ("completed", "boss")


@story
async def a_delegate_that_makes_too_many_mistakes_comes_back_as_a_failure(stage: Stage) -> None:
    model = cast(boss=asks(delegates("clerk", "count")), clerk=calls(("ship", {})))
    [back] = came_back(await stage.say(stage.team([boss(), Agent("clerk")], model), "how many?"))
    assert (back.success, back.iterations) == (False, 3)
    assert "there is no tool called 'ship'" in back.error


@story
async def a_delegate_that_goes_on_for_ever_is_stopped_at_its_own_limit(stage: Stage) -> None:
    model = cast(boss=asks(delegates("clerk", "count")), clerk=calls(("count", {})))
    team = stage.team([boss(delegate("clerk", max_iterations=3)), Agent("clerk", tools=[count])], model)
    result = await stage.say(team, "how many?")
    [back] = came_back(result)
    assert (back.success, back.iterations, back.tool_calls) == (False, 3, 3)
    assert "max_iterations=3" in back.error
    assert (result.handoff_chain[0].state, result.ledger.turns) == ("FAILED", 5)


@story
async def a_delegate_may_take_fifteen_turns_if_nothing_is_said(stage: Stage) -> None:
    model = cast(boss=asks(delegates("clerk", "count")), clerk=calls(("count", {})))
    team = stage.team([boss(), Agent("clerk", tools=[count])], model)
    [back] = came_back(await stage.say(team, "how many?"))
    assert (back.success, back.iterations) == (False, 15)


async def opened(team: Team, conversation: str) -> None:
    """Return when a run of this delegate has begun."""
    for _ in range(5_000):
        begun = [record.conversation for record in await known(team) if isinstance(record.event, RunStarted)]
        if conversation in begun:
            return
        await asyncio.sleep(0.001)
    raise AssertionError(f"no run began in {conversation}")


async def known(team: Team) -> list[Recorded]:
    try:
        return await team.history(CONVERSATION)
    except ConversationNotFound:
        return []


async def sleeps(messages: Sequence[Message]) -> Reply:
    await asyncio.sleep(60)
    return says("never")


@story
async def a_delegate_that_is_cancelled_comes_back_as_such(stage: Stage) -> None:
    model = cast(boss=asks(delegates("clerk", "count"), delegates("sleeper", "rest")), clerk=says("3"), sleeper=sleeps)
    team = stage.team([boss(delegate("clerk"), delegate("sleeper")), Agent("clerk"), Agent("sleeper")], model)
    run = asyncio.create_task(stage.say(team, "how many?"))
    await opened(team, "story/3.1")
    assert await team.cancel("story:3.1") or stage.lives > 1
    result = await run
    counted, rested = came_back(result)
    assert (counted.success, counted.response) == (True, "3")
    assert (rested.agent, rested.success, rested.error) == ("sleeper", False, "cancelled")
    assert [(h.state, h.error) for h in result.handoff_chain] == [("RETURNED", ""), ("RETURNED", "cancelled")]
    assert result.status == "completed"
    assert not await team.cancel("story:3.1")


@story
async def a_delegate_that_is_cancelled_takes_its_own_delegates_along(stage: Stage) -> None:
    members = [boss(), Agent("clerk", handoffs=[delegate("sleeper")]), Agent("sleeper")]
    model = cast(boss=asks(delegates("clerk", "count")), clerk=asks(delegates("sleeper", "rest")), sleeper=sleeps)
    team = stage.team(members, model)
    run = asyncio.create_task(stage.say(team, "how many?"))
    await opened(team, "story/3.0/3.0")
    assert await team.cancel("story:3.0") or stage.lives > 1
    [back] = came_back(await run)
    assert (back.agent, back.success, back.error) == ("clerk", False, "cancelled")
    assert [(h.receiver, h.state) for h in await team.handoffs(CONVERSATION)] == [
        ("clerk", "RETURNED"),
        ("sleeper", "RETURNED"),
    ]


@story
async def the_delegate_of_a_delegate_can_be_cancelled_by_itself(stage: Stage) -> None:
    members = [boss(), Agent("clerk", handoffs=[delegate("sleeper")]), Agent("sleeper")]
    model = cast(boss=asks(delegates("clerk", "count")), clerk=asks(delegates("sleeper", "rest")), sleeper=sleeps)
    team = stage.team(members, model)
    run = asyncio.create_task(stage.say(team, "how many?"))
    await opened(team, "story/3.0/3.0")
    assert await team.cancel("story/3.0:3.0") or stage.lives > 1
    [back] = came_back(await run)
    assert (back.agent, back.success) == ("clerk", True)
    below = read(back.response)
    assert (below.handoff_id, below.agent, below.success, below.error) == (
        "story/3.0:3.0",
        "sleeper",
        False,
        "cancelled",
    )


@story
async def the_answer_of_a_final_delegate_is_the_answer_of_the_run(stage: Stage) -> None:
    def play(messages: Sequence[Message]) -> Reply:
        if messages[-1].text == "how many?":
            return delegates("clerk", "count")
        return says(" | ".join(f"{message.author}: {message.text}" for message in messages[-2:]))

    team = stage.team([boss(delegate("clerk", final=True)), Agent("clerk")], cast(boss=play, clerk=says("Three.")))
    result = await stage.say(team, "how many?")
    assert (result.output, result.final_agent, result.status) == ("Three.", "clerk", "completed")
    assert (result.handoff_chain[0].state, result.ledger.turns) == ("RETURNED", 2)
    after = await stage.say(team, "thanks")
    assert (after.output, after.final_agent) == ("clerk: Three. | user: thanks", "boss")


@story
async def a_final_delegate_that_fails_comes_back_to_the_model(stage: Stage) -> None:
    model = cast(boss=asks(delegates("clerk", "count")), clerk=fails("down", retryable=False))
    team = stage.team([boss(delegate("clerk", final=True)), Agent("clerk")], model)
    result = await stage.say(team, "how many?")
    [back] = came_back(result)
    assert (back.success, result.final_agent, result.handoff_chain[0].state) == (False, "boss", "FAILED")


@story
async def a_final_delegate_waits_for_the_other_calls_of_its_turn(stage: Stage) -> None:
    async def save() -> str:
        """Save the order."""
        await asyncio.sleep(0.01)
        stage.effects.append("saved")
        return "saved"

    ways = [delegate("clerk", final=True), delegate("slow")]
    turn = calls(delegates("clerk", "count"), ("save", {}), delegates("slow", "think"))

    async def slow(messages: Sequence[Message]) -> Reply:
        await asyncio.sleep(0.02)
        return says("Thought.")

    model = cast(boss=turn, clerk=says("Three."), slow=slow)
    result = await stage.say(stage.team([boss(*ways, tools=[save]), Agent("clerk"), Agent("slow")], model), "how many?")
    assert (result.output, result.final_agent, stage.did) == ("Three.", "clerk", ["saved"])
    assert [h.state for h in result.handoff_chain] == ["RETURNED", "RETURNED"]


@story
async def a_final_delegate_before_a_transfer_ends_the_run(stage: Stage) -> None:
    ways = [delegate("clerk", final=True), "billing"]
    turn = calls(delegates("clerk", "count"), hands_off("billing", "refund"))
    team = stage.team([boss(*ways), Agent("clerk"), Agent("billing")], cast(boss=turn, clerk=says("Three.")))
    result = await stage.say(team, "how many?")
    assert (result.output, result.final_agent) == ("Three.", "clerk")
    assert [h.receiver for h in result.handoff_chain] == ["clerk"]
    assert [refused.why for refused in await events(team, CallRefused)] == ["ignored"]


@story
async def a_final_delegate_after_a_transfer_is_answered_and_the_transfer_is_made(stage: Stage) -> None:
    ways = [delegate("clerk", final=True), "billing"]
    turn = calls(hands_off("billing", "refund"), delegates("clerk", "count"))
    model = cast(boss=turn, clerk=says("Three."), billing=recites_results)
    result = await stage.say(stage.team([boss(*ways), Agent("clerk"), Agent("billing")], model), "how many?")
    assert (result.final_agent, [h.receiver for h in result.handoff_chain]) == ("billing", ["clerk", "billing"])
    transferred, counted = result.output.split(" | ")
    assert transferred == "transferred to billing"
    assert json.loads(counted)["response"] == "Three."


@story
async def when_a_final_delegate_hands_on_the_agent_that_answers_is_the_final_agent(stage: Stage) -> None:
    model = cast(boss=delegates("clerk", "count"), clerk=hands_off("counter", "count"), counter=says("Three."))
    members = [boss(delegate("clerk", final=True)), Agent("clerk"), Agent("counter")]
    result = await stage.say(stage.team(members, model), "how many?")
    assert (result.output, result.final_agent) == ("Three.", "counter")


@story
async def of_two_final_delegates_the_first_in_call_order_answers(stage: Stage) -> None:
    async def slow(messages: Sequence[Message]) -> Reply:
        await asyncio.sleep(0.01)
        return says("From slow.")

    ways = [delegate("slow", final=True), delegate("clerk", final=True)]
    turn = calls(delegates("slow", "count"), delegates("clerk", "count"))
    team = stage.team([boss(*ways), Agent("slow"), Agent("clerk")], cast(boss=turn, slow=slow, clerk=says("3")))
    result = await stage.say(team, "how many?")
    assert (result.output, result.final_agent) == ("From slow.", "slow")
    assert [h.state for h in result.handoff_chain] == ["RETURNED", "RETURNED"]
    assert result.ledger.turns == 3


@story
async def of_two_final_delegates_the_one_that_does_not_fail_answers(stage: Stage) -> None:
    ways = [delegate("broken", final=True), delegate("clerk", final=True)]
    turn = calls(delegates("broken", "count"), delegates("clerk", "count"))
    model = cast(boss=turn, broken=fails("down", retryable=False), clerk=says("Three."))
    result = await stage.say(stage.team([boss(*ways), Agent("broken"), Agent("clerk")], model), "how many?")
    assert (result.output, result.final_agent) == ("Three.", "clerk")
    assert [h.state for h in result.handoff_chain] == ["FAILED", "RETURNED"]


async def delegate_and_transfer(stage: Stage, turn: Reply) -> list[str]:
    """What billing reads of a turn in which the boss delegates and hands off; the delegate was back by then."""
    model = cast(boss=turn, clerk=counts_first, billing=recites_results)
    team = stage.team([boss(delegate("clerk"), "billing"), Agent("clerk", tools=[count]), Agent("billing")], model)
    result = await stage.say(team, "charged twice")
    assert [(h.receiver, h.mode, h.state) for h in result.handoff_chain] == [
        ("clerk", "delegate", "RETURNED"),
        ("billing", "transfer", "COMPLETE"),
    ]
    assert (await stage.say(team, "and now?")).final_agent == "billing"
    own = [r.event for r in await team.history(CONVERSATION) if r.conversation == CONVERSATION]
    kinds = [type(event).__name__ for event in own]
    offers = [place for place, event in enumerate(own) if isinstance(event, HandoffOffered)]
    assert kinds.index("HandoffReturned") < offers[-1]
    return result.text.split(" | ")


@story
async def a_delegate_before_a_transfer_is_back_before_it_is_made(stage: Stage) -> None:
    back, said = await delegate_and_transfer(stage, calls(delegates("clerk", "count"), hands_off("billing", "refund")))
    assert (read(back).response, said) == ("Three.", "transferred to billing")


@story
async def a_delegate_after_a_transfer_is_back_before_it_is_made(stage: Stage) -> None:
    said, back = await delegate_and_transfer(stage, calls(hands_off("billing", "refund"), delegates("clerk", "count")))
    assert (read(back).response, said) == ("Three.", "transferred to billing")


@story
async def a_delegate_may_hand_off_within_its_own_conversation(stage: Stage) -> None:
    model = cast(boss=asks(delegates("clerk", "count")), clerk=hands_off("expert", "too hard"), expert=says("Three."))
    team = stage.team([boss(), Agent("clerk"), Agent("expert")], model)
    result = await stage.say(team, "how many?")
    [back] = came_back(result)
    assert (back.agent, back.success, back.response, back.iterations) == ("clerk", True, "Three.", 2)
    assert (result.final_agent, result.ledger.handoffs, result.ledger.agents) == ("boss", 2, 3)
    assert [(h.sender, h.receiver, h.mode) for h in await team.handoffs(CONVERSATION)] == [
        ("boss", "clerk", "delegate"),
        ("clerk", "expert", "transfer"),
    ]
    assert "_handoff_from" not in result.context


@story
async def the_next_message_after_delegates_goes_to_the_agent_that_sent_them(stage: Stage) -> None:
    def play(messages: Sequence[Message]) -> Reply:
        if isinstance(messages[-1], ToolResult):
            return says("Three.")
        return delegates("clerk", "count") if len(messages) == 1 else says(f"Boss, after {len(messages)}.")

    team = stage.team([boss(), Agent("clerk")], cast(boss=play, clerk=says("3")))
    assert (await stage.say(team, "how many?")).output == "Three."
    after = await stage.say(team, "thanks")
    assert (after.output, after.final_agent, after.handoff_chain) == ("Boss, after 5.", "boss", [])


@story
async def two_runs_of_a_conversation_delegate_each_anew(stage: Stage) -> None:
    def clerk(messages: Sequence[Message]) -> Reply:
        return says(f"{messages[-1].text}: {len(messages)} to read")

    def play(messages: Sequence[Message]) -> Reply:
        last = messages[-1]
        return recites_results(messages) if isinstance(last, ToolResult) else delegates("clerk", f"task {last.text}")

    members = [boss(delegate("clerk", strategy=MessageOnly())), Agent("clerk")]
    team = stage.team(members, cast(boss=play, clerk=clerk), limits=Limits(max_handoffs=1, max_turns=3))
    runs = [await stage.say(team, text) for text in ("one", "two")]
    backs = [came_back(run)[0] for run in runs]
    assert [back.response for back in backs] == ["task one: 2 to read", "task two: 2 to read"]
    assert [[h.id for h in run.handoff_chain] for run in runs] == [[back.handoff_id] for back in backs]
    assert len({back.handoff_id for back in backs}) == 2
    assert [run.ledger.handoffs for run in runs] == [1, 1]


@story
async def a_task_that_is_missing_is_asked_for(stage: Stage) -> None:
    def play(messages: Sequence[Message]) -> Reply:
        if len(messages) == 1:
            wrong: list[dict[str, Any] | str] = [
                {"task": ""},
                {"context": "x"},
                {"task": "count", "how": "fast"},
                "count",
                {"task": 5},
            ]
            return calls(*(("delegate_to_clerk", each) for each in wrong))
        return delegates("clerk", "count") if len(results(messages)) > 1 else recites_results(messages)

    team = stage.team([boss(), Agent("clerk")], cast(boss=play, clerk=says("Three.")))
    result = await stage.say(team, "how many?")
    assert [back.response for back in came_back(result)] == ["Three."]
    refused = await events(team, CallRefused)
    assert [each.why for each in refused] == ["arguments"] * 5
    assert all(each.reason.startswith("the arguments of delegate_to_clerk do not fit: ") for each in refused)
    assert "how" in refused[2].reason
    assert len(result.handoff_chain) == 1


@story
async def a_model_that_keeps_giving_no_task_has_failed(stage: Stage) -> None:
    team = stage.team([boss(), Agent("clerk")], cast(boss=calls(("delegate_to_clerk", {}))))
    error = await stage.error(ModelError, team, "how many?")
    assert "the arguments of delegate_to_clerk do not fit" in str(error)
    assert error.result is not None
    assert (error.result.handoff_chain, error.result.ledger.turns) == ([], 3)


@story
async def metadata_in_the_arguments_of_a_delegate_is_dropped_and_noted(stage: Stage) -> None:
    def look(ctx: RunContext) -> str:
        """Look who sent this."""
        return str(ctx.context["_handoff_from"])

    args = {"task": "count", "_handoff_from": "the king", "_handoff_chain": ["x"]}
    model = cast(boss=asks(("delegate_to_clerk", args)), clerk=asks(("look", {})))
    team = stage.team([boss(), Agent("clerk", tools=[look])], model)
    result = await stage.say(team, "how many?")
    assert '"response":"boss"' in result.output
    [offered] = await events(team, HandoffOffered)
    assert offered.dropped == ("_handoff_chain", "_handoff_from")
    assert len(result.handoff_chain) == 1


@story
async def a_delegate_that_is_not_declared_is_an_unknown_tool(stage: Stage) -> None:
    team = stage.team([boss(), Agent("clerk"), Agent("spy")], cast(boss=asks(delegates("spy", "look"))))
    result = await stage.say(team, "how many?")
    assert result.output == "there is no tool called 'delegate_to_spy'; your tools: delegate_to_clerk"
    assert result.handoff_chain == []


@story
async def artifacts_of_a_delegate_come_back_with_its_result(stage: Stage) -> None:
    def write(ctx: RunContext) -> Command:
        """Write the report."""
        assert dict(ctx.artifacts) == {"plan": "s3://plan", "report": None}
        return Command(update={"artifacts": {"report": "s3://report"}, "workflow_state": {"phase": "written"}})

    def plan() -> Command:
        """Make a plan."""
        made = {"plan": "s3://plan", "report": None}
        return Command(update={"artifacts": made, "workflow_state": {"phase": "planned", "next": "write"}})

    def play(messages: Sequence[Message]) -> Reply:
        if len(messages) == 1:
            return calls(("plan", {}))
        return recites_results(messages) if len(messages) > 3 else delegates("clerk", "write")

    clerk = asks(("write", {}))
    team = stage.team(
        [boss(delegate("clerk"), tools=[plan]), Agent("clerk", tools=[write])], cast(boss=play, clerk=clerk)
    )
    result = await stage.say(team, "report!")
    assert result.artifacts == {"plan": "s3://plan", "report": "s3://report"}
    assert result.workflow_state == {"phase": "written", "next": "write"}
    assert [done.ok for done in await events(team, ToolFinished)] == [True, True]


@story
async def a_long_response_has_a_summary_too(stage: Stage) -> None:
    model = cast(boss=asks(delegates("clerk", "tell")), clerk=says("word " * 100))
    [back] = came_back(await stage.say(stage.team([boss(), Agent("clerk")], model), "tell me"))
    assert back.response == "word " * 100
    assert back.response.startswith(back.summary.removesuffix("…"))
    assert 0 < len(back.summary) < len(back.response)


@story
async def no_delegate_is_offered_where_no_handoff_may_be_made(stage: Stage) -> None:
    team = stage.team([boss(), Agent("clerk")], ScriptedModel(names_its_tools), limits=Limits(max_handoffs=0))
    assert (await stage.say(team, "whom do you know?")).output == ""


@story
async def no_delegate_is_offered_where_each_agent_works_alone(stage: Stage) -> None:
    members = [boss(delegate("clerk"), tools=[count]), Agent("clerk")]
    team = stage.team(members, ScriptedModel(names_its_tools), handoffs_enabled=False)
    assert (await stage.say(team, "whom do you know?")).output == "count"


@story
async def one_delegate_may_be_given_two_tasks_at_once(stage: Stage) -> None:
    def clerk(messages: Sequence[Message]) -> Reply:
        return says(f"{messages[-1].text} done")

    model = cast(boss=asks(delegates("clerk", "one"), delegates("clerk", "two")), clerk=clerk)
    team = stage.team([boss(), Agent("clerk")], model)
    backs = came_back(await stage.say(team, "both"))
    assert [(back.handoff_id, back.response) for back in backs] == [
        ("story:3.0", "one done"),
        ("story:3.1", "two done"),
    ]
    assert len(await events(team, HandoffAccepted)) == 2


@story
async def an_agent_may_delegate_to_itself(stage: Stage) -> None:
    asked = asks(delegates("boss", "the small part"))

    def play(messages: Sequence[Message]) -> Line | Awaitable[Line]:
        return says("Small.") if messages[-1].text == "the small part" else asked(messages)

    [back] = came_back(await stage.say(stage.team([boss(delegate("boss"))], cast(boss=play)), "all of it"))
    assert (back.agent, back.success, back.response) == ("boss", True, "Small.")


@story
async def a_delegate_has_tools_and_ways_of_its_own(stage: Stage) -> None:
    async def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Line:
        if agent == "clerk":
            return says(shown(tools))
        return recites_results(messages) if isinstance(messages[-1], ToolResult) else delegates("clerk", "who are you?")

    clerk = Agent("clerk", tools=[count], handoffs=[delegate("boss"), "boss"])
    [back] = came_back(await stage.say(stage.team([boss(), clerk], ScriptedModel(play)), "ask"))
    assert back.response == "count; handoff(boss); delegate_to_boss(boss)"
