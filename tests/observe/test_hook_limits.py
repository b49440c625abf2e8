"""Hooks cannot hold up a run: each has a time limit, sync ones run in one thread beside the event loop, in order."""

import asyncio
import inspect
import threading
import time
from typing import Any

import pytest

from changeover import Agent, Team, Variable, handoff
from changeover.errors import ChangeoverError
from changeover.stream import Recorded
from changeover.testing import ScriptedModel, hands_off, says

SCRIPT = {"triage": [hands_off("billing", "charged twice", order=7)], "billing": [says("Refunded."), says("Again.")]}


def desk(hooks: dict[str, Any], **options: Any) -> Team:
    """Triage hands over to billing; `hook_timeout` is 5 seconds unless it is given."""
    way = handoff("billing", variables=[Variable("order", "integer")])
    return Team(
        [Agent("triage", handoffs=[way]), Agent("billing")], model=ScriptedModel(SCRIPT), hooks=hooks, **options
    )


async def test_an_async_hook_that_hangs_is_given_up_and_logged(caplog: pytest.LogCaptureFixture):
    async def hangs(record: Recorded) -> None:
        await asyncio.Event().wait()

    async with asyncio.timeout(2):
        result = await desk({"handoff_accepted": hangs}, hook_timeout=0.05).run("hello")
    assert (result.output, "took longer than 0.05 s" in caplog.text) == ("Refunded.", True)


async def test_a_sync_hook_that_hangs_is_given_up_and_logged(caplog: pytest.LogCaptureFixture):
    let_go = threading.Event()
    try:
        async with asyncio.timeout(2):
            hooks = {"handoff_accepted": lambda record: let_go.wait(1.5)}
            result = await desk(hooks, hook_timeout=0.05).run("hello")
    finally:
        let_go.set()
    assert (result.output, "took longer than 0.05 s" in caplog.text) == ("Refunded.", True)


async def test_hooks_get_five_seconds_unless_the_team_says_otherwise():
    assert inspect.signature(Team).parameters["hook_timeout"].default == 5.0


async def test_sync_hooks_run_in_one_thread_of_their_own_in_order():
    seen: list[tuple[int, int]] = []

    def notes(record: Recorded) -> None:
        seen.append((threading.get_ident(), record.seq))

    names = ("user_spoke", "run_started", "handoff_offered", "handoff_accepted", "run_completed")
    async with desk(dict.fromkeys(names, notes)) as team:
        await team.run("hello")
    threads = {thread for thread, _ in seen}
    assert (len(threads), threading.get_ident() in threads) == (1, False)
    assert [seq for _, seq in seen] == sorted(seq for _, seq in seen)
    assert len(seen) == len(names)


async def test_a_slow_sync_hook_does_not_stop_the_event_loop():
    slept: list[bool] = []

    def sleeps(record: Recorded) -> None:
        time.sleep(1.0)
        slept.append(True)

    async def longest_pause() -> float:
        longest, last = 0.0, time.perf_counter()
        while not slept:
            await asyncio.sleep(0.005)
            longest, last = max(longest, time.perf_counter() - last), time.perf_counter()
        return longest

    pausing = asyncio.ensure_future(longest_pause())
    async with desk({"handoff_accepted": sleeps}) as team:
        await team.run("hello")
        assert await pausing < 0.9


async def test_a_hook_that_fails_is_logged_and_changes_nothing(caplog: pytest.LogCaptureFixture):
    def breaks(record: Recorded) -> None:
        raise ValueError("broken hook")

    async with desk({"handoff_accepted": breaks}) as team:
        assert (await team.run("hello")).output == "Refunded."
    assert "broken hook" in caplog.text


async def test_agent_handoff_receives_the_handoff(any_store: str | None):
    seen: list[Any] = []
    async with desk({"agent_handoff": seen.append}, store=any_store) as team:
        await team.run("hello")
    [record] = seen
    made = record.handoff
    assert (made.sender, made.receiver, made.message, made.variables) == (
        *("triage", "billing", "charged twice", {"order": 7}),
    )
    assert (bool(record.id), made.mode, made.state) == (True, "transfer", "WORKING")


async def test_a_hook_that_runs_its_own_conversation_is_refused(caplog: pytest.LogCaptureFixture):
    refused: list[ChangeoverError] = []

    async def asks(record: Recorded) -> None:
        try:
            await team.run("and?", conversation=record.conversation)
        except ChangeoverError as error:
            refused.append(error)
            raise

    team = desk({"handoff_accepted": asks})
    async with asyncio.timeout(1.5):
        result = await team.run("hello", conversation="story")
    assert (result.output, len(refused)) == ("Refunded.", 1)
    assert "a hook cannot run its own conversation 'story'" in str(refused[0])
    await team.close()


async def test_a_hook_may_run_another_conversation():
    ran: list[str] = []

    async def asks(record: Recorded) -> None:
        if record.conversation == "story":
            ran.append((await team.run("and?", conversation="other", agent="billing")).output)

    async with desk({"handoff_accepted": asks}) as team:
        await team.run("hello", conversation="story")
    assert ran == ["Refunded."]
