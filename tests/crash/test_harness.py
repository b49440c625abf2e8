"""`crash.survives` passes for a correct team, and finds the faults of broken logs and teams."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from changeover import Agent, Function, RunContext, Team, tool
from changeover.agent.agent import Member
from changeover.errors import KeyConflict
from changeover.messages import Message, ToolResult, User
from changeover.relay.events import Event, ModelReplied, ToolFinished, ToolStarted, Unreadable, UserSpoke
from changeover.relay.ports.log import Log
from changeover.stores.memory.log import MemoryLog
from changeover.stores.sql.log import SqlLog
from changeover.stores.store import Store, open_log
from changeover.stream import RunFinished
from changeover.testing import ManualClock, Reply, ScriptedModel, calls, crash, fails, hands_off, says
from changeover.tools.tool import Tool, ToolDefinition

Tools = Sequence[Tool | Callable[..., object]]


def look() -> str:
    """Look something up."""
    return "seen"


def peek() -> str:
    """Look at something else."""
    return "something else"


@tool(at_most_once=True)
def pay() -> str:
    """Pay the customer."""
    return "paid"


def clerk(ctx: RunContext) -> str:
    """Files what was done."""
    return f"Filed: {ctx.input}"


def recites(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
    """Use every tool once for each message, then answer with their results."""
    if isinstance(messages[-1], User):
        return calls(*((each.name, {}) for each in tools))
    return says(" | ".join(message.text for message in messages if isinstance(message, ToolResult)))


def a_reciter(tools: Tools = (look, pay), **options: Any) -> Team:
    return Team([Agent("solo", tools=tools)], model=ScriptedModel(recites), clock=ManualClock(auto=True), **options)


def an_office() -> Team:
    """Two agents and a function; the first model needs two attempts, and one of the tools moves money."""
    lines = {
        "triage": [
            fails("overloaded"),
            calls(("look", {})),
            hands_off("billing", "charged twice"),
            says("Hello again."),
        ],
        "billing": [calls(("pay", {}), ("look", {})), hands_off("clerk", "it was paid")],
    }
    members: list[Member] = [
        Agent("triage", tools=[look]),
        Agent("billing", tools=[pay, look]),
        Function("clerk", clerk),
    ]
    return Team(members, model=ScriptedModel(lines), clock=ManualClock(auto=True))


async def one_message(team: Team) -> object:
    return await team.run("do it")


async def two_messages(team: Team) -> object:
    first = await team.run("charged twice", conversation="c", context={"order": "17"})
    return first, await team.run("are you there?", conversation="c", agent="triage")


async def the_same_twice(team: Team) -> object:
    first = await team.run("do it", conversation="c")
    return first, await team.run("do it once more", conversation="c")


async def test_a_team_with_tools_retries_a_function_and_two_turns_survives():
    survival = await crash.survives(an_office(), two_messages)
    assert survival.appends >= 8
    assert survival.deaths == 3 * survival.appends
    assert survival.unknown  # it died between paying and knowing it


async def test_a_team_without_at_most_once_tools_is_never_left_in_doubt():
    assert (await crash.survives(a_reciter([look]), one_message)).unknown == 0


async def test_a_scenario_may_stream_and_say_several_things_at_once():
    async def scenario(team: Team) -> object:
        read = [item async for item in team.stream("do it", conversation="a")]
        both = await asyncio.gather(*(team.run("do it", conversation=id) for id in ("b", "c")))
        assert isinstance(read[-1], RunFinished)
        return read[-1].result, *both

    assert (await crash.survives(a_reciter([look]), scenario)).appends >= 9


async def test_a_team_on_a_log_in_a_database_survives(tmp_path: Path):
    numbers, opened = count(), list[SqlLog]()

    def fresh() -> Log:
        opened.append(open_log(Store(f"sqlite:///{tmp_path / f'{next(numbers)}.db'}")))
        return opened[-1]

    try:
        assert (await crash.survives(an_office(), two_messages, open_log=fresh)).unknown
    finally:
        for log in opened:
            await log.close()


async def test_a_rehearsal_leaves_the_log_of_the_team_alone():
    log = MemoryLog()
    await crash.survives(a_reciter(store=log), one_message)
    assert await log.unfinished() == []
    assert log._entries == {}


@contextmanager
def noticed(words: str) -> Iterator[None]:
    """The harness fails, and says this."""
    with pytest.raises(AssertionError, match=words):
        yield


class LifeByLife(MemoryLog):
    """A log that knows when a process starts: it asks what is unfinished. What is wrong with it shows only then."""

    def __init__(self) -> None:
        super().__init__()
        self.lives = 0

    async def unfinished(self, team: str | None = None) -> list[str]:
        self.lives += 1
        if self.lives > 1:
            self.comes_back()
        return await super().unfinished(team)

    def comes_back(self) -> None:
        """What is left of the entries after a restart."""


class LosesTheEnd(LifeByLife):
    """Says that an entry is on the disk before it is: a restart loses the last one, if it is of this kind."""

    kind: type[Event] = ModelReplied

    def comes_back(self) -> None:
        for entries in self._entries.values():
            if isinstance(entries[-1].events[0], self.kind):
                lost = entries.pop()
                del self._causes[lost.conversation, lost.cause]


class LosesIntents(LosesTheEnd):
    """Does not wait for the disk where it matters most: before a tool that must not act twice."""

    kind = ToolStarted


class LosesWhatWasSaid(LifeByLife):
    """Forgets everything when the process starts again."""

    def comes_back(self) -> None:
        self._entries.clear()
        self._causes.clear()
        self._running.clear()


class ForgetsCauses(LifeByLife):
    """Keeps the entries but not their causes, so that messages are recorded again."""

    def comes_back(self) -> None:
        self._causes.clear()


class Distorts(LifeByLife):
    """Gives other entries back, after a restart, than it was given."""

    def comes_back(self) -> None:
        for entries in self._entries.values():
            entries[:] = [replace(entry, events=tuple(map(self.distorted, entry.events))) for entry in entries]

    def distorted(self, event: Event | Unreadable) -> Event | Unreadable:
        raise NotImplementedError


class CutsResults(Distorts):
    """Has a column that is too narrow for what tools say."""

    def distorted(self, event: Event | Unreadable) -> Event | Unreadable:
        return replace(event, text=event.text[:2]) if isinstance(event, ToolFinished) else event


class SwapsResults(Distorts):
    """Gives the results of two calls back under each other's call, once it has both."""

    def comes_back(self) -> None:
        found = [event for entries in self._entries.values() for entry in entries for event in entry.events]
        results = [event for event in found if isinstance(event, ToolFinished)]
        self.swapped = {a.call: b.call for a, b in zip(results, reversed(results), strict=True)}
        super().comes_back()

    def distorted(self, event: Event | Unreadable) -> Event | Unreadable:
        return replace(event, call=self.swapped[event.call]) if isinstance(event, ToolFinished) else event


class MixesUpCalls(Distorts):
    """Gives all calls of a reply the id of the first, so that a model reads an answer too many."""

    def distorted(self, event: Event | Unreadable) -> Event | Unreadable:
        if not isinstance(event, ModelReplied):
            return event
        return replace(event, calls=tuple(replace(call, id=event.calls[0].id) for call in event.calls))


class ChangesTheQuestion(Distorts):
    """Does not give back what the user said as the user said it."""

    def distorted(self, event: Event | Unreadable) -> Event | Unreadable:
        return replace(event, text=event.text.upper()) if isinstance(event, UserSpoke) else event


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (LosesTheEnd, "repeated what was recorded"),
        (LosesIntents, "began an at-most-once tool twice"),
        (LosesWhatWasSaid, "repeated what was recorded"),
        (CutsResults, "the end differs"),
        (SwapsResults, "the end differs"),
        (MixesUpCalls, "several of its calls have the id"),
    ],
)
async def test_a_faulty_log_is_noticed(log: Callable[[], Log], words: str):
    with noticed(words):
        await crash.survives(a_reciter([look, peek] if log is not LosesIntents else [pay]), one_message, open_log=log)


async def test_a_log_that_lets_a_message_be_said_twice_is_noticed():
    with noticed("the end differs"):
        await crash.survives(a_reciter([look]), the_same_twice, open_log=ForgetsCauses)


async def test_a_log_that_changes_a_recorded_text_is_noticed():
    model = ScriptedModel(lambda agent, messages, tools: says(messages[0].text))
    with pytest.raises(KeyConflict, match="was used before, for another input"):
        await crash.survives(Team([Agent("solo")], model=model), one_message, open_log=ChangesTheQuestion)


class Counting:
    """Counts how often it was used since its log was made: a process that repeats something goes on counting."""

    def __init__(self) -> None:
        self.used = 0

    def next(self) -> str:
        self.used += 1
        return f"number {self.used}"

    def fresh(self) -> Log:
        self.used = 0
        return MemoryLog()


async def test_a_model_whose_reply_depends_on_how_often_it_was_asked_is_noticed():
    counting = Counting()
    model = ScriptedModel(lambda agent, messages, tools: says(counting.next()))
    with noticed("the end differs"):
        await crash.survives(Team([Agent("solo")], model=model), one_message, open_log=counting.fresh)


async def test_a_tool_whose_result_depends_on_how_often_it_was_called_is_noticed():
    counting = Counting()
    draw = tool(name="draw")(counting.next)
    with noticed("the end differs"):
        await crash.survives(a_reciter([draw]), one_message, open_log=counting.fresh)


async def test_a_function_whose_answer_depends_on_how_often_it_was_called_is_noticed():
    counting = Counting()
    with noticed("the end differs"):
        team = Team([Function("clerk", lambda ctx: counting.next())])
        await crash.survives(team, one_message, open_log=counting.fresh)


async def test_a_scenario_that_goes_another_way_is_noticed():
    ways = count()

    async def scenario(team: Team) -> object:
        first = await team.run("do it", conversation="c")
        return first if next(ways) else await team.run("do it again", conversation="c")

    with noticed("the scenario took fewer appends|the end differs"):
        await crash.survives(a_reciter([look]), scenario)
