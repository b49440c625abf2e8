"""One call of a model: suspended and empty responses, errors, prices, clients and event loops."""

import asyncio
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace
from pydantic_ai.exceptions import ModelHTTPError, ModelRateLimitError, UnexpectedModelBehavior, UserError
from pydantic_ai.messages import ModelResponse, ModelResponsePart, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models import Model
from pydantic_ai.models.fallback import FallbackModel as TheirFallback
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.usage import RequestUsage

from changeover import Agent, Function, Team, delegate
from changeover.errors import ModelError
from changeover.messages import Assistant, Call, Reply, User
from changeover.models import Usage
from changeover.models.provider import PydanticAIModel
from changeover.models.provider_errors import model_error
from changeover.models.response import MOST_SEGMENTS
from changeover.relay.stream import TextDelta, ThinkingDelta
from changeover.testing import ScriptedModel, delegates, says
from tests.models.aimock import Server
from tests.models.provider_script import scene
from tests.models.stand_ins import Told, request

ASKS = pytest.mark.parametrize("streamed", [False, True])


def said(text: str, state: Any = "complete", **about: Any) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)], state=state, usage=RequestUsage(input_tokens=10), **about)


async def asked(told: Told, streamed: bool) -> Reply:
    model = PydanticAIModel(lambda: told)
    if not streamed:
        return await model.reply(request())
    *_, reply = [piece async for piece in model.stream(request())]
    assert isinstance(reply, Reply)
    return reply


@ASKS
async def test_a_suspended_response_is_continued_in_the_same_call(streamed: bool):
    told = Told(said("One.", "suspended", provider_response_id="r1"), said("Two.", provider_response_id="r2"))
    reply = await asked(told, streamed)
    assert reply.text == "One.\n\nTwo."
    assert (reply.usage.input_tokens, reply.usage.requests) == (20, 2)
    assert isinstance(told.asked[1][-1], ModelResponse)


@ASKS
async def test_a_job_that_is_looked_at_again_is_the_same_job_further_on(streamed: bool):
    told = Told(said("One", "suspended", provider_response_id="r"), said("One and two.", provider_response_id="r"))
    reply = await asked(told, streamed)
    assert (reply.text, reply.usage.input_tokens, reply.usage.requests) == ("One and two.", 10, 1)


@ASKS
async def test_a_response_that_is_suspended_for_ever_is_given_up_and_called_off(streamed: bool):
    told = Told(*(said("On.", "suspended", provider_response_id=str(n)) for n in range(MOST_SEGMENTS + 1)))
    with pytest.raises(ModelError, match="suspended again and again"):
        await asked(told, streamed)
    assert len(told.cancelled) == 1


@ASKS
async def test_a_job_whose_continuation_fails_is_called_off(streamed: bool):
    first = said("One.", "suspended", provider_response_id="r")
    told = Told(first, ModelHTTPError(500, "told"))
    with pytest.raises(ModelError, match="answered 500"):
        await asked(told, streamed)
    assert told.cancelled == [first]


async def test_parts_of_a_text_read_the_same_in_pieces_and_whole():
    first: list[ModelResponsePart] = [ThinkingPart("Hm."), TextPart("One."), ThinkingPart("So.")]
    parts = [*first, TextPart(""), TextPart("Two.")]
    pieces = [piece async for piece in PydanticAIModel(lambda: Told(ModelResponse(parts=parts))).stream(request())]
    reply = pieces[-1]
    assert isinstance(reply, Reply)
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextDelta)) == reply.text == "One.\n\nTwo."
    assert "".join(piece.text for piece in pieces if isinstance(piece, ThinkingDelta)) == reply.thinking == "Hm.\n\nSo."


@pytest.mark.parametrize(
    ("args", "call"),
    [
        ('{"n": 1}', Call("1", "look", {"n": 1})),
        ({"n": 1}, Call("1", "look", {"n": 1})),
        (None, Call("1", "look")),
        ("", Call("1", "look")),
        ('{"n": 1', Call("1", "look", malformed='{"n": 1')),
        ("[1]", Call("1", "look", malformed="[1]")),
        ('{"n": NaN}', Call("1", "look", malformed='{"n": NaN}')),
    ],
)
async def test_arguments_are_an_object_or_malformed(args: Any, call: Call):
    reply = await asked(Told(ModelResponse(parts=[ToolCallPart("look", args, "1")])), False)
    assert reply.calls == (call,)


@ASKS
@pytest.mark.parametrize(("reason", "words"), [("content_filter", "content filter"), ("length", "used up max_tokens")])
async def test_a_model_that_was_silenced_is_told_of_and_not_asked_again(streamed: bool, reason: Any, words: str):
    with pytest.raises(ModelError, match=words) as caught:
        await asked(Told(ModelResponse(parts=[], finish_reason=reason)), streamed)
    assert not caught.value.retryable


async def test_a_model_may_have_nothing_to_say():
    assert (await asked(Told(ModelResponse(parts=[], finish_reason="stop")), False)).text == ""


async def test_the_retries_of_the_client_are_switched_off():
    told = Told(said("Hi"))
    await PydanticAIModel(lambda: told).reply(request(temperature=0.5, request_timeout=60))
    assert told.settings_given == [{"temperature": 0.5, "max_retries": 0}]


@pytest.mark.parametrize(
    ("error", "retryable", "wait", "words"),
    [
        (ModelHTTPError(503, "m", {"error": {"message": "busy"}}), True, None, "p:m answered 503: busy"),
        (ModelHTTPError(409, "m", "again"), True, None, "p:m answered 409: again"),
        (ModelHTTPError(418, "m", {"message": "teapot"}), False, None, "p:m answered 418: teapot"),
        (ModelHTTPError(418, "m", {"Error": {"Message": "teapot"}}), False, None, "p:m answered 418: teapot"),
        (ModelHTTPError(418, "m", {"Error": {"Message": "", "Code": "Tea"}}), False, None, "p:m answered 418: Tea"),
        (ModelRateLimitError("m", "slow", retry_after=7), True, 7, "p:m: slow (it is asked too often"),
        (
            ModelRateLimitError("m", "slow", retry_after=121),
            False,
            121,
            "it asks to wait 121 s",
        ),
        (UnexpectedModelBehavior("odd"), True, None, "p:m: odd (its answer could not be read)"),
        (UserError("not so"), False, None, "p:m: not so"),
        (ConnectionResetError("gone"), True, None, "p:m: ConnectionResetError: gone"),
        (KeyError(), True, None, "p:m: KeyError"),
    ],
)
def test_an_error_names_the_model_the_cause_and_whether_a_retry_may_help(
    error: Exception, retryable: bool, wait: float | None, words: str
):
    told = model_error(error, "p:m", "a")
    assert (told.retryable, told.retry_after, told.agent) == (retryable, wait, "a")
    assert words in str(told)


async def test_a_fallback_of_theirs_is_told_in_our_words_and_gets_its_signatures_back():
    failing = (Told(ModelHTTPError(500, "one", "down")), Told(ModelHTTPError(401, "two", "locked")))
    with pytest.raises(ModelError, match=r"one answered 500: down.*; two answered 401: locked") as caught:
        await PydanticAIModel(lambda: TheirFallback(*failing)).reply(request())
    assert caught.value.retryable
    thought = ThinkingPart("Hm.", signature="signed", provider_name="stand-in")
    told = Told(
        ModelResponse(parts=[thought, TextPart("So.")], provider_name="stand-in"),
        ModelResponse(parts=[TextPart("Hi")], provider_name="stand-in"),
    )
    model = PydanticAIModel(lambda: TheirFallback(told))
    first = await model.reply(request())
    await model.reply(request(User("Hello"), Assistant("a", first.text, first.thinking, (), first.extra), User("And?")))
    assert [part for message in told.asked[1] for part in message.parts if isinstance(part, ThinkingPart)] == [thought]


async def test_a_client_that_could_not_be_opened_is_tried_anew():
    told = Told(said("Hi"))
    made: list[Model | Exception] = [told, UserError("no key any more"), told]

    def make() -> Model:
        each = made.pop(0)
        if isinstance(each, Exception):
            raise each
        return each

    model = PydanticAIModel(make)
    model.clients._spare = None
    with pytest.raises(ModelError, match="no key any more"):
        await model.reply(request())
    assert (await model.reply(request())).text == "Hi"


@pytest.mark.parametrize(
    ("about", "cost"),
    [
        ({"model_name": "gpt-4o", "provider_name": "openai", "usage": RequestUsage(input_tokens=1000)}, 0.0025),
        ({"model_name": "gpt-4o", "provider_name": "openai"}, None),
        ({"model_name": "of-our-own", "provider_name": "openai", "usage": RequestUsage(input_tokens=1000)}, None),
        ({"model_name": "gpt-4o", "provider_name": "nobody", "usage": RequestUsage(input_tokens=1000)}, None),
        ({"usage": RequestUsage(input_tokens=1000)}, None),
        ({"usage": RequestUsage(cost=Decimal("0.5"))}, 0.5),
    ],
)
async def test_a_price_is_known_or_none_and_never_made_up(about: dict[str, Any], cost: float | None):
    reply = await asked(Told(ModelResponse(parts=[TextPart("Hi")], **about)), False)
    assert reply.usage.cost == cost


def test_an_unknown_price_is_none_and_makes_a_sum_unknown():
    known, unknown = Usage(1, 1, 1, 0.5), Usage(1, 1, 1)
    assert (known + known).cost == 1.0
    assert (known + Usage()).cost == (Usage() + known).cost == 0.5
    assert (known + unknown).cost is (unknown + known).cost is None
    assert (Usage() + Usage()).cost is None


async def test_the_cost_of_a_run_is_the_cost_of_its_calls_with_those_of_delegates():
    def priced(reply: Reply, cost: float | None) -> Reply:
        return replace(reply, usage=Usage(10, 1, 1, cost))

    for last, cost in ((0.25, 1.0), (None, None)):
        script = {
            "a": [priced(delegates("b", "Look it up"), 0.5), priced(says("Done."), last)],
            "b": [priced(says("Found."), 0.25)],
        }
        team = Team([Agent("a", handoffs=[delegate("b")]), Agent("b")], model=ScriptedModel(script))
        result = await team.run("Hello")
        assert result.cost == result.ledger.cost == result.usage.cost == cost
    quiet = await Team([Function("f", lambda ctx: "Hi")]).run("Hello")
    assert quiet.cost == quiet.ledger.cost == 0.0


def test_one_team_works_on_one_loop_after_the_other(server: Server, providers: None):
    team = Team([Agent("a", model="openai:gpt-5")])

    async def once() -> str:
        try:
            return (await team.run(scene("text", "responses", "plain"))).output
        finally:
            await team.close()

    assert [asyncio.run(once()) for _ in range(3)] == ["Good morning."] * 3
    assert team.run_sync(scene("text", "responses", "plain")).output == "Good morning."
    asyncio.run(team.close())


def test_a_model_object_works_on_one_loop_after_the_other(server: Server, providers: None):
    team = Team([Agent("a", model=OpenAIChatModel("gpt-4o"))])

    async def once() -> str:
        result = await team.run(scene("text", "chat", "plain"))
        await team.close()
        return result.output

    assert [asyncio.run(once()) for _ in range(3)] == ["Good morning."] * 3


async def test_concurrent_first_requests_share_a_client(server: Server, providers: None, opened: Callable[..., Team]):
    team = opened([Agent("a", model="openai:gpt-5")])
    results = await asyncio.gather(*(team.run(scene("text", "responses", "plain")) for _ in range(5)))
    assert {result.output for result in results} == {"Good morning."}
