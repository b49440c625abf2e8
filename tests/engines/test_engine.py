"""LocalEngine: it survives a failing log, shares the log, records every outcome once, and its turns cost the same."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, ValuesView
from typing import Any

import pytest

from changeover import Agent, RunResult, Team, tool
from changeover.engines.local.conversation import Conversation
from changeover.engines.local.engine import LocalEngine
from changeover.errors import EngineError
from changeover.messages import Message, User
from changeover.relay.events import Entry, Event, HandoffAccepted, ModelReplied, RunCompleted, ToolFinished, UserSpoke
from changeover.relay.inputs.requests import Say
from changeover.relay.ports.world import World
from changeover.relay.run import Outcome
from changeover.relay.state import State
from changeover.stores.memory.log import MemoryLog
from changeover.testing import Reply, ScriptedModel, assert_valid_history, calls, hands_off, says
from changeover.tools.tool import ToolDefinition
from tests.relay.world import a_world, an_engine, dispatcher_of

SCRIPT = {
    "triage": [calls(("look", {})), hands_off("billing", "x")],
    "billing": [calls(("look", {}), ("look", {})), says("Done."), says("Bye."), says("Really.")],
}


class BrokenLog(MemoryLog):
    """A log that refuses what `refuses` says, until it is mended."""

    def __init__(self, refuses: Callable[[Entry], bool]) -> None:
        super().__init__()
        self.refuses = refuses

    async def append(self, entry: Entry, *rest: Any, **named: Any) -> None:
        if self.refuses(entry):
            raise EngineError("the disk is full")
        await super().append(entry, *rest, **named)


def look() -> str:
    """Look."""
    return "seen"


def the_world(model: ScriptedModel | None = None) -> World:
    return a_world([Agent("triage", tools=[look]), Agent("billing", tools=[look])], model or ScriptedModel(SCRIPT))


async def say(engine: LocalEngine, text: str, key: str = "") -> RunResult:
    async with asyncio.timeout(2):
        return await engine.result(Say("c", UserSpoke(text), key))


async def recorded(log: MemoryLog) -> list[Event]:
    return [event for entry in await log.read("c") for event in entry.events]  # type: ignore[misc]


def holds(kind: type) -> Callable[[Entry], bool]:
    return lambda entry: any(isinstance(event, kind) for event in entry.events)


def never(entry: Entry) -> bool:
    return False


@pytest.mark.parametrize("kind", [UserSpoke, ModelReplied, ToolFinished, HandoffAccepted, RunCompleted])
async def test_whoever_waits_is_told_when_the_log_fails_and_the_conversation_goes_on_afterwards(
    kind: type, caplog: pytest.LogCaptureFixture
):
    log = BrokenLog(holds(kind))
    engine = an_engine(log, the_world())
    with pytest.raises(EngineError, match="the disk is full"):
        await say(engine, "hello", "one")
    log.refuses = never
    assert (await say(engine, "hello?")).output == ("Done." if kind is UserSpoke else "Bye.")
    if kind is not UserSpoke:
        assert (await say(engine, "hello", "one")).output == "Done."
    await engine.close()
    assert len([event for event in await recorded(log) if isinstance(event, HandoffAccepted)]) == 1
    assert all(record.levelno == logging.ERROR for record in caplog.records)


async def test_a_log_that_fails_again_and_again_is_asked_again_with_every_message():
    log = BrokenLog(holds(ModelReplied))
    engine = an_engine(log, the_world())
    for key in ("one", "two", "one"):
        with pytest.raises(EngineError):
            await say(engine, "hello", key)
    log.refuses = never
    assert (await say(engine, "hello", "two")).output == "Bye."
    assert (await say(engine, "hello", "one")).output == "Done."
    await engine.close()


async def test_a_log_that_cannot_be_read_is_told_to_whoever_speaks():
    class Unreadable(MemoryLog):
        broken = True

        async def read(self, *asked: Any, **named: Any) -> list[Entry]:
            if self.broken:
                raise EngineError("no such table")
            return await super().read(*asked, **named)

    log = Unreadable()
    engine = an_engine(log, the_world())
    with pytest.raises(EngineError, match="no such table"):
        await say(engine, "hello")
    log.broken = False
    assert (await say(engine, "hello")).output == "Done."
    await engine.close()


async def test_whoever_waits_is_told_when_the_engine_is_closed():
    async def never_answers(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        await asyncio.sleep(60)
        return says("never")

    engine = an_engine(MemoryLog(), the_world(ScriptedModel(never_answers)))
    answer = asyncio.ensure_future(engine.result(Say("c", UserSpoke("hello"))))
    await asyncio.sleep(0.01)
    await engine.close()
    with pytest.raises((EngineError, asyncio.CancelledError)):
        await asyncio.wait_for(answer, 10)


def counting(effects: list[str]) -> World:
    """A world whose only agent counts what it does, and answers what it was asked."""

    @tool
    async def count(number: str) -> str:
        effects.append(number)
        await asyncio.sleep(0)
        return number

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        last = messages[-1]
        if isinstance(last, User):
            return calls(("count", {"number": last.text}))
        return says(f"An answer to {last.text}.")

    return a_world([Agent("solo", tools=[count])], ScriptedModel(play, latency=0.001))


async def test_two_engines_on_one_log_record_every_outcome_once():
    log, effects = MemoryLog(), list[str]()
    engines = [an_engine(log, counting(effects)) for _ in range(2)]
    texts = [str(number) for number in range(12)]
    results = await asyncio.gather(*(say(engines[number % 2], text) for number, text in enumerate(texts)))
    assert [result.output for result in results] == [f"An answer to {text}." for text in texts]
    events = await recorded(log)
    assert Counter(
        type(event) for event in events if isinstance(event, ModelReplied | ToolFinished | RunCompleted)
    ) == {
        ModelReplied: 24,
        ToolFinished: 12,
        RunCompleted: 12,
    }
    assert Counter(event.text for event in events if isinstance(event, UserSpoke)) == Counter(texts)
    assert set(effects) == set(texts)
    for engine in engines:
        await engine.close()


async def test_the_same_key_said_to_two_engines_is_one_run():
    log, effects = MemoryLog(), list[str]()
    engines = [an_engine(log, counting(effects)) for _ in range(2)]
    results = await asyncio.gather(*(say(engine, "one", "k") for engine in engines))
    assert [result.output for result in results] == ["An answer to one."] * 2
    assert len({result.run_id for result in results}) == 1
    assert len([event for event in await recorded(log) if isinstance(event, UserSpoke)]) == 1
    for engine in engines:
        await engine.close()


@pytest.mark.parametrize("kept", range(1, 8))
async def test_wherever_a_log_ends_a_new_engine_takes_it_up_and_ends_it_the_same(kept: int):
    whole, cut, model = MemoryLog(), BrokenLog(never), ScriptedModel(SCRIPT)
    first = an_engine(whole, the_world())
    expected = await say(first, "hello", "k")
    await first.close()
    appends = iter(range(100))
    cut.refuses = lambda entry: next(appends) >= kept
    dying = an_engine(cut, the_world())
    if kept < len(await whole.read("c")):
        with pytest.raises(EngineError):
            await say(dying, "hello", "k")
    else:
        await say(dying, "hello", "k")
    await dying.close()
    assert len(await cut.read("c")) == min(kept, len(await whole.read("c")))
    cut.refuses = never
    second = an_engine(cut, the_world(model))
    await second.take_up()
    result = await say(second, "hello", "k")
    await second.close()
    assert (result.output, result.handoff_chain) == (expected.output, expected.handoff_chain)
    assert await recorded(cut) == await recorded(whole)
    for request in model.requests:
        assert_valid_history(request)


class FromTheEnd(dict[int, Outcome]):
    """Outcomes that nobody may go through from the first on."""

    def values(self) -> Any:
        return Backwards(self)

    def __iter__(self) -> Iterator[int]:
        raise AssertionError("all runs of the conversation were gone through")


class Backwards(ValuesView[Outcome]):
    def __init__(self, outcomes: FromTheEnd) -> None:
        self._last = list(dict.values(outcomes))[-1]

    def __iter__(self) -> Iterator[Outcome]:
        raise AssertionError("all runs of the conversation were gone through")

    def __reversed__(self) -> Iterator[Outcome]:
        return iter([self._last])


async def test_the_end_of_a_run_looks_at_no_earlier_one():
    team = Team([Agent("solo")], model=ScriptedModel(lambda agent, messages, tools: says("hello")))
    await team.run("hello", conversation="c")
    live = dispatcher_of(team).conversations.cached("c")
    assert live is not None
    live.state.outcomes = FromTheEnd(live.state.outcomes)
    result = await team.run("hello again", conversation="c")
    assert result.ledger.by_agent["solo"].turns == 1
    await team.close()


async def test_a_caller_that_has_gone_gets_no_report_when_the_team_closes(caplog: pytest.LogCaptureFixture):
    live = Conversation(State("gone"))
    waiting = live.wait(1, asyncio.get_running_loop().create_future())
    live.fail(EngineError("the team was closed"))
    del waiting
    gc.collect()
    assert "never retrieved" not in caplog.text
