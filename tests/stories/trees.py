"""Stories of several delegates at once, and of delegates that delegate in turn."""

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from inspect import isawaitable
from itertools import pairwise, permutations
from typing import Any

from changeover import Agent, Command, Limits, RunContext, Team, delegate, tool
from changeover.errors import EconomicLimitExceeded, MaxHandoffsExceededError
from changeover.messages import Message, ToolResult
from changeover.relay.events import (
    CallRefused,
    HandoffAccepted,
    HandoffReturned,
    ModelReplied,
    RunFailed,
    RunStopped,
    ToolFinished,
)
from changeover.testing import Reply, ScriptedModel, calls, delegates, fails, says
from changeover.testing.scripted import Line
from changeover.tools.tool import Tool, ToolDefinition
from tests.stories.delegates import Says, asks, came_back, cast, read, recites_results, sleeps
from tests.stories.scripts import shown
from tests.stories.stage import CONVERSATION, Stage, events, story

BRANCHES = ("a", "b", "c")
RETURNS = (HandoffReturned, ToolFinished)


def leads(*receivers: str, tools: Sequence[Tool] = (), id: str = "boss") -> Agent:
    """An agent that may delegate to these."""
    return Agent(id, handoffs=[delegate(receiver) for receiver in receivers], tools=tools)


def once(stage: Stage, others: Sequence[str], then: Line | Says, name: str = "") -> Says:
    """A model that answers when all of these have been here, and leaves its own name in the world."""

    async def answer(messages: Sequence[Message]) -> Line:
        for _ in range(5_000):
            if set(others) <= set(stage.effects):
                break
            await asyncio.sleep(0.001)
        else:
            raise AssertionError(f"not all of {others} have been here")
        stage.effects += [name] if name else []
        line = then(messages) if callable(then) else then
        return await line if isawaitable(line) else line

    return answer


CALLS = ("a", "look_a", "b", "look_b", "c", "look_c")
"""Three delegates and three reads, in the order in which one turn calls them."""

ORDERS = {
    **{"_".join(order): [each for name in order for each in (name, f"look_{name}")] for order in permutations("abc")},
    "reads_first": ["look_c", "look_a", "look_b", "b", "c", "a"],
    "delegates_first": ["b", "a", "c", "look_b", "look_c", "look_a"],
    "backwards": list(reversed(CALLS)),
}


async def finished(team: Team) -> list[str]:
    """Whose outcome the log of the boss holds, in the order in which it got there."""
    records = await team.history(CONVERSATION)
    ends = [r.event for r in records if r.conversation == CONVERSATION and isinstance(r.event, RETURNS)]
    return [CALLS[int(end.call.rpartition(".")[2])] for end in ends]


async def wait_for(team: Team, before: Sequence[str]) -> None:
    """Return when all of these have finished."""
    for _ in range(5_000):
        if set(before) <= set(await finished(team)):
            return
        await asyncio.sleep(0.001)
    raise AssertionError(f"not all of {before} finished")


async def finish_in_this_order(stage: Stage, order: Sequence[str]) -> None:
    """Three delegates and three reads of one turn finish as `order` says, and are read in call order."""

    async def act(name: str) -> str:
        await wait_for(team, order[: order.index(name)])
        return f"From {name}."

    def delegated(name: str) -> Says:
        async def answer(messages: Sequence[Message]) -> Line:
            return says(await act(name))

        return answer

    def reading(name: str) -> Tool:
        return tool(name=name, read_only=True)(partial(act, name))

    turn: Iterable[Any] = (delegates(name, "do it") if name in BRANCHES else (name, {}) for name in CALLS)
    model = cast(boss=asks(*turn), **{name: delegated(name) for name in BRANCHES})
    reads = [reading(f"look_{name}") for name in BRANCHES]
    team = stage.team([leads(*BRANCHES, tools=reads), *(Agent(id) for id in BRANCHES)], model)
    said = (await stage.say(team, "all of it")).output.split(" | ")
    assert await finished(team) == order
    assert [read(text).response for text in said[::2]] == ["From a.", "From b.", "From c."]
    assert said[1::2] == ["From look_a.", "From look_b.", "From look_c."]


def in_every_order() -> None:
    """One story for each order."""
    for name, order in ORDERS.items():

        async def tell(stage: Stage, order: Sequence[str] = order) -> None:
            await finish_in_this_order(stage, order)

        tell.__name__ = f"three_delegates_and_three_reads_finish_in_the_order_{name}"
        story(tell)


in_every_order()


@story
async def delegates_of_one_turn_work_at_once(stage: Stage) -> None:
    def meets(name: str) -> Says:
        met = once(stage, [f"{other} begins" for other in BRANCHES], says(f"{name} met all"), f"{name} ends")
        return once(stage, (), met, f"{name} begins")

    parts = {name: meets(name) for name in BRANCHES}
    turn = asks(*(delegates(name, "meet") for name in BRANCHES))
    team = stage.team([leads(*BRANCHES), *(Agent(id) for id in BRANCHES)], cast(boss=turn, **parts))
    backs = came_back(await stage.say(team, "meet"))
    assert [back.response for back in backs] == ["a met all", "b met all", "c met all"]


@story
async def one_branch_fails_and_the_results_of_the_others_stay(stage: Stage) -> None:
    broken = once(stage, (), fails("down", retryable=False), "b")
    turn = asks(*(delegates(name, "do it") for name in BRANCHES))
    model = cast(boss=turn, a=once(stage, ["b"], says("From a.")), b=broken, c=says("From c."))
    result = await stage.say(stage.team([leads(*BRANCHES), *(Agent(id) for id in BRANCHES)], model), "all of it")
    assert [(back.agent, back.success, back.response) for back in came_back(result)] == [
        ("a", True, "From a."),
        ("b", False, ""),
        ("c", True, "From c."),
    ]
    assert [h.state for h in result.handoff_chain] == ["RETURNED", "FAILED", "RETURNED"]
    assert result.status == "completed"


@story
async def a_write_waits_for_the_delegates_before_it(stage: Stage) -> None:
    async def save() -> str:
        stage.effects.append("save")
        return "saved"

    turn = asks(delegates("a", "x"), delegates("b", "x"), ("save", {}), delegates("c", "x"))
    parts = {
        "a": once(stage, ["c"], says("From a."), "a"),
        "b": once(stage, ["a"], says("From b."), "b"),
        "c": once(stage, (), says("From c."), "c"),
    }
    team = stage.team([leads(*BRANCHES, tools=[tool(save)]), *(Agent(id) for id in BRANCHES)], cast(boss=turn, **parts))
    first, second, saved, third = (await stage.say(team, "all of it")).output.split(" | ")
    assert [read(text).response for text in (first, second, third)] == ["From a.", "From b.", "From c."]
    assert saved == "saved"
    assert list(dict.fromkeys(stage.effects)) == ["c", "a", "b", "save"]


@story
async def what_branches_add_stands_in_call_order(stage: Stage) -> None:
    def makes(name: str) -> Tool:
        async def make() -> Command:
            made = {f"by {name}": f"s3://{name}", "last": f"s3://{name}"}
            return Command(update={"artifacts": made, "workflow_state": {"phase": name}})

        return tool(name="make")(make)

    def play(seconds: float) -> Says:
        async def answer(messages: Sequence[Message]) -> Line:
            await asyncio.sleep(seconds)
            return says("Made.") if isinstance(messages[-1], ToolResult) else calls(("make", {}))

        return answer

    members = [leads(*BRANCHES), *(Agent(name, tools=[makes(name)]) for name in BRANCHES)]
    turn = asks(*(delegates(name, "make") for name in BRANCHES))
    team = stage.team(members, cast(boss=turn, a=play(0.004), b=play(0.008), c=play(0.0)))
    result = await stage.say(team, "make it")
    assert result.artifacts == {"by a": "s3://a", "by b": "s3://b", "by c": "s3://c", "last": "s3://c"}
    assert result.workflow_state == {"phase": "c"}


def row(*ids: str) -> list[Agent]:
    """Agents of which each delegates to the next."""
    return [*(leads(after, id=id) for id, after in pairwise(ids)), Agent(ids[-1])]


def passes_on(receiver: str) -> Says:
    """Delegate, and answer with the response in brackets, or with what was refused."""

    def play(messages: Sequence[Message]) -> Reply:
        last = messages[-1]
        if not isinstance(last, ToolResult):
            return delegates(receiver, f"for {receiver}")
        return says(f"[{read(last.text).response}]" if last.ok else f"told: {last.text}")

    return play


@story
async def delegates_nest_three_deep(stage: Stage) -> None:
    def who(ctx: RunContext) -> list[str]:
        """Say who is here."""
        return [ctx.conversation, *ctx.context["_handoff_chain"], ctx.context["order"]]

    parts: dict[str, Line | Says] = {
        "a": passes_on("b"),
        "b": passes_on("c"),
        "c": passes_on("d"),
        "d": asks(("who", {})),
    }
    members = [*row("a", "b", "c", "d")[:-1], Agent("d", tools=[who])]
    team = stage.team(members, cast(**parts))
    result = await stage.say(team, "go down", context={"order": "17"})
    assert result.output == '[[[["story/3.0/3.0/3.0","a","b","c","d","17"]]]]'
    ledger = result.ledger
    assert (ledger.turns, ledger.handoffs, ledger.agents, result.usage.requests) == (8, 3, 4, 8)
    assert [(h.id, h.sender, h.receiver, h.state) for h in await team.handoffs(CONVERSATION)] == [
        ("story:3.0", "a", "b", "RETURNED"),
        ("story/3.0:3.0", "b", "c", "RETURNED"),
        ("story/3.0/3.0:3.0", "c", "d", "RETURNED"),
    ]


@story
async def a_failure_three_deep_comes_back_step_by_step(stage: Stage) -> None:
    parts: dict[str, Line | Says] = {
        "a": passes_on("b"),
        "b": passes_on("c"),
        "c": passes_on("d"),
        "d": fails("down", retryable=False),
    }
    team = stage.team(row("a", "b", "c", "d"), cast(**parts))
    result = await stage.say(team, "go down")
    assert result.output.startswith("[[told: {")
    assert "'d' got no usable reply from its model: down" in result.output
    assert [h.state for h in await team.handoffs(CONVERSATION)] == ["RETURNED", "RETURNED", "FAILED"]


@story
async def a_delegate_that_would_nest_deeper_than_it_may_fails_and_its_sender_goes_on(stage: Stage) -> None:
    parts: dict[str, Line | Says] = {"a": passes_on("b"), "b": passes_on("c"), "c": passes_on("d"), "d": says("never")}
    team = stage.team(row("a", "b", "c", "d"), cast(**parts), limits=Limits(max_depth=2))
    result = await stage.say(team, "go down")
    assert (result.status, "the run needs more than max_depth=2" in result.output) == ("completed", True)
    assert [(h.receiver, h.state) for h in await team.handoffs(CONVERSATION)] == [("b", "RETURNED"), ("c", "FAILED")]
    assert [reply.agent for reply in await events(team, ModelReplied)] == ["a", "b", "c", "b", "a"]


@story
async def a_delegate_that_is_told_that_it_is_at_the_bottom_answers_itself(stage: Stage) -> None:
    parts: dict[str, Line | Says] = {"a": passes_on("b"), "b": passes_on("c"), "c": passes_on("d"), "d": says("never")}
    team = stage.team(row("a", "b", "c", "d"), cast(**parts), limits=Limits(max_depth=2, on_limit="tell"))
    result = await stage.say(team, "go down")
    assert result.output.startswith("[[told: refused: delegates may be nested 2 deep")
    assert [h.state for h in await team.handoffs(CONVERSATION)] == ["RETURNED", "RETURNED"]
    assert [refused.why for refused in await events(team, CallRefused)] == ["limit"]


@story
async def delegates_nest_five_deep_if_nothing_is_said(stage: Stage) -> None:
    down = [delegate("solo")]

    def play(messages: Sequence[Message]) -> Reply:
        last = messages[-1]
        return says("Back.") if isinstance(last, ToolResult) else delegates("solo", f"{last.text} down")

    team = stage.team([Agent("solo", handoffs=down)], cast(solo=play))
    assert (await stage.say(team, "go")).output == "Back."
    assert len(await events(team, HandoffAccepted)) == 5
    deepest = (await team.handoffs(CONVERSATION))[-1]
    assert (deepest.state, "max_depth=5" in deepest.error) == ("FAILED", True)


@story
async def a_depth_of_zero_allows_no_delegate(stage: Stage) -> None:
    team = stage.team(row("a", "b"), cast(a=passes_on("b")), limits=Limits(max_depth=0))
    error = await stage.error(EconomicLimitExceeded, team, "go")
    assert (error.limit_name, error.limit) == ("max_depth", 0)
    assert await events(team, HandoffAccepted) == []


@story
async def more_delegates_in_one_turn_than_may_be_end_the_run(stage: Stage) -> None:
    turn = asks(*(delegates(name, "do it") for name in BRANCHES))
    members = [leads(*BRANCHES), *(Agent(id) for id in BRANCHES)]
    model = cast(boss=turn, a=sleeps, b=sleeps, c=sleeps)
    team = stage.team(members, model, limits=Limits(max_handoffs=2))
    error = await stage.error(MaxHandoffsExceededError, team, "all of it")
    assert (error.limit, [h.receiver for h in error.chain]) == (2, ["a", "b"])
    assert "max_handoffs=2" in str(error)
    assert [h.state for h in error.chain] == ["RETURNED", "RETURNED"]
    assert len(await events(team, HandoffAccepted)) == 2


@story
async def a_sender_that_is_told_of_the_limit_has_the_results_of_those_it_could_send(stage: Stage) -> None:
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent != "boss":
            return says(f"From {agent}.")
        if isinstance(messages[-1], ToolResult):
            return says(f"{recites_results(messages).text} | {shown(tools)}")
        return calls(*(delegates(name, "do it") for name in BRANCHES))

    members = [leads(*BRANCHES), *(Agent(id) for id in BRANCHES)]
    team = stage.team(members, ScriptedModel(play), limits=Limits(max_handoffs=2, on_limit="tell"))
    result = await stage.say(team, "all of it")
    first, second, refused, offered = result.output.split(" | ")
    assert [read(text).response for text in (first, second)] == ["From a.", "From b."]
    assert refused.startswith("refused: the run has made all its 2 handoffs")
    assert offered == ""
    assert [h.receiver for h in result.handoff_chain] == ["a", "b"]


def helpers_below() -> list[Agent]:
    """A boss with two delegates, of which each may ask the helper."""
    return [leads("a", "b"), leads("helper", id="a"), leads("helper", id="b"), Agent("helper")]


@story
async def branches_that_together_make_too_many_handoffs_end_the_run(stage: Stage) -> None:
    model = cast(
        boss=asks(delegates("a", "x"), delegates("b", "x")),
        a=passes_on("helper"),
        b=once(stage, ["helper"], passes_on("helper")),
        helper=once(stage, (), sleeps, "helper"),
    )
    team = stage.team(helpers_below(), model, limits=Limits(max_handoffs=3))
    error = await stage.error(MaxHandoffsExceededError, team, "all of it")
    assert (error.limit, error.limit_name) == (3, "max_handoffs")
    assert error.ledger is not None
    assert error.ledger.handoffs == 3
    assert len(await events(team, HandoffAccepted)) == 3
    assert len(await team.handoffs(CONVERSATION)) == 3
    own = [record.event for record in await team.history(CONVERSATION) if record.conversation == CONVERSATION]
    assert sum(isinstance(event, RunStopped) for event in own) == 1
    assert isinstance(own[-1], RunFailed)


@story
async def of_branches_that_together_make_too_many_handoffs_the_last_is_told(stage: Stage) -> None:
    parts: dict[str, Line | Says] = {"a": passes_on("helper"), "b": passes_on("helper"), "helper": says("Helped.")}
    model = cast(boss=asks(delegates("a", "x"), delegates("b", "x")), **parts)
    team = stage.team(helpers_below(), model, limits=Limits(max_handoffs=3, on_limit="tell"))
    result = await stage.say(team, "all of it")
    helped, told = sorted(back.response for back in came_back(result))
    assert helped == "[Helped.]"
    assert told.startswith("told: refused: the run has made all its 3 handoffs")
    assert result.ledger.handoffs == len(await events(team, HandoffAccepted)) == 3


@story
async def branches_that_together_take_too_many_turns_end_the_run(stage: Stage) -> None:
    def peek() -> str:
        """Peek."""
        return "nothing"

    members = [leads(*BRANCHES), *(Agent(name, tools=[peek]) for name in BRANCHES)]
    model = cast(
        boss=asks(*(delegates(name, "x") for name in BRANCHES)),
        a=once(stage, (), sleeps, "a"),
        b=once(stage, ["a", "c"], calls(("peek", {}))),
        c=once(stage, (), sleeps, "c"),
    )
    team = stage.team(members, model, limits=Limits(max_turns=6))
    error = await stage.error(EconomicLimitExceeded, team, "all of it")
    assert (error.limit_name, error.limit) == ("max_turns", 6)
    assert error.ledger is not None
    # Two of the six turns were begun by those who sleep, and never made.
    assert error.ledger.turns == len(await events(team, ModelReplied)) == 4
    assert error.result is not None
    assert [(h.receiver, h.state) for h in error.result.handoff_chain] == [
        ("a", "RETURNED"),
        ("b", "FAILED"),
        ("c", "RETURNED"),
    ]


async def turns_of_the_tree(stage: Stage, max_turns: int) -> int:
    """How many turns are made if three delegates would go on for ever, and the boss is told of the limit."""

    def peek() -> str:
        """Peek."""
        return "nothing"

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent != "boss":
            return calls(("peek", {}))
        if not isinstance(messages[-1], ToolResult):
            return calls(*(delegates(name, "x") for name in BRANCHES)) if tools else says("Alone.")
        backs = [read(message.text) for message in messages if isinstance(message, ToolResult)]
        return says(f"{sorted(back.success for back in backs)} {shown(tools)}".rstrip())

    members = [leads(*BRANCHES), *(Agent(name, tools=[peek]) for name in BRANCHES)]
    team = stage.team(members, ScriptedModel(play), limits=Limits(max_turns=max_turns, on_limit="tell"))
    result = await stage.say(team, "all of it")
    assert (result.status, result.final_agent) == ("completed", "boss")
    assert result.output == ("[False, False, False]" if max_turns > 1 else "Alone.")
    assert result.ledger.turns == result.usage.requests
    made = await events(team, ModelReplied)
    assert made[-1].agent == "boss"
    assert result.ledger.turns == len(made)
    return len(made)


@story
async def a_boss_whose_branches_spent_all_turns_has_the_last_word(stage: Stage) -> None:
    assert await turns_of_the_tree(stage, 9) == 9


@story
async def a_boss_has_the_last_word_though_its_branches_got_no_turn(stage: Stage) -> None:
    assert await turns_of_the_tree(stage, 2) == 2


@story
async def a_boss_that_has_one_turn_answers_alone(stage: Stage) -> None:
    assert await turns_of_the_tree(stage, 1) == 1


@story
async def every_agent_above_a_delegate_that_spent_all_turns_has_a_last_reply(stage: Stage) -> None:
    def peek() -> str:
        """Peek."""
        return "nothing"

    def sums_up(receiver: str) -> Says:
        def play(messages: Sequence[Message]) -> Reply:
            last = messages[-1]
            if not isinstance(last, ToolResult):
                return delegates(receiver, "x")
            back = read(last.text)
            return says(f"{receiver} {'said ' + back.response if back.success else 'failed'}")

        return play

    members = [*row("a", "b", "c")[:-1], Agent("c", tools=[peek])]
    model = cast(a=sums_up("b"), b=sums_up("c"), c=calls(("peek", {})))
    team = stage.team(members, model, limits=Limits(max_turns=7, on_limit="tell"))
    result = await stage.say(team, "go down")
    assert result.output == "b said c failed"
    assert [reply.agent for reply in await events(team, ModelReplied)] == ["a", "b", "c", "c", "c", "b", "a"]


@story
async def a_delegate_that_will_not_stop_leaves_the_last_word_to_its_boss(stage: Stage) -> None:
    def peek() -> str:
        """Peek."""
        return "nothing"

    def middle(messages: Sequence[Message]) -> Reply:
        return calls(("peek", {})) if isinstance(messages[-1], ToolResult) else delegates("c", "x")

    def top(messages: Sequence[Message]) -> Reply:
        last = messages[-1]
        return says(read(last.text).error) if isinstance(last, ToolResult) else delegates("b", "x")

    members = [leads("b", id="a"), leads("c", id="b", tools=[tool(peek)]), Agent("c", tools=[peek])]
    model = cast(a=top, b=middle, c=calls(("peek", {})))
    team = stage.team(members, model, limits=Limits(max_turns=7, on_limit="tell"))
    result = await stage.say(team, "go down")
    assert "max_turns=7" in result.output
    assert [reply.agent for reply in await events(team, ModelReplied)] == ["a", "b", "c", "c", "c", "b", "a"]
    assert [h.state for h in await team.handoffs(CONVERSATION)] == ["FAILED", "FAILED"]


@story
async def the_limits_of_a_run_hold_for_its_delegates(stage: Stage) -> None:
    team = stage.team(row("a", "b", "c"), cast(a=passes_on("b"), b=passes_on("c"), c=says("Down.")))
    assert (await stage.say(team, "go down", limits=Limits(max_handoffs=2))).output == "[[Down.]]"
    error = await stage.error(MaxHandoffsExceededError, team, "go down", limits=Limits(max_handoffs=1))
    assert error.limit == 1
    told = await stage.say(team, "go down", limits=Limits(max_handoffs=1, on_limit="tell"))
    assert told.output.startswith("[told: refused: the run has made all its 1 handoffs")
    by_run = [handoff.run_id for handoff in await team.handoffs(CONVERSATION)]
    assert len(by_run) == 4


@story
async def a_tree_is_whole_in_the_history_of_its_root(stage: Stage) -> None:
    turn = asks(*(delegates(name, "do it") for name in BRANCHES))
    team = stage.team(
        [leads(*BRANCHES), *(Agent(id) for id in BRANCHES)], cast(boss=turn, a=says("A"), b=says("B"), c=says("C"))
    )
    await stage.say(team, "all of it")
    history = await team.history(CONVERSATION)
    assert [record.seq for record in history] == list(range(1, len(history) + 1))
    children = {f"{CONVERSATION}/3.{index}" for index in range(3)}
    assert {record.conversation for record in history} == {CONVERSATION, *children}
    for child in sorted(children):
        assert await team.history(child) == [record for record in history if record.conversation == child]
