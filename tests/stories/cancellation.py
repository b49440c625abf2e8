"""Stories of runs that are cancelled."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from changeover import Agent, Approve, Function, Limits, RunContext, RunResult, Team, delegate, tool
from changeover.errors import ApprovalError, ConversationNotFound, EconomicLimitExceeded, MisconfiguredError
from changeover.messages import Message, ToolResult, User
from changeover.protocol import State
from changeover.relay import state
from changeover.relay.events import (
    CancelRequested,
    Event,
    ModelFailed,
    RunCancelled,
    RunStarted,
    ToolFinished,
    UserSpoke,
)
from changeover.testing import ManualClock, Reply, ScriptedModel, calls, delegates, fails, hands_off, says
from changeover.testing.scripted import Line
from changeover.tools.tool import ToolDefinition
from tests.stories.approvals import asked, must_wait
from tests.stories.stage import CONVERSATION, Stage, events, story
from tests.stories.turns import recites_results

Play = Callable[[str, Sequence[Message], Sequence[ToolDefinition]], Line | Awaitable[Line]]

NEXT = "and now?"


class Hold:
    """Something that goes on until it is let go."""

    def __init__(self) -> None:
        self.begun, self.let_go = asyncio.Event(), asyncio.Event()

    async def on(self) -> None:
        self.begun.set()
        await self.let_go.wait()


def held(hold: Hold, at: str, **turns: Reply) -> ScriptedModel:
    """Each agent takes its one turn; the model of `at` thinks until it is let go. The next message is answered."""

    async def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Line:
        if any(isinstance(message, User) and message.text == NEXT for message in messages):
            return says(f"{agent} is here")
        if agent == at:
            await hold.on()
        if agent in turns and not any(isinstance(message, ToolResult) for message in messages):
            return turns[agent]
        return recites_results(agent, messages, tools)

    return ScriptedModel(play)


async def first_of(saying: "asyncio.Task[RunResult]", moment: Callable[[], Awaitable[object]]) -> None:
    """Return when it has come to this, or to its end: in a later life it may have ended already."""
    waiting = asyncio.ensure_future(moment())
    try:
        await asyncio.wait({saying, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
    if saying.done():
        saying.result()


async def ended_at(stage: Stage, team: Team, moment: Callable[[], Awaitable[object]], what: str = "") -> RunResult:
    """Say something, and cancel it, or what works for it, as soon as it has come to this."""
    async with asyncio.TaskGroup() as group:
        saying = group.create_task(stage.say(team, "go"))
        await first_of(saying, moment)
        await call_off(stage, team, what or CONVERSATION)
    return saying.result()


async def call_off(stage: Stage, team: Team, what: str) -> None:
    """Cancel it, unless that is on record from an earlier life."""
    if stage.lives == 1 or not await events(team, CancelRequested):
        assert await team.cancel(what, by="ana", reason="too slow")


async def told(team: Team, kind: type[Event], count: int = 1) -> None:
    """Return when this many events of this kind are on record."""
    for _ in range(2_000):
        try:
            if len(await events(team, kind)) >= count:
                return
        except ConversationNotFound:
            pass
        await asyncio.sleep(0.001)
    raise AssertionError(f"fewer than {count} of {kind.__name__} were recorded")


async def assert_at_rest(team: Team, conversation: str = CONVERSATION) -> None:
    """Nothing is under way in any conversation of the tree."""
    states: dict[str, state.State] = {}
    for record in await team.history(conversation):
        states.setdefault(record.conversation, state.State(record.conversation)).apply(record.event)
    assert {id: (each.run, each.inbox) for id, each in states.items()} == dict.fromkeys(states, (None, {}))
    assert await team.approvals(conversation) == []


async def assert_goes_on(stage: Stage, team: Team, agent: str = "solo") -> None:
    """All has ended, and the next message is answered."""
    if stage.lives == 1:  # in a later one the next message may be answered already while this looks
        await assert_at_rest(team)
        assert await team.cancel(CONVERSATION) is False
    result = await stage.say(team, NEXT)
    assert (result.status, result.output) == ("completed", f"{agent} is here")
    await assert_at_rest(team)


@story
async def a_conversation_is_cancelled_during_a_model_call(stage: Stage) -> None:
    hold = Hold()
    team = stage.team([Agent("solo")], held(hold, "solo"))
    result = await ended_at(stage, team, hold.begun.wait)
    assert (result.status, result.output, result.final_agent) == ("cancelled", "", "solo")
    assert await events(team, CancelRequested) == [CancelRequested(0, "ana", "too slow")]
    assert await events(team, RunCancelled) == [RunCancelled(1)]
    await assert_goes_on(stage, team)


@story
async def a_run_that_was_cancelled_is_not_taken_up_again(stage: Stage) -> None:
    hold = Hold()
    team = stage.team([Agent("solo")], held(hold, "solo"))
    result = await ended_at(stage, team, hold.begun.wait)
    seen = len(stage.seen)
    again = await team.resume(CONVERSATION)
    assert (again.status, again.run_id, len(stage.seen)) == ("cancelled", result.run_id, seen)
    assert await team.cancel(CONVERSATION) is False
    assert len(await events(team, CancelRequested)) == 1


@story
async def a_conversation_is_cancelled_during_a_tool(stage: Stage) -> None:
    hold = Hold()

    async def work() -> str:
        """Work."""
        await hold.on()
        stage.effects.append("worked")
        return "worked"

    async def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Line:
        if messages[-1].text == NEXT:
            return recites_results(agent, messages, tools)
        return calls(("work", {}), ("work", {}))

    team = stage.team([Agent("solo", tools=[work])], ScriptedModel(play))
    assert (await ended_at(stage, team, hold.begun.wait)).status == "cancelled"
    hold.let_go.set()
    abandoned = "abandoned: the run ended before this call did"
    assert (await stage.say(team, NEXT)).output == f"{abandoned} | {abandoned}"
    assert stage.did == []
    assert await events(team, ToolFinished) == []
    await assert_at_rest(team)


@story
async def a_conversation_is_cancelled_during_a_function(stage: Stage) -> None:
    hold = Hold()

    async def work(ctx: RunContext) -> str:
        if ctx.input != NEXT:
            await hold.on()
        return "solo is here"

    team = stage.team([Function("solo", work)])
    assert (await ended_at(stage, team, hold.begun.wait)).status == "cancelled"
    await assert_goes_on(stage, team)


@story
async def a_conversation_is_cancelled_after_a_transfer(stage: Stage) -> None:
    hold = Hold()
    members = [Agent("triage"), Agent("billing", handoffs=())]
    team = stage.team(members, held(hold, "billing", triage=hands_off("billing", "refund")))
    result = await ended_at(stage, team, hold.begun.wait)
    assert (result.status, result.final_agent) == ("cancelled", "billing")
    assert [(each.receiver, each.state) for each in result.handoff_chain] == [("billing", State.RETURNED)]
    await assert_goes_on(stage, team, "billing")


@story
async def a_conversation_is_cancelled_during_a_delegate(stage: Stage) -> None:
    hold = Hold()
    members = [Agent("lead", handoffs=[delegate("clerk")]), Agent("clerk", handoffs=())]
    team = stage.team(members, held(hold, "clerk", lead=delegates("clerk", "count")))
    result = await ended_at(stage, team, hold.begun.wait)
    assert (result.status, result.final_agent) == ("cancelled", "lead")
    [record] = await team.handoffs(CONVERSATION)
    assert (record.receiver, record.state, record.error) == ("clerk", State.RETURNED, "cancelled")
    cancelled = [each.conversation for each in await team.history(CONVERSATION) if isinstance(each.event, RunCancelled)]
    assert cancelled == [f"{CONVERSATION}/3.0", CONVERSATION]
    await assert_goes_on(stage, team, "lead")


@story
async def a_conversation_is_cancelled_with_all_that_work_for_it(stage: Stage) -> None:
    hold = Hold()
    ways = [delegate(id) for id in ("one", "two", "three")]
    members = [
        Agent("lead", handoffs=ways),
        Agent("one", handoffs=()),
        Agent("two", handoffs=[delegate("deep")]),
        Agent("three", handoffs=()),
        Agent("deep", handoffs=()),
    ]
    turn = calls(delegates("one", "a"), delegates("two", "b"), delegates("three", "c"))
    team = stage.team(members, held(hold, "deep", lead=turn, two=delegates("deep", "d")))
    result = await ended_at(stage, team, hold.begun.wait)
    assert result.status == "cancelled"
    ended = {each.receiver: each.error for each in await team.handoffs(CONVERSATION)}
    assert (ended["two"], ended["deep"]) == ("cancelled", "cancelled")
    await assert_goes_on(stage, team, "lead")


@story
async def a_run_is_cancelled_by_its_id(stage: Stage) -> None:
    hold = Hold()
    team = stage.team([Agent("solo")], held(hold, "solo"))
    result = await ended_at(stage, team, hold.begun.wait, f"{CONVERSATION}@1")
    assert (result.status, result.run_id) == ("cancelled", f"{CONVERSATION}@1")
    await assert_goes_on(stage, team)


async def two_runs(stage: Stage, cancelled: int | None) -> list[str]:
    """How two runs of one conversation end, the second of which waits for the first, if this one or both are ended."""
    hold = Hold()

    async def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Line:
        if messages[-1].text == "first":
            await hold.on()
        return says(f"{messages[-1].text} answered")

    team = stage.team([Agent("solo")], ScriptedModel(play))
    async with asyncio.TaskGroup() as group:
        first = group.create_task(stage.say(team, "first"))
        await first_of(first, lambda: told(team, RunStarted))
        second = group.create_task(stage.say(team, "second"))
        await first_of(second, lambda: told(team, UserSpoke, 2))
        spoken = [each.position for each in await team.history(CONVERSATION) if isinstance(each.event, UserSpoke)]
        what = CONVERSATION if cancelled is None else f"{CONVERSATION}@{spoken[cancelled]}"
        await call_off(stage, team, what)
        hold.let_go.set()
    third = await stage.say(team, "third")
    await assert_at_rest(team)
    return [each.output or each.status for each in (first.result(), second.result(), third)]


@story
async def a_run_that_has_not_begun_is_cancelled(stage: Stage) -> None:
    assert await two_runs(stage, 1) == ["first answered", "cancelled", "third answered"]


@story
async def a_run_is_cancelled_and_the_next_one_begins(stage: Stage) -> None:
    assert await two_runs(stage, 0) == ["cancelled", "second answered", "third answered"]


@story
async def a_conversation_is_cancelled_with_all_its_runs(stage: Stage) -> None:
    assert await two_runs(stage, None) == ["cancelled", "cancelled", "third answered"]


@story
async def a_delegate_is_called_back_and_its_sender_goes_on(stage: Stage) -> None:
    hold = Hold()
    members = [Agent("lead", handoffs=[delegate("clerk"), delegate("other")]), Agent("clerk", handoffs=())]
    turn = calls(delegates("clerk", "count"), delegates("other", "look"))
    model = held(hold, "clerk", lead=turn, other=says("I looked."))
    team = stage.team([*members, Agent("other", handoffs=())], model)
    result = await ended_at(stage, team, hold.begun.wait, f"{CONVERSATION}:3.0")
    assert (result.status, result.final_agent) == ("completed", "lead")
    clerk, other = result.output.split(" | ")
    assert '"success":false' in clerk
    assert '"error":"cancelled"' in clerk
    assert '"response":"I looked."' in other
    states = {each.receiver: each.state for each in await team.handoffs(CONVERSATION)}
    assert states == {"clerk": State.RETURNED, "other": State.RETURNED}
    assert await team.cancel(f"{CONVERSATION}:3.0") is False
    await assert_goes_on(stage, team, "lead")


@story
async def a_delegate_is_called_back_by_the_id_of_its_conversation(stage: Stage) -> None:
    hold = Hold()
    members = [Agent("lead", handoffs=[delegate("clerk")]), Agent("clerk", handoffs=())]
    team = stage.team(members, held(hold, "clerk", lead=delegates("clerk", "count")))
    result = await ended_at(stage, team, hold.begun.wait, f"{CONVERSATION}/3.0")
    assert result.status == "completed"
    assert '"error":"cancelled"' in result.output
    await assert_goes_on(stage, team, "lead")


@story
async def a_delegate_of_a_delegate_is_called_back(stage: Stage) -> None:
    hold = Hold()
    members = [
        Agent("lead", handoffs=[delegate("clerk")]),
        Agent("clerk", handoffs=[delegate("deep")]),
        Agent("deep", handoffs=()),
    ]
    model = held(hold, "deep", lead=delegates("clerk", "count"), clerk=delegates("deep", "count"))
    team = stage.team(members, model)
    result = await ended_at(stage, team, hold.begun.wait, f"{CONVERSATION}/3.0:3.0")
    ended = {each.receiver: each.error for each in await team.handoffs(CONVERSATION)}
    assert (result.status, ended) == ("completed", {"clerk": "", "deep": "cancelled"})
    await assert_goes_on(stage, team, "lead")


@story
async def an_unknown_run_cannot_be_cancelled(stage: Stage) -> None:
    team = stage.team([Agent("solo")], ScriptedModel({"solo": [says("Hello.")]}))
    await stage.say(team, "hello")
    for id in ("nowhere", "nowhere@1", "nowhere:3.0", "nowhere/3.0", f"{CONVERSATION}:9.9", f"{CONVERSATION}/9.9", ""):
        with pytest.raises(ConversationNotFound, match=f"no conversation has the id {id!r}"):
            await team.cancel(id)
    nothing: Any = None
    with pytest.raises(MisconfiguredError, match="None"):
        await team.cancel(nothing)
    assert await events(team, CancelRequested) == []


@story
async def an_ended_run_cannot_be_cancelled(stage: Stage) -> None:
    members = [Agent("lead", handoffs=[delegate("clerk")]), Agent("clerk", handoffs=())]
    script = {"lead": [delegates("clerk", "count"), says("Done.")], "clerk": [says("Five.")]}
    team = stage.team(members, ScriptedModel(script))
    result = await stage.say(team, "count")
    for id in (CONVERSATION, result.run_id, f"{CONVERSATION}@99", f"{CONVERSATION}:3.0", f"{CONVERSATION}/3.0"):
        assert await team.cancel(id) is False
    assert (result.status, await events(team, CancelRequested)) == ("completed", [])


@story
async def a_run_is_cancelled_while_it_pauses_before_another_try(stage: Stage) -> None:
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Line:
        return says("solo is here") if messages[-1].text == NEXT else fails("overloaded")

    team = stage.team([Agent("solo")], ScriptedModel(play), clock=ManualClock())
    assert (await ended_at(stage, team, lambda: told(team, ModelFailed))).status == "cancelled"
    assert len(await events(team, ModelFailed)) == 1
    await assert_goes_on(stage, team)


async def unanswered(stage: Stage, team: Team, what: str) -> RunResult:
    """Cancel a run that waits for a person: a later decision is refused, because the request is gone."""
    result = await stage.say(team, "go")
    must_wait(stage, result)
    if result.status == "waiting":
        assert await team.cancel(what)
        result = stage.outcomes[1] = await team.resume(CONVERSATION)
    assert await team.approvals() == []
    [request] = await asked(team)
    with pytest.raises(ApprovalError, match="the run ended"):
        await team.decide(request, Approve())
    assert stage.did == []
    return result


def pay_play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Line:
    """The lead delegates, every other agent pays; the next message is answered."""
    if messages[-1].text == NEXT:
        return says(f"{agent} is here")
    if isinstance(messages[-1], ToolResult):
        return recites_results(agent, messages, tools)
    return delegates("clerk", "pay") if agent == "lead" else calls(("pay", {}))


def payers(stage: Stage) -> list[Agent]:
    """A lead, and a clerk whose payments need approval."""

    @tool(approval=True)
    def pay() -> str:
        """Pay."""
        stage.effects.append("paid")
        return "paid"

    return [Agent("lead", handoffs=[delegate("clerk")]), Agent("clerk", tools=[pay], handoffs=())]


@story
async def a_run_is_cancelled_while_it_waits_for_approval(stage: Stage) -> None:
    team = stage.team(payers(stage)[1:], ScriptedModel(pay_play))
    assert (await unanswered(stage, team, CONVERSATION)).status == "cancelled"
    await assert_goes_on(stage, team, "clerk")


@story
async def a_run_is_cancelled_while_its_delegate_waits_for_approval(stage: Stage) -> None:
    team = stage.team(payers(stage), ScriptedModel(pay_play))
    assert (await unanswered(stage, team, CONVERSATION)).status == "cancelled"
    [record] = await team.handoffs(CONVERSATION)
    assert (record.state, record.error) == (State.RETURNED, "cancelled")
    await assert_goes_on(stage, team, "lead")


@story
async def the_outcome_of_an_at_most_once_tool_is_recorded_after_the_run_was_cancelled(stage: Stage) -> None:
    hold = Hold()

    @tool(at_most_once=True)
    async def pay() -> str:
        """Pay."""
        await hold.on()
        stage.effects.append("paid")
        return "paid"

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Line:
        if messages[-1].text == NEXT:
            return says("solo is here")
        return says("Done.") if isinstance(messages[-1], ToolResult) else calls(("pay", {}))

    team = stage.team([Agent("solo", tools=[pay])], ScriptedModel(play))
    async with asyncio.TaskGroup() as group:
        saying = group.create_task(stage.say(team, "go"))
        await first_of(saying, hold.begun.wait)
        assert stage.lives > 1 or not saying.done()
        if not saying.done():
            assert await team.cancel(CONVERSATION)
    # In a later life whether it took effect may be unknown, and then the run went on from there.
    assert saying.result().status == "cancelled" or stage.lives > 1
    if hold.begun.is_set():
        assert await events(team, ToolFinished) == []
        hold.let_go.set()
        await told(team, ToolFinished)
        kinds = [type(each.event) for each in await team.history(CONVERSATION)]
        assert kinds.index(RunCancelled) < kinds.index(ToolFinished)
        assert [(each.text, each.unknown) for each in await events(team, ToolFinished)] == [("paid", False)]
    assert stage.effects.count("paid") <= 1
    await assert_goes_on(stage, team)


@story
async def a_run_that_failed_cannot_be_cancelled_and_goes_on(stage: Stage) -> None:
    model = ScriptedModel({"solo": [calls(("look", {})), says("solo is here")]})
    team = stage.team([Agent("solo", tools=[tool(name="look")(lambda: "looked")])], model, limits=Limits(max_turns=1))
    await stage.error(EconomicLimitExceeded, team, "go")
    await assert_goes_on(stage, team)


@story
async def a_transfer_is_cancelled_by_its_id(stage: Stage) -> None:
    hold = Hold()
    members = [Agent("triage"), Agent("billing", handoffs=())]
    team = stage.team(members, held(hold, "billing", triage=hands_off("billing", "refund")))
    result = await ended_at(stage, team, hold.begun.wait, f"{CONVERSATION}:3.0")
    assert (result.status, result.final_agent) == ("cancelled", "billing")
    await assert_goes_on(stage, team, "billing")


@story
async def a_delegate_is_called_back_while_it_waits_for_approval(stage: Stage) -> None:
    team = stage.team(payers(stage), ScriptedModel(pay_play))
    result = await unanswered(stage, team, f"{CONVERSATION}:3.0")
    assert (result.status, '"error":"cancelled"' in result.output) == ("completed", True)
    await assert_goes_on(stage, team, "lead")
