"""Models that misbehave: the run ends with a ModelError that can be shown and recorded, and is not left open."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from changeover import Agent, Limits, Team
from changeover.errors import EconomicLimitExceeded, ModelError
from changeover.testing import ManualClock, Reply, ScriptedModel, Usage, calls, says
from tests.any_store import any_store, postgres, sqlite_file

__all__ = ["any_store", "postgres", "sqlite_file"]


class Raising:
    """A model that raises this, whether it is read along or not."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    async def reply(self, request: Any) -> Reply:
        raise self._error

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        raise self._error
        yield


class Unspeakable(Exception):
    """An exception that cannot be shown."""

    def __str__(self) -> str:
        raise ValueError("not even this")

    __repr__ = __str__


class Hostile(ModelError):
    """One of ours that cannot be shown."""

    def __str__(self) -> str:
        raise ValueError("not even this")


ERRORS: dict[str, BaseException] = {
    "GeneratorExit": GeneratorExit("gone"),
    "StopAsyncIteration": StopAsyncIteration(),
    "an exception whose __str__ raises": Unspeakable(),
    "a ModelError whose __str__ raises": Hostile("x", retryable=False),
}
REPLIES: dict[str, Reply] = {
    "extra that is no JSON": Reply(text="Hello.", extra={"raw": object()}),
    "extra with keys that are no texts": Reply(text="Hello.", extra={"raw": {(1, 2): "x"}}),
    "10**30 tokens": says("Hello.", usage=Usage(10**30, 1, 1)),
    "tokens that are no number": Reply(text="Hello.", usage=Usage("many", 1, 1)),  # type: ignore[arg-type]
}


async def left_open(team: Team) -> str:
    """How the run stands, after the next message was answered or not."""
    finished = [type(each.event).__name__ for each in await team.history("story")]
    return "closed" if {"RunFailed", "RunCompleted"} & set(finished) else f"left open: {finished}"


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_what_a_model_raises_ends_the_run_with_a_model_error(name: str):
    team = Team([Agent("desk")], model=Raising(ERRORS[name]), clock=ManualClock(auto=True))
    with pytest.raises(ModelError):
        await asyncio.wait_for(team.run("hello", conversation="story"), 10)
    assert await left_open(team) == "closed"


@pytest.mark.parametrize("name", REPLIES)
async def test_a_reply_that_cannot_be_recorded_ends_the_run_with_a_model_error(name: str, any_store: str | None):
    model, clock = ScriptedModel(lambda *_: REPLIES[name]), ManualClock(auto=True)
    async with Team([Agent("desk")], model=model, store=any_store, clock=clock) as team:
        with pytest.raises(ModelError):
            await asyncio.wait_for(team.run("hello", conversation="story"), 10)
        assert await left_open(team) == "closed"


@pytest.mark.parametrize("after", [float("nan"), float("inf"), "soon", -1])
async def test_a_model_that_asks_for_an_impossible_pause_is_called_again_after_the_usual_one(after: Any):
    def play(request: Any, *_: Any) -> Reply:
        answers.append(request)
        if len(answers) == 1:
            raise ModelError("busy", retry_after=after)
        return says("Hello.")

    answers: list[Any] = []
    team = Team([Agent("desk")], model=ScriptedModel(play), clock=ManualClock(auto=True))
    assert (await asyncio.wait_for(team.run("hello"), 10)).output == "Hello."


NEGATIVE = {
    "max_tokens": (Usage(-1_000, -1_000, 1), Limits(max_tokens=100)),
    "max_cost": (Usage(1, 1, 1, -5.0), Limits(max_cost=1.0)),
}


@pytest.mark.parametrize("limit", NEGATIVE)
async def test_negative_figures_do_not_give_back_a_budget(limit: str):
    usage, limits = NEGATIVE[limit]

    def look() -> str:
        """Look."""
        return "nothing"

    def play(agent: str, messages: Any, tools: Any) -> Reply:
        if len(messages) == 1:
            return Reply(calls=calls(("look", {})).calls, usage=usage)
        return Reply(calls=calls(("look", {})).calls, usage=Usage(60, 0, 1, 0.6))

    team = Team([Agent("desk", tools=[look])], model=ScriptedModel(play), limits=limits)
    with pytest.raises((EconomicLimitExceeded, ModelError)) as caught:
        await team.run("hello")
    result = caught.value.result
    assert result is not None
    assert (result.ledger.turns <= 3, result.ledger.tokens >= 0, (result.ledger.cost or 0.0) >= 0) == (True, True, True)
