"""Streams: a run that is streamed ends as one that is not, and reading changes nothing."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

import pytest

from changeover import Agent, Limits, RunResult, Team
from changeover.errors import ChangeoverError, KeyConflict
from changeover.messages import Message
from changeover.relay.events import HandoffAccepted, ModelReplied, RunCompleted, RunFailed, RunStarted, UserSpoke
from changeover.relay.stream import StreamItem
from changeover.stream import Recorded, RunFinished, TextDelta, ThinkingDelta
from changeover.testing import ManualClock, Reply, ScriptedModel, calls, fails, hands_off, says
from changeover.tools.tool import ToolDefinition
from tests.relay.world import dispatcher_of

Script = dict[str, list[Reply]]

SCRIPTS: dict[str, Script] = {
    "an answer": {"triage": [says("Hello, you two.", thinking="who is there?")]},
    "a handoff": {"triage": [hands_off("billing", "refund", text="One moment.")], "billing": [says("Done it is.")]},
    "a tool": {"triage": [calls(("look", {}), text="I look."), says("Seen, and found good.")]},
    "a mistake": {"triage": [hands_off("sales", "x"), calls(("look", {"at": 1})), says("Sorry.")]},
    "a retry": {"triage": [fails("busy"), says("Now it works.")]},
    "a failure": {"triage": [hands_off("billing", "x")], "billing": [fails("down", retryable=False)]},
    "an invented receiver": {"triage": [hands_off("sales", "x")] * 3},
    "a ring": {"triage": [hands_off("billing", "x")] * 2, "billing": [hands_off("triage", "y")] * 2},
    "an exhausted script": {"triage": [hands_off("billing", "x")], "billing": []},
}


def look() -> str:
    """Look."""
    return "seen"


def a_team(script: Script | ScriptedModel) -> Team:
    model = script if isinstance(script, ScriptedModel) else ScriptedModel(script)
    members = [Agent("triage", tools=[look]), Agent("billing")]
    return Team(members, model=model, clock=ManualClock(auto=True), limits=Limits(max_handoffs=3))


async def ran(team: Team) -> RunResult | tuple[type, str, RunResult | None]:
    try:
        return await team.run("hello", conversation="c")
    except ChangeoverError as error:
        return type(error), str(error), error.result


async def read(team: Team) -> tuple[list[StreamItem], RunResult | tuple[type, str, RunResult | None] | None]:
    items: list[StreamItem] = []
    try:
        async for item in team.stream("hello", conversation="c"):
            items.append(item)
    except ChangeoverError as error:
        return items, (type(error), str(error), error.result)
    finished = items.pop()
    assert isinstance(finished, RunFinished)
    return items, finished.result


def echoes(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
    return says(f"An answer to {messages[-1].text}.")


def joined(items: Sequence[StreamItem]) -> str:
    return "".join(item.text for item in items if isinstance(item, TextDelta))


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
async def test_a_stream_ends_with_the_result_or_the_error_of_a_run(script: Script):
    _, streamed = await read(a_team(script))
    assert streamed == await ran(a_team(script))


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
async def test_a_stream_shows_every_event_of_the_run_in_order(script: Script):
    team = a_team(script)
    items, _ = await read(team)
    history = await team.history("c")
    assert [item for item in items if isinstance(item, Recorded)] == history
    assert isinstance(history[-1].event, RunCompleted | RunFailed)


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
async def test_the_pieces_of_a_stream_joined_are_what_the_models_said(script: Script):
    items, _ = await read(a_team(script))
    replies = [item.event for item in items if isinstance(item, Recorded) and isinstance(item.event, ModelReplied)]
    assert joined(items) == "".join(reply.text for reply in replies)
    thinking = "".join(item.text for item in items if isinstance(item, ThinkingDelta))
    assert thinking == "".join(reply.thinking for reply in replies)


async def test_the_pieces_say_who_speaks_and_come_before_the_reply_they_make_up():
    items, _ = await read(a_team(SCRIPTS["a handoff"]))
    pieces = [(item.agent, item.text) for item in items if isinstance(item, TextDelta)]
    assert pieces == [
        ("triage", "One "),
        ("triage", "moment."),
        *(("billing", word) for word in ("Done ", "it ", "is.")),
    ]
    kinds = [type(item.event) if isinstance(item, Recorded) else type(item) for item in items]
    assert kinds.index(TextDelta) < kinds.index(ModelReplied) < kinds.index(HandoffAccepted)


async def test_a_failed_attempt_is_told_from_the_one_that_works():
    items, _ = await read(a_team(SCRIPTS["a retry"]))
    assert {item.attempt for item in items if isinstance(item, TextDelta)} == {2}


async def test_whoever_was_refused_a_run_reads_along_in_no_other():
    async with a_team(SCRIPTS["an answer"]) as team:
        await team.run("hello", conversation="c", key="k")
        with pytest.raises(KeyConflict):
            _ = [item async for item in team.stream("something else", conversation="c", key="k")]
        assert (await dispatcher_of(team).conversations.get("c")).readers == []


async def test_leaving_a_stream_does_not_cancel_the_run():
    team = a_team({"triage": [calls(("look", {})), says("Done.")]})
    async for item in team.stream("hello", conversation="c", key="k"):
        if isinstance(item, Recorded) and isinstance(item.event, RunStarted):
            break
    async with asyncio.timeout(2):
        result = await team.run("hello", conversation="c", key="k")
    assert (result.output, result.status) == ("Done.", "completed")


async def test_a_run_that_fails_after_its_reader_has_left_leaves_no_warning():
    team = a_team({"triage": [fails("down", retryable=False), says("Hello again.")]})
    stream = team.stream("hello", conversation="c")
    assert isinstance(stream, AsyncGenerator)
    await anext(stream)
    await stream.aclose()
    assert (await team.run("hello?", conversation="c")).output == "Hello again."


async def test_streams_at_once_on_one_conversation_show_each_their_own_run():
    team = a_team(ScriptedModel(echoes, latency=0.005))

    async def reads(text: str) -> list[StreamItem]:
        return [item async for item in team.stream(text, conversation="c")]

    streams = await asyncio.gather(*(reads(text) for text in ("one", "two", "three")))
    finished = [items[-1] for items in streams]
    assert [item.result.output for item in finished if isinstance(item, RunFinished)] == [
        "An answer to one.",
        "An answer to two.",
        "An answer to three.",
    ]
    assert [joined(items) for items in streams] == [
        item.result.output for item in finished if isinstance(item, RunFinished)
    ]
    for text, items in zip(("one", "two", "three"), streams, strict=True):
        spoken = [item.event for item in items if isinstance(item, Recorded) and isinstance(item.event, UserSpoke)]
        assert text in [event.text for event in spoken]
        ends = [item for item in items if isinstance(item, Recorded) and isinstance(item.event, RunCompleted)]
        assert len(ends) == 1


async def test_a_stream_ends_with_its_run_though_the_conversation_goes_on():
    team = a_team(ScriptedModel(echoes, latency=0.005))
    reading = asyncio.create_task(_until_end(team, "one"))
    await asyncio.sleep(0.002)
    later = await team.run("two", conversation="c")
    items = await reading
    assert later.output == "An answer to two."
    assert joined(items) == "An answer to one."


async def _until_end(team: Team, text: str) -> list[StreamItem]:
    return [item async for item in team.stream(text, conversation="c")]


async def test_reading_what_was_said_before_under_the_same_key_gives_its_result_at_once():
    team = a_team({"triage": [says("Once.")]})
    result = await team.run("hello", conversation="c", key="k")
    assert [item async for item in team.stream("hello", conversation="c", key="k")] == [RunFinished(result)]


async def test_what_is_wrong_with_the_input_is_raised_by_the_stream_too():
    team = a_team({"triage": []})
    with pytest.raises(ChangeoverError, match="no agent is called 'sales'"):
        await anext(team.stream("hello", agent="sales"))


async def test_a_model_whose_stream_ends_without_a_reply_has_failed():
    class Mute(ScriptedModel):
        async def stream(self, request):
            yield TextDelta("Hel", request.agent)

    team = a_team(Mute({"triage": [says("never")]}))
    with pytest.raises(ChangeoverError, match="its stream ended without a reply"):
        [item async for item in team.stream("hello")]
