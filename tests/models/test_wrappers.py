"""LimitedModel and FallbackModel."""

import asyncio
from typing import Any

import pytest

from changeover import Agent, Team
from changeover.errors import MisconfiguredError, ModelError
from changeover.messages import Reply
from changeover.models import LimitedModel
from changeover.models.wrappers import FallbackModel
from changeover.relay.stream import TextDelta
from changeover.testing import ScriptedModel, fails, says
from tests.models.stand_ins import Counting, Failing, request

BUSY = ModelError("busy", retry_after=3.0)
LOCKED = ModelError("locked", retryable=False)


async def test_a_limited_model_answers_only_so_many_at_once():
    counting = Counting()
    team = Team([Agent("a"), Agent("b")], model=LimitedModel(counting, at_once=2))
    results = await asyncio.gather(*(team.run("Hello", agent=agent) for agent in "ab" * 4))
    assert {result.output for result in results} == {"Hi"}
    assert counting.most == 2


async def test_the_limit_holds_for_streams_too():
    counting = Counting()
    limited = LimitedModel(counting, at_once=1)

    async def read_along() -> list[Any]:
        return [piece async for piece in limited.stream(request())]

    read = await asyncio.gather(read_along(), read_along(), limited.reply(request()))
    assert read[0] == [TextDelta("Hi"), Reply(text="Hi")]
    assert counting.most == 1


async def test_a_place_is_free_again_when_a_model_fails():
    limited = LimitedModel(Failing(BUSY), at_once=1)
    for _ in range(3):
        with pytest.raises(ModelError, match="busy"):
            await limited.reply(request())


def test_a_limited_model_may_be_used_on_one_loop_after_the_other():
    team = Team([Agent("a")], model=LimitedModel(Counting(), at_once=1))

    async def both() -> None:
        await asyncio.gather(team.run("Hello"), team.run("Hello"))

    for _ in range(3):
        asyncio.run(both())


@pytest.mark.parametrize("at_once", [0, -1, 1.5, True, None])
def test_a_limit_that_makes_no_sense_is_refused(at_once: Any):
    with pytest.raises(MisconfiguredError, match=r"LimitedModel\(at_once="):
        LimitedModel("openai:gpt-5", at_once=at_once)


async def test_when_a_model_fails_the_next_one_is_asked():
    first, second = ScriptedModel({"a": [fails("busy")]}), ScriptedModel({"a": [says("Hi")]})
    result = await Team([Agent("a")], model=[first, second]).run("Hello")
    assert (result.output, result.ledger.retries) == ("Hi", 0)


async def test_a_stream_falls_back_until_the_first_word():
    fallback = FallbackModel([Failing(BUSY), Counting()])
    assert [piece async for piece in fallback.stream(request())] == [TextDelta("Hi"), Reply(text="Hi")]
    with pytest.raises(ModelError, match="busy"):
        _ = [piece async for piece in FallbackModel([Failing(BUSY, "Hel"), Counting()]).stream(request())]


@pytest.mark.parametrize(
    ("errors", "retryable", "wait"),
    [([LOCKED, LOCKED], False, None), ([LOCKED, BUSY], True, 3.0), ([BUSY, ModelError("down")], True, 0.0)],
)
async def test_when_all_fail_their_errors_are_told_together(
    errors: list[ModelError], retryable: bool, wait: float | None
):
    with pytest.raises(ModelError) as caught:
        await FallbackModel([Failing(error) for error in errors]).reply(request())
    assert str(caught.value) == "; ".join(map(str, errors))
    assert (caught.value.retryable, caught.value.retry_after) == (retryable, wait)


async def test_only_a_model_error_leads_to_the_next_model():
    broken = ScriptedModel({"a": [KeyError("a mistake in the code")]})
    with pytest.raises(KeyError):
        await FallbackModel([broken, Counting()]).reply(request())
