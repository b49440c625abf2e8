"""What a user holds: how it is asked, what it refuses, how it is opened and closed."""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from datetime import UTC, datetime
from itertools import product
from typing import Any, cast

import pytest

from changeover import Agent, Function, Limits, RunResult, Team
from changeover.errors import (
    ChangeoverError,
    ConversationNotFound,
    EngineError,
    MaxHandoffsExceededError,
    MisconfiguredError,
    UnknownAgentError,
)
from changeover.messages import Message
from changeover.protocol import HandoffPackage, Metadata, Mode, Task
from changeover.relay.events import HandoffAccepted, RunCompleted, RunStarted, Started, UserSpoke
from changeover.stores.memory.log import MemoryLog
from changeover.stream import Recorded, RunFinished
from changeover.testing import ManualClock, Reply, ScriptedModel, hands_off, says
from changeover.tools.tool import ToolDefinition


def echoes(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
    return says(f"An answer to {messages[-1].text}.")


async def never_answers(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
    await asyncio.sleep(60)
    return says("never")


@pytest.fixture
async def team() -> AsyncIterator[Team]:
    async with Team([Agent("solo"), Agent("other")], model=ScriptedModel(echoes)) as team:
        yield team


async def refused(team: Team, text: Any = "hello", **options: Any) -> MisconfiguredError:
    with pytest.raises(MisconfiguredError) as caught:
        await team.run(text, **{"conversation": "c", **options})
    with pytest.raises(ConversationNotFound):
        await team.history("c")
    return caught.value


@pytest.mark.parametrize("id", ["", " ", "a b", "a/b", "a\n", "ä", "a:b", "x" * 129, "../c"])
async def test_a_conversation_id_that_no_store_could_keep_is_refused(team: Team, id: str):
    with pytest.raises(MisconfiguredError, match="cannot be a conversation's id; use 1 to 128 letters"):
        await team.run("hello", conversation=id)


@pytest.mark.parametrize("id", ["a", "Order-17_b.2", "x" * 128, "...", "-"])
async def test_a_conversation_id_may_be_chosen(team: Team, id: str):
    assert (await team.run("hello", conversation=id)).conversation_id == id


async def test_a_conversation_that_is_not_named_is_a_new_one(team: Team):
    results = [await team.run("hello") for _ in range(5)]
    assert len({result.conversation_id for result in results}) == 5
    assert len({result.run_id for result in results}) == 5


async def test_a_known_conversation_goes_on_and_an_unknown_one_begins(team: Team):
    first = await team.run("one")
    await team.run("two", conversation=first.conversation_id)
    spoken = [record.event for record in await team.history(first.conversation_id)]
    assert [event.text for event in spoken if isinstance(event, UserSpoke)] == ["one", "two"]


@pytest.mark.parametrize("value", [object(), {1, object()}, lambda: None, {(1, 2): 3}, "\ud800"])
async def test_a_context_that_no_log_could_keep_is_refused(team: Team, value: object):
    error = await refused(team, context={"order": value})
    assert "the context must be what JSON can hold" in str(error)


async def test_a_context_that_holds_itself_is_refused(team: Team):
    endless: dict[str, Any] = {}
    endless["itself"] = endless
    assert "the context must be what JSON can hold" in str(await refused(team, context=endless))


async def test_a_context_that_is_no_mapping_is_refused(team: Team):
    assert "context" in str(await refused(team, context="order 17"))


@pytest.mark.parametrize("name", ["_handoff_from", "_handoff_tool", "_handoff_instructions", "_handoff_chain"])
async def test_a_caller_cannot_set_metadata(team: Team, name: str):
    assert f"the context variable '{name}' is reserved; rename it" in str(await refused(team, context={name: "x"}))


async def test_everything_wrong_with_an_input_is_said_at_once(team: Team):
    context = {"_handoff_from": "x", "order": object()}
    error = await refused(team, context=context, limits=Limits(max_handoffs=-1, max_turns=0))
    assert len(error.faults) == 4


async def test_a_context_is_what_a_log_would_give_back(team: Team):
    context = {"when": datetime(2030, 1, 1, tzinfo=UTC), "pair": (1, 2), "by_number": {1: "one"}, "ratio": None}
    result = await team.run("hello", context=context)
    assert result.context == {
        "when": "2030-01-01T00:00:00Z",
        "pair": [1, 2],
        "by_number": {"1": "one"},
        "ratio": None,
    }


async def test_what_a_caller_does_to_its_context_later_changes_nothing(team: Team):
    context = {"order": {"id": "17"}}
    first = await team.run("hello", conversation="c", context=context)
    context["order"]["id"] = "18"
    assert first.context == {"order": {"id": "17"}}
    assert (await team.run("again", conversation="c")).context == {"order": {"id": "17"}}


async def test_what_a_caller_does_to_its_result_changes_nothing(team: Team):
    first = await team.run("hello", conversation="c", context={"order": {"id": "17"}})
    first.context["order"]["id"] = "18"
    first.context["more"] = True
    assert (await team.run("again", conversation="c")).context == {"order": {"id": "17"}}


@pytest.mark.parametrize("text", [None, 5, b"hello", ["hello"]])
async def test_what_is_said_must_be_a_text(team: Team, text: Any):
    assert "what the user says must be a str" in str(await refused(team, text))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *product(("user", "correlation_id", "key"), (0, 5, b"ada", ["ada"])),
        ("user", "\ud800"),
        ("correlation_id", "\ud800"),
    ],
)
async def test_what_goes_with_a_message_must_be_a_text_that_can_be_read_back(team: Team, option: str, value: Any):
    assert str(await refused(team, conversation="c", **{option: value})).startswith(f"{option} ")
    assert (await team.run("hello", conversation="c")).output


@pytest.mark.parametrize("limits", [5, {"max_turns": 3}, Limits, "simple"])
async def test_limits_that_are_none_are_refused(team: Team, limits: Any):
    assert "is not a Limits(…)" in str(await refused(team, limits=limits))
    with pytest.raises(MisconfiguredError, match="is not a Limits"):
        Team([Agent("a")], model="offline", limits=limits)


@pytest.mark.parametrize("option", ["by", "reason"])
async def test_who_ends_or_undoes_something_and_why_must_be_texts(team: Team, option: str):
    given: dict[str, Any] = {option: 5}
    for undone in (team.cancel("c", **given), team.rollback("c:3.0", **given)):
        with pytest.raises(MisconfiguredError, match=f"{option} must be a str, not int"):
            await undone


@pytest.mark.parametrize(
    ("say", "fault"),
    [
        (lambda claim: claim.accept(estimated_completion="soon"), "answered by Accepted(…) with a wrong value"),
        (lambda claim: claim.reject(5), "answered by Rejected(…) with a wrong value"),
        (lambda claim: claim.complete({"payments": 2}), "result must be a str, not dict"),
        (lambda claim: claim.fail(OSError()), "reason must be a str, not OSError"),
        (lambda claim: claim.give_back(5), "reason must be a str, not int"),
    ],
)
async def test_what_a_worker_cannot_say_is_refused_and_the_claim_holds(team: Team, say: Any, fault: str):
    await team.submit(HandoffPackage(Task("Count them."), metadata=Metadata(receiver="solo", conversation="c")))
    [claim] = await team.claim("solo")
    with pytest.raises(MisconfiguredError) as refused:
        await say(claim)
    assert fault in str(refused.value)
    await claim.accept()
    await claim.complete("Two.")
    assert (await team.resume("c")).output == "Two."


async def test_a_worker_is_named_by_a_text(team: Team):
    with pytest.raises(MisconfiguredError, match="by must be a str, not int"):
        await team.claim("solo", by=5)  # type: ignore[arg-type]


async def test_a_text_that_no_log_could_keep_is_refused(team: Team):
    assert "what the user says" in str(await refused(team, "half a character: \ud800"))


@pytest.mark.parametrize(
    ("limits", "fault"),
    [
        (Limits(max_handoffs=-1), "max_handoffs is -1; give 0 (no handoffs) or more"),
        (Limits(max_turns=0), "max_turns is 0; give 1 or more"),
        (Limits(on_limit="shout"), "on_limit is 'shout'; give 'raise' or 'tell'"),  # type: ignore[arg-type]
        (Limits(max_handoffs="3"), "max_handoffs is '3'"),  # type: ignore[arg-type]
        (Limits(max_handoffs=None), "max_handoffs is None"),  # type: ignore[arg-type]
    ],
)
async def test_limits_that_make_no_sense_are_refused_for_a_run_and_for_a_team(team: Team, limits: Limits, fault: str):
    assert fault in str(await refused(team, limits=limits))
    with pytest.raises(MisconfiguredError) as caught:
        Team([Agent("solo")], model=ScriptedModel(echoes), limits=limits)
    assert fault in str(caught.value)


async def test_an_unknown_agent_is_refused_with_those_that_exist(team: Team):
    error = await refused(team, agent="sales")
    assert isinstance(error, UnknownAgentError)
    assert (error.agent, error.available) == ("sales", ("solo", "other"))


async def test_an_unknown_option_is_refused(team: Team):
    with pytest.raises(TypeError):
        await team.run("hello", colour="red")  # type: ignore[call-arg]


async def test_a_key_without_a_conversation_makes_one_run(team: Team):
    first, second = await team.run("hello", key="k"), await team.run("hello", key="k")
    assert first == second
    assert (await team.run("hello", key="other")).conversation_id != first.conversation_id


async def test_a_key_holds_for_its_conversation_only(team: Team):
    first, second = [await team.run("hello", key="k", conversation=id) for id in ("a", "b")]
    assert first.run_id != second.run_id


async def test_an_empty_key_is_no_key(team: Team):
    first, second = [await team.run("hello", key="") for _ in range(2)]
    assert first.conversation_id != second.conversation_id


async def test_history_has_every_event_with_its_place_its_time_and_its_agent():
    clock = ManualClock()
    model = ScriptedModel({"triage": [hands_off("billing", "x")], "billing": [says("Done.")]})
    team = Team([Agent("triage"), Agent("billing")], model=model, clock=clock)
    await team.run("hello", conversation="c")
    history = await team.history("c")
    assert all(isinstance(record, Recorded) for record in history)
    assert [record.position for record in history] == list(range(len(history)))
    assert [record.seq for record in history] == list(range(1, len(history) + 1))
    assert {record.at for record in history} == {clock.now()}
    assert {record.conversation for record in history} == {"c"}
    assert [type(history[index].event) for index in (0, 1, 2, -1)] == [Started, UserSpoke, RunStarted, RunCompleted]
    assert len({record.id for record in history}) == len(history)
    assert [record.agent for record in history if isinstance(record.event, HandoffAccepted)] == ["triage"]
    assert history[-1].agent == "billing"
    await team.close()


async def test_handoffs_are_those_of_the_whole_conversation():
    model = ScriptedModel({"a": [hands_off("b", "1"), says("Hi.")], "b": [says("Yes."), hands_off("a", "2")]})
    async with Team([Agent("a"), Agent("b")], model=model) as team:
        first, second = [await team.run(text, conversation="c") for text in ("one", "two")]
        assert await team.handoffs("c") == [*first.handoff_chain, *second.handoff_chain]
        assert len({record.id for record in await team.handoffs("c")}) == 2


async def test_a_conversation_nobody_had_is_not_found(team: Team):
    for ask in (team.history, team.handoffs):
        with pytest.raises(ConversationNotFound, match="no conversation has the id 'nowhere'") as caught:
            await ask("nowhere")
        assert caught.value.conversation == "nowhere"


async def test_many_conversations_at_once(team: Team):
    results = await asyncio.gather(*(team.run(f"{number}") for number in range(300)))
    assert [result.output for result in results] == [f"An answer to {number}." for number in range(300)]


async def test_slow_conversations_do_not_wait_for_each_other():
    async with Team([Agent("solo")], model=ScriptedModel(echoes, latency=0.05)) as team:
        async with asyncio.timeout(1):
            results = await asyncio.gather(*(team.run(f"{number}") for number in range(50)))
    assert len(results) == 50


async def test_a_caller_that_stops_waiting_does_not_stop_the_run():
    async with Team([Agent("solo")], model=ScriptedModel(echoes, latency=0.03)) as team:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(team.run("one", conversation="c", key="k"), 0.01)
        assert (await team.run("one", conversation="c", key="k")).output == "An answer to one."
        assert (await team.run("two", conversation="c")).output == "An answer to two."


async def test_what_was_recorded_can_be_read_after_the_team_was_closed():
    team = Team([Agent("solo")], model=ScriptedModel(echoes))
    await team.run("hello", conversation="c")
    await team.close()
    assert len(await team.history("c")) == 5
    assert (await team.run("again", conversation="c")).output == "An answer to again."
    await team.close()


async def test_a_team_may_be_closed_twice_and_before_it_was_used():
    team = Team([Agent("solo")], model=ScriptedModel(echoes))
    await team.close()
    await team.close()
    async with team:
        assert (await team.run("hello")).output == "An answer to hello."
    await team.close()


async def test_whoever_waits_for_a_run_is_told_when_the_team_is_closed():
    team = Team([Agent("solo")], model=ScriptedModel(never_answers))
    waiting = asyncio.create_task(team.run("hello", conversation="c"))
    await asyncio.sleep(0.01)
    await team.close()
    done, _ = await asyncio.wait({waiting}, timeout=0.5)
    waiting.cancel()
    assert done, "it still waits"
    with pytest.raises((EngineError, asyncio.CancelledError)):
        await waiting


async def test_whoever_reads_along_is_told_when_the_team_is_closed():
    team = Team([Agent("solo")], model=ScriptedModel(never_answers))

    async def read() -> list[Any]:
        return [item async for item in team.stream("hello", conversation="c")]

    reading = asyncio.create_task(read())
    await asyncio.sleep(0.01)
    await team.close()
    done, _ = await asyncio.wait({reading}, timeout=0.5)
    reading.cancel()
    assert done, "it still reads"
    with pytest.raises((EngineError, asyncio.CancelledError)):
        await reading


async def test_closing_leaves_no_task_behind():
    before = asyncio.all_tasks()
    team = Team([Agent("solo")], model=ScriptedModel(never_answers))
    stream = team.stream("hello")
    assert isinstance(stream, AsyncGenerator)
    await anext(stream)
    await stream.aclose()
    await team.close()
    assert asyncio.all_tasks() - before == set()


async def test_a_stream_ends_with_the_same_result_as_a_run(team: Team):
    items = [item async for item in team.stream("hello", conversation="c", key="k")]
    assert items[-1] == RunFinished(await team.run("hello", conversation="c", key="k"))


async def test_a_result_has_every_field_that_is_promised(team: Team):
    result = await team.run("hello", conversation="c")
    promised = "output final_agent handoff_chain run_id conversation_id context artifacts workflow_state usage cost"
    for name in [*promised.split(), "ledger", "status", "pending", "fell_back"]:
        assert hasattr(result, name)
    assert isinstance(result, RunResult)
    assert (result.artifacts, result.workflow_state, result.pending, result.fell_back) == ({}, {}, [], False)


async def test_every_error_of_a_run_has_its_result():
    team = Team([Agent("solo")], model=ScriptedModel({"solo": []}), clock=ManualClock(auto=True))
    with pytest.raises(ChangeoverError) as caught:
        await team.run("hello", conversation="c")
    assert caught.value.result is not None
    assert (caught.value.result.conversation_id, caught.value.result.status) == ("c", "failed")
    await team.close()


@pytest.mark.parametrize("mode", [Mode.DELEGATE, Mode.TRANSFER])
async def test_what_a_program_offered_in_vain_is_next_offer_when_it_is_resumed(mode: Mode):
    members, store = [Agent("desk"), Agent("clerk")], MemoryLog()
    offered = HandoffPackage(Task("count"), metadata=Metadata(receiver="clerk", mode=mode, conversation="c"))
    async with Team(members, model=ScriptedModel({}), store=store, limits=Limits(max_handoffs=0)) as strict:
        with pytest.raises(MaxHandoffsExceededError):
            await strict.offer(offered)
        with pytest.raises(MaxHandoffsExceededError):
            await strict.resume("c")
    async with Team(members, model=ScriptedModel({"clerk": [says("Three.")]}), store=store) as team:
        result = await team.resume("c")
    assert (result.status, result.output) == ("completed", "Three.")
    assert [(record.sender, record.receiver, record.mode) for record in result.handoff_chain] == [
        ("code", "clerk", mode)
    ]


def test_a_store_that_cannot_be_is_told_among_the_other_faults():
    with pytest.raises(MisconfiguredError) as caught:
        Team([Agent("solo", handoffs=["nobody"])], model=ScriptedModel(echoes), store="mysql://somewhere")
    assert len(caught.value.faults) == 2
    assert "is no store; there are: sqlite:///file.db" in str(caught.value)


async def test_new_conversations_have_ids_of_their_own_also_in_programs_that_seed_their_chance():
    team = Team([Function("solo", lambda ctx: "Hello.")])
    ids = []
    for _ in range(3):
        random.seed(1)
        ids.append((await team.run("hello")).conversation_id)
    assert len(set(ids)) == 3
    await team.close()


async def test_an_option_that_a_run_does_not_have_is_refused_with_those_that_it_has():
    team, options = Team([Function("solo", lambda ctx: "Hello.")]), cast("Any", {"agnet": "solo"})
    with pytest.raises(TypeError, match=r"a run has no option agnet; it has: agent, conversation, context"):
        await team.run("hello", **options)
