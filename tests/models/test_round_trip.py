"""Messages survive the way to pydantic-ai's types and back, whatever they contain."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import json as log
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from changeover.messages import Assistant, Call, Message, Note, ToolResult, User
from changeover.models.request import CONTINUE, history_for
from changeover.models.response import read
from changeover.relay.events import ModelReplied
from changeover.relay.sanitize import reply_of

TEXTS = st.text(max_size=12)
WORDS = st.text(min_size=1, max_size=12)
NAMES = st.sampled_from(["look", "handoff", "find_it"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
ARGS = st.dictionaries(TEXTS, VALUES, max_size=3)
DETAILS = st.none() | st.dictionaries(WORDS, TEXTS | st.integers(0, 9), min_size=1, max_size=2)
IDS = st.none() | st.sampled_from(["rs_1", "msg_2", "fc_3"])


PROVIDER = st.just("openai")
PARTS: st.SearchStrategy[ModelResponsePart] = st.one_of(
    st.builds(TextPart, TEXTS, id=IDS, provider_details=DETAILS, provider_name=PROVIDER),
    st.builds(
        ThinkingPart, TEXTS, id=IDS, signature=st.none() | WORDS, provider_details=DETAILS, provider_name=PROVIDER
    ),
    st.builds(ToolCallPart, NAMES, ARGS, id=IDS, provider_details=DETAILS, provider_name=PROVIDER),
)


@st.composite
def responses(draw: st.DrawFn) -> ModelResponse:
    """Anything that a provider may answer."""
    parts = draw(st.lists(PARTS, max_size=6))
    for index, part in enumerate(parts):
        if isinstance(part, ToolCallPart):
            part.tool_call_id = f"call_{index}"
    return ModelResponse(
        parts=parts, provider_name="openai", provider_response_id=draw(IDS), provider_details=draw(DETAILS)
    )


def remembered(response: ModelResponse) -> Assistant:
    """The response after its way through the log."""
    reply = reply_of(read(response), "1")
    event = ModelReplied("a", 1, reply.text, reply.thinking, reply.calls, reply.usage, reply.extra)
    back = log.decode(log.encode(event), type=ModelReplied)
    return Assistant(back.agent, back.text, back.thinking, back.calls, back.extra)


def bare(part: ModelResponsePart) -> tuple[Any, ...]:
    """A part without the name of its provider, which says nothing where there is nothing of the provider's."""
    match part:
        case ToolCallPart():
            return "call", part.tool_name, part.args_as_dict(), part.tool_call_id, part.id, part.provider_details
        case ThinkingPart():
            return "thinking", part.content, part.id, part.signature, part.provider_details
        case TextPart():
            return "text", part.content, part.id, part.provider_details
        case _:
            raise AssertionError(part)


def empty(part: ModelResponsePart) -> bool:
    return isinstance(part, TextPart) and not part.content and not part.id and not part.provider_details


@given(responses())
def test_a_response_comes_back_from_the_log_as_its_provider_gave_it(response: ModelResponse):
    messages = history_for([User("Hello"), remembered(response)], "a", ("openai",))
    back = [part for message in messages if isinstance(message, ModelResponse) for part in message.parts]
    assert [bare(part) for part in back if not empty(part)] == [
        bare(part) for part in response.parts if not empty(part)
    ]


@given(responses())
def test_to_another_provider_it_is_text_and_calls(response: ModelResponse):
    message = remembered(response)
    messages = history_for([User("Hello"), message], "a", ("anthropic",))
    parts = [part for each in messages if isinstance(each, ModelResponse) for part in each.parts]
    assert "".join(part.content for part in parts if isinstance(part, TextPart)) == message.text
    calls = [part for part in parts if isinstance(part, ToolCallPart)]
    assert [(part.tool_name, part.args_as_dict()) for part in calls] == [(c.name, c.args) for c in message.calls]
    assert not any(part.id or part.provider_details for part in calls)


AGENTS = st.sampled_from(["a", "b", "c"])
CALLS = st.lists(st.builds(Call, st.sampled_from(["1", "2.0", "x"]), NAMES, ARGS), max_size=3).map(
    lambda calls: tuple({call.id: call for call in calls}.values())
)


@st.composite
def threads(draw: st.DrawFn) -> list[Message]:
    """Whole threads, and ones from which something was left out."""
    thread: list[Message] = []
    for _ in range(draw(st.integers(0, 6))):
        agent = draw(AGENTS)
        match draw(st.sampled_from(["user", "note", "turn", "result"])):
            case "user":
                thread.append(User(draw(TEXTS), draw(AGENTS)))
            case "note":
                thread.append(Note(draw(TEXTS), agent))
            case "turn":
                turn = Assistant(agent, draw(TEXTS), draw(TEXTS), draw(CALLS))
                thread += [turn, *(ToolResult(call.id, call.name, agent, draw(TEXTS)) for call in turn.calls)]
            case _:
                thread.append(ToolResult(draw(WORDS), draw(NAMES), agent, draw(TEXTS)))
    return thread


@given(threads())
def test_every_call_has_exactly_one_result_in_call_order(thread: list[Message]):
    messages = history_for(thread, "a", ())
    for index, message in enumerate(messages):
        if isinstance(message, ModelResponse):
            calls = [(part.tool_name, part.tool_call_id) for part in message.parts if isinstance(part, ToolCallPart)]
            assert returns(messages[index + 1]) == calls
            assert message.parts
    answered = sum(len(returns(message)) for message in messages)
    assert answered == sum(len(turn.calls) for turn in thread if isinstance(turn, Assistant) and turn.agent == "a")


@given(threads())
def test_responses_and_requests_take_turns_and_the_last_word_is_not_the_models(thread: list[Message]):
    kinds = [type(message) for message in history_for(thread, "a", ())]
    assert kinds[-1] is ModelRequest
    assert (ModelRequest, ModelRequest) not in pairwise(kinds)


@given(threads())
def test_only_the_readers_own_turns_are_native_and_all_others_are_quoted(thread: list[Message]):
    messages = history_for(thread, "a", ())
    parts = [part for message in messages if isinstance(message, ModelResponse) for part in message.parts]
    said = [part.content for part in parts if isinstance(part, TextPart)]
    assert said == [turn.text for turn in thread if isinstance(turn, Assistant) and turn.agent == "a" and turn.text]
    prompt = "\n".join(prompts(messages))
    quotation = re.sub(r"^> \[\[team\d*: said\]\] ", "> ", prompt, flags=re.M)
    for turn in thread:
        if isinstance(turn, User):
            assert turn.text in prompt
        elif isinstance(turn, Assistant) and turn.agent != "a":
            assert all(f"> {line}" in quotation for line in turn.text.splitlines())


@given(st.text(max_size=30), st.text(max_size=30))
def test_nothing_that_an_agent_says_can_end_its_quotation(text: str, result: str):
    turn = Assistant("b", text, calls=(Call("1", "look", malformed=text),))
    [prompt] = prompts(history_for([User("Hello"), turn, ToolResult("1", "look", "b", result)], "a", ()))
    head, *quotation, end = prompt.removeprefix("Hello\n\n").splitlines()
    assert re.fullmatch(r"\[\[team\d*: quotes b\]\]", head)
    assert end == head.replace("quotes b", "end")
    assert all(line.startswith("> ") for line in quotation)


def test_an_empty_thread_still_asks_for_something():
    assert prompts(history_for([], "a", ())) == [CONTINUE]


def returns(message: ModelMessage) -> list[tuple[str, str]]:
    return [(part.tool_name, part.tool_call_id) for part in message.parts if isinstance(part, ToolReturnPart)]


def prompts(messages: Sequence[ModelMessage]) -> list[str]:
    parts = [part for message in messages for part in message.parts if isinstance(part, UserPromptPart)]
    return [part.content for part in parts if isinstance(part.content, str)]
