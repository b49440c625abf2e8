"""A tool that outlives its time limit: its late result counts for nothing, and the run goes on without it."""

import asyncio
import contextlib
from typing import Any

import pytest

from changeover import Agent, Team, tool
from changeover.errors import EngineError
from changeover.testing import ScriptedModel, calls, says


def team_of(*tools: Any, store: str | None = None) -> Team:
    """An agent that calls its one tool, and answers with what came of it."""

    def play(agent: str, messages: Any, definitions: Any) -> Any:
        return calls((definitions[0].name, {})) if len(messages) == 1 else says(messages[-1].text)

    return Team([Agent("desk", tools=tools)], model=ScriptedModel(play), store=store)


async def test_a_tool_that_swallows_cancellation_times_out_all_the_same(any_store: str | None):
    @tool(timeout=0.05)
    async def stubborn() -> str:
        """Go on although it was cancelled."""
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(10)
        await asyncio.sleep(0.3)
        return "the late result"

    async with team_of(stubborn, store=any_store) as team:
        result = await asyncio.wait_for(team.run("go", conversation="story"), 5)
        assert ("late" in result.output, "0.05" in result.output) == (False, True)
        assert "the late result" not in repr(await team.history("story"))


async def test_a_tool_that_never_ends_holds_up_its_run_no_longer_than_its_timeout():
    stop = asyncio.Event()

    @tool(timeout=0.05)
    async def endless() -> str:
        """Swallow every cancellation."""
        while not stop.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await stop.wait()
        return "the late result"

    running = asyncio.ensure_future(team_of(endless).run("go"))
    done, _ = await asyncio.wait([running], timeout=1)
    stop.set()
    result = await running
    assert (bool(done), "late" in result.output) == (True, False)


async def test_a_tool_that_ends_when_it_is_cancelled_has_timed_out():
    @tool(timeout=0.05)
    async def polite() -> str:
        """Sleep."""
        await asyncio.sleep(10)
        return "never"

    assert "0.05" in (await team_of(polite).run("go")).output


async def test_closing_a_team_waits_for_a_tool_that_cleans_up():
    begun, cleaned = asyncio.Event(), asyncio.Event()

    @tool(timeout=10)
    async def careful() -> str:
        """Clean up."""
        begun.set()
        try:
            await asyncio.sleep(10)
        finally:
            await asyncio.sleep(0.2)
            cleaned.set()
        return "never"

    team = team_of(careful)
    running = asyncio.ensure_future(team.run("go", conversation="story"))
    await begun.wait()
    await team.close()
    assert cleaned.is_set()
    with pytest.raises(EngineError):
        await running


@pytest.mark.parametrize("error", [GeneratorExit("gone"), SystemExit(3), asyncio.CancelledError()], ids=repr)
async def test_a_tool_that_raises_what_is_no_exception_is_told_to_the_model(error: BaseException):
    async def breaks() -> str:
        """Break."""
        raise error

    answer = (await asyncio.wait_for(team_of(breaks).run("go"), 10)).output
    assert type(error).__name__ in answer


class Unspeakable(Exception):
    """An exception that cannot be shown."""

    def __str__(self) -> str:
        raise ValueError("not even this")

    __repr__ = __str__


async def test_a_tool_whose_exception_cannot_be_shown_is_told_to_the_model():
    def breaks() -> str:
        """Break."""
        raise Unspeakable

    assert "Unspeakable" in (await team_of(breaks).run("go")).output
