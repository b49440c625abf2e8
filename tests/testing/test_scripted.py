"""ScriptedModel replies with the right line, and records its requests."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeover.errors import ModelError
from changeover.messages import Message, User, View
from changeover.relay.ports.world import Model, Request
from changeover.relay.stream import TextDelta, ThinkingDelta
from changeover.testing import Reply, ScriptedModel, calls, fails, hands_off, says
from changeover.tools.tool import ToolDefinition

HELLO = User("hello")
LOOK = ToolDefinition("look", "", {})
TEXTS = st.text(st.sampled_from("ab \n\t\u00a0é"), max_size=20)


def a_request(agent: str = "triage", turn: int = 0, conversation: str = "c", command: str = "1") -> Request:
    return Request(
        agent=agent,
        instructions="Be kind.",
        messages=View[Message]([HELLO]),
        tools=(LOOK,),
        settings={},
        conversation=conversation,
        command=command,
        attempt=2,
        turn=turn,
    )


async def texts(model: Model, *requests: Request) -> list[str]:
    return [(await model.reply(request)).text for request in requests]


async def streamed(model: Model, request: Request) -> list[TextDelta | ThinkingDelta | Reply]:
    return [piece async for piece in model.stream(request)]


async def failure(model: Model, request: Request) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await model.reply(request)
    return caught.value


async def test_each_agent_has_its_own_script():
    model = ScriptedModel({"triage": [says("Hi.")], "billing": [says("Paid.")]})
    assert await texts(model, a_request("billing"), a_request("triage")) == ["Paid.", "Hi."]


async def test_the_line_is_the_one_of_the_agents_turn_in_the_conversation():
    model = ScriptedModel({"triage": [says("one"), says("two"), says("three")]})
    assert await texts(model, a_request(turn=2), a_request(turn=0), a_request(turn=1)) == ["three", "one", "two"]


async def test_every_conversation_starts_at_the_beginning():
    model = ScriptedModel({"triage": [says("one"), says("two")]})
    asked = [a_request(conversation=id, turn=turn) for turn in (0, 1) for id in ("a", "b")]
    assert await texts(model, *asked) == ["one", "one", "two", "two"]


async def test_a_script_serves_several_models_and_stays_as_it_was():
    script = {"triage": [calls(("look", {"at": [1]})), hands_off("billing", "x"), fails("down"), says("done")]}
    before = deepcopy(script)
    for model in (ScriptedModel(script), ScriptedModel(script)):
        (await model.reply(a_request(turn=0))).calls[0].args["at"].append(2)
        assert (await model.reply(a_request(turn=1))).calls[0].args["to"] == "billing"
        assert (await failure(model, a_request(turn=2))).agent == "triage"
        assert await texts(model, a_request(turn=3)) == ["done"]
    assert script == before


async def test_later_changes_to_the_callers_list_have_no_effect():
    lines = [says("one")]
    model = ScriptedModel({"triage": lines})
    lines.clear()
    assert await texts(model, a_request()) == ["one"]


async def test_an_exhausted_script_says_whose_it_is_and_how_long_and_is_not_asked_again():
    model = ScriptedModel({"triage": [says("one"), says("two")], "billing": [says("one")]})
    error = await failure(model, a_request(turn=2))
    assert str(error) == "the script of 'triage' has 2 replies, but reply number 3 was requested"
    assert (error.agent, error.retryable) == ("triage", False)
    assert "'billing' has 1 reply, " in str(await failure(model, a_request("billing", turn=1)))


async def test_the_error_of_an_agent_without_a_script_names_those_that_have_one():
    error = await failure(ScriptedModel({"triage": [], "billing": []}), a_request("sales"))
    assert str(error) == "'sales' has no script; there is one for: billing, triage"
    assert (error.agent, error.retryable) == ("sales", False)
    assert str(await failure(ScriptedModel({}), a_request())) == "'triage' has no script; there is one for: no agent"


async def test_a_function_is_called_with_agent_messages_and_tools_by_position():
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition], /) -> Reply:
        return says(f"{agent} read {messages[-1]!r} with {[tool.name for tool in tools]}")

    assert await texts(ScriptedModel(play), a_request()) == [f"triage read {HELLO!r} with ['look']"]


async def test_a_function_may_be_async_and_give_any_line():
    async def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        return fails("down") if agent == "triage" else hands_off("triage", "back")

    model = ScriptedModel(play)
    assert str(await failure(model, a_request())) == "down"
    reply = await model.reply(a_request("billing", command="9"))
    assert [(call.id, call.name) for call in reply.calls] == [("call_9_0", "handoff")]


async def test_the_error_of_an_invalid_line_says_what_a_line_is():
    def play(*asked: Any) -> Any:
        return "Hello."

    error = await failure(ScriptedModel(play), a_request())
    assert str(error).startswith("the script of 'triage' gave 'Hello.'; a line of a script is says(…), calls(…)")
    assert not error.retryable


async def test_a_failure_is_retryable_unless_it_says_otherwise():
    model = ScriptedModel({"triage": [fails("busy"), fails("no credit", retryable=False)]})
    first, second = await failure(model, a_request(turn=0)), await failure(model, a_request(turn=1))
    assert (str(first), first.retryable, first.agent) == ("busy", True, "triage")
    assert (str(second), second.retryable) == ("no credit", False)


async def test_an_exception_is_raised_as_it_is_and_does_not_grow():
    error = TimeoutError("too slow")
    model = ScriptedModel({"triage": [error]})
    depths = []
    for _ in range(3):
        with pytest.raises(TimeoutError) as caught:
            await model.reply(a_request())
        assert caught.value is error
        depths.append(len(caught.traceback))
    assert len(set(depths)) == 1


async def test_it_remembers_every_request_in_order_without_copies_and_also_those_that_failed():
    model = ScriptedModel({"triage": [says("one"), fails("down")]})
    first, second, third = a_request(), a_request(turn=1), a_request("nobody")
    await model.reply(first)
    await failure(model, second)
    await failure(model, third)
    await streamed(model, first)
    assert all(kept is asked for kept, asked in zip(model.requests, (first, second, third, first), strict=True))


async def test_a_stream_gives_thinking_then_words_then_the_same_reply_whole():
    line = says("Hello, you two.", thinking="who is there?")
    pieces = await streamed(ScriptedModel({"triage": [line]}), a_request())
    assert [type(piece) for piece in pieces] == [ThinkingDelta] * 3 + [TextDelta] * 3 + [Reply]
    assert pieces[3] == TextDelta("Hello, ", "triage", "c", "1", attempt=2)
    assert pieces[-1] == await ScriptedModel({"triage": [line]}).reply(a_request())


async def test_a_stream_of_calls_gives_the_text_beside_them():
    model = ScriptedModel({"triage": [calls(("look", {}), text="One moment.")]})
    *words, reply = await streamed(model, a_request())
    assert [word.text for word in words] == ["One ", "moment."]
    assert isinstance(reply, Reply)
    assert reply.calls[0].id == "call_1_0"


async def test_a_stream_fails_as_the_reply_does():
    with pytest.raises(ModelError, match="down"):
        await streamed(ScriptedModel({"triage": [fails("down")]}), a_request())


@given(text=TEXTS, thinking=TEXTS)
async def test_the_pieces_of_a_stream_joined_are_the_text_exactly(text: str, thinking: str):
    pieces = await streamed(ScriptedModel({"triage": [says(text, thinking=thinking)]}), a_request())
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextDelta)) == text
    assert "".join(piece.text for piece in pieces if isinstance(piece, ThinkingDelta)) == thinking


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        (None, "a script is a mapping of agent id to a list of replies, or a function; not None"),
        ([says("hi")], "a script is a mapping of agent id"),
        ({"triage": says("hi")}, "the script of 'triage' must be a list of replies, not Reply"),
        ({"triage": "hi"}, "the script of 'triage' must be a list of replies, not 'hi'"),
        ({"triage": iter([says("hi")])}, "the script of 'triage' must be a list of replies, not <"),
        ({"triage": [says("hi"), "hi"]}, "line 1 of the script of 'triage' is 'hi'; a line of a script is says"),
        ({"triage": [TimeoutError]}, "line 0 of the script of 'triage' is <class 'TimeoutError'>"),
        ({1: [says("hi")]}, "a script belongs to an agent's id, a str; not 1"),
    ],
)
def test_a_script_that_is_none_is_refused_when_the_model_is_made(script: Any, fault: str):
    with pytest.raises(TypeError, match=fault):
        ScriptedModel(script)


async def test_a_model_may_take_its_time():
    model = ScriptedModel({"triage": [says("hi")]}, latency=0.001)
    assert await texts(model, a_request()) == ["hi"]
