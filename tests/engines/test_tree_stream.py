"""Whoever reads a tree along reads all of it once and in order, however many work at once."""

import asyncio
import os
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from functools import partial
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import msgspec
import pytest

from changeover import Agent, Limits, RunResult, Team, delegate, tool
from changeover.errors import EconomicLimitExceeded, EngineError, MaxHandoffsExceededError, UnknownAgentError
from changeover.messages import Message, ToolResult
from changeover.observe.hooks import EVENTS
from changeover.protocol import DelegateResult
from changeover.relay.events import (
    Entry,
    HandoffReturned,
    ModelReplied,
    RunCompleted,
    RunFailed,
    ToolFinished,
    UserSpoke,
)
from changeover.relay.ports.log import Circuits, Head, Reserve
from changeover.relay.ports.queue import Claim
from changeover.relay.projection.rows import Rows
from changeover.relay.stream import StreamItem
from changeover.stores.memory.log import MemoryLog
from changeover.stream import Recorded, RunFinished, TextDelta, ThinkingDelta
from changeover.testing import Reply, ScriptedModel, calls, delegates, says
from changeover.tools.tool import ToolDefinition

STRESS = "CHANGEOVER_STRESS" in os.environ
MANY = 20
ENOUGH = Limits(max_handoffs=2 * MANY, max_turns=20 * MANY)


async def look(part: int) -> str:
    """Look at one part; some take longer than others."""
    await asyncio.sleep(part * 7 % 5 / 1_000)
    return f"seen {part}"


def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
    """The boss has everybody look, and sums up; a worker looks, and says what it saw."""
    last = messages[-1]
    if agent == "boss":
        if isinstance(last, ToolResult):
            return says(f"{len(results(messages))} came back.")
        return calls(*(delegates("worker", f"{part}") for part in range(MANY)), text="All of you, look!")
    if isinstance(last, ToolResult):
        return says(f"I have {last.text} with my own eyes.", thinking="What was it?")
    return calls(("look", {"part": int(last.text)}), text="Let me see.")


def results(messages: Sequence[Message]) -> list[ToolResult]:
    """The results of the last turn, in order."""
    turn: list[ToolResult] = []
    for message in reversed(messages):
        if not isinstance(message, ToolResult):
            break
        turn.insert(0, message)
    return turn


def a_team(store: str | None, **options: Any) -> Team:
    members = [Agent("boss", handoffs=[delegate("worker")]), Agent("worker", tools=[look])]
    return Team(members, model=ScriptedModel(play), store=store, **{"limits": ENOUGH, **options})


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    return f"sqlite:///{tmp_path / 'store.db'}" if request.param == "sqlite" else None


@pytest.fixture
async def team(store: str | None) -> AsyncIterator[Team]:
    team = a_team(store)
    yield team
    await team.close()


async def read(team: Team, text: str = "look", **options: Any) -> list[StreamItem]:
    return [item async for item in team.stream(text, conversation="c", **options)]


def recorded(items: Sequence[StreamItem]) -> list[Recorded]:
    return [item for item in items if isinstance(item, Recorded)]


async def test_the_stream_of_a_tree_has_every_event_of_everybody_once_and_in_order(team: Team):
    items = await read(team)
    events = recorded(items)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert events == await team.history("c")
    ends = Counter(type(event.event) for event in events)
    assert (ends[RunCompleted], ends[ToolFinished], ends[HandoffReturned]) == (MANY + 1, MANY, MANY)
    assert {event.conversation for event in events} == {"c", *(f"c/3.{part}" for part in range(MANY))}


async def test_the_stream_of_a_tree_ends_with_the_result_of_the_root(team: Team):
    items = await read(team)
    assert [isinstance(item, RunFinished) for item in items] == [False] * (len(items) - 1) + [True]
    finished = items[-1]
    assert isinstance(finished, RunFinished)
    assert (finished.result.output, finished.result.final_agent) == (f"{MANY} came back.", "boss")
    assert len(finished.result.handoff_chain) == MANY
    assert finished.result.ledger.turns == 2 + 2 * MANY
    last = recorded(items)[-1]
    assert (last.conversation, type(last.event)) == ("c", RunCompleted)


@pytest.mark.parametrize("kind", [TextDelta, ThinkingDelta])
async def test_the_pieces_of_everybody_joined_are_what_each_said(team: Team, kind: type[TextDelta | ThinkingDelta]):
    items = await read(team)
    pieces: defaultdict[str, str] = defaultdict(str)
    replies: defaultdict[str, str] = defaultdict(str)
    for item in items:
        if isinstance(item, kind):
            pieces[f"{item.conversation} {item.agent}"] += item.text
        elif isinstance(item, Recorded) and isinstance(reply := item.event, ModelReplied):
            said = reply.text if kind is TextDelta else reply.thinking
            replies[f"{item.conversation} {reply.agent}"] += said
    assert pieces == {who: said for who, said in replies.items() if said}
    assert len(pieces) == (MANY + 1 if kind is TextDelta else MANY)


async def test_a_piece_comes_before_the_reply_that_it_belongs_to(team: Team):
    pieces: dict[str, int] = {}
    replies: dict[str, int] = {}
    for place, item in enumerate(await read(team)):
        if isinstance(item, TextDelta):
            pieces.setdefault(item.conversation, place)
        elif isinstance(item, Recorded) and isinstance(item.event, ModelReplied):
            replies.setdefault(item.conversation, place)
    assert pieces.keys() == replies.keys()
    assert all(pieces[conversation] < replies[conversation] for conversation in pieces)
    assert len(pieces) == MANY + 1


async def test_the_stream_of_a_later_run_has_that_run_only(team: Team):
    first = recorded(await read(team))
    second = recorded(await read(team, "look again"))
    assert isinstance(second[0].event, UserSpoke)
    assert [event.seq for event in second] == list(range(len(first) + 1, len(first) + len(second) + 1))
    assert first + second == await team.history("c")
    below = [{event.conversation for event in events} - {"c"} for events in (first, second)]
    assert [len(each) for each in below] == [MANY, MANY]
    assert below[0].isdisjoint(below[1])


async def test_the_history_of_a_delegate_is_its_own(team: Team):
    events = recorded(await read(team))
    for part in range(MANY):
        own = await team.history(f"c/3.{part}")
        assert own == [event for event in events if event.conversation == f"c/3.{part}"]
        assert [event.position for event in own] == list(range(len(own)))
        spoken = [event.event.text for event in own if isinstance(event.event, UserSpoke)]
        assert spoken == [f"{part}"]


async def test_hooks_are_called_once_for_each_event_of_a_tree(store: str | None):
    noticed: list[Recorded] = []

    async def notice(record: Recorded) -> None:
        await asyncio.sleep(0)
        noticed.append(record)

    team = a_team(store, hooks=dict.fromkeys(EVENTS, notice))
    await team.run("look", conversation="c")
    history = await team.history("c")
    await team.close()
    assert sorted(noticed, key=lambda record: record.seq) == history
    for conversation in {record.conversation for record in history}:
        own = [record.position for record in noticed if record.conversation == conversation]
        assert own == list(range(len(own)))


async def test_the_hooks_of_a_run_that_is_read_along_are_called_once_too(store: str | None):
    noticed: list[Recorded] = []
    team = a_team(store, hooks=dict.fromkeys(EVENTS, noticed.append))
    items = await read(team)
    await team.close()
    assert sorted(noticed, key=lambda record: record.seq) == recorded(items)


async def test_hooks_hear_of_a_delegate_that_was_called_back_before_it_began():
    noticed: list[Recorded] = []
    limits = Limits(max_handoffs=MANY - 1)
    team = a_team(None, limits=limits, hooks=dict.fromkeys(EVENTS, noticed.append))
    with pytest.raises(MaxHandoffsExceededError):
        await team.run("look", conversation="c")
    assert sorted(noticed, key=lambda record: record.seq) == await team.history("c")


class Lingering(MemoryLog):
    """A log that takes its time to say that a delegate's first entry is committed."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = asyncio.Event()

    async def append(
        self,
        entry: Entry,
        head: Head | None,
        reserve: Reserve | None = None,
        claim: Claim | None = None,
        circuits: Circuits | None = None,
        rows: Rows | None = None,
    ) -> None:
        await super().append(entry, head, reserve, claim, circuits, rows)
        if entry.conversation != entry.root and entry.position == 0:
            self.opened.set()
            await asyncio.sleep(0.02)


async def test_hooks_hear_of_a_delegate_that_was_called_back_while_it_began():
    noticed: list[Recorded] = []
    members = [Agent("boss", handoffs=[delegate("worker")]), Agent("worker", tools=[look])]
    hooks = dict.fromkeys(EVENTS, noticed.append)
    team = Team(members, model=ScriptedModel(play), limits=ENOUGH, store=(log := Lingering()), hooks=hooks)
    run = asyncio.create_task(team.run("look", conversation="c"))
    await log.opened.wait()
    assert await team.cancel("c")
    assert (await run).status == "cancelled"
    assert sorted(noticed, key=lambda record: record.seq) == await team.history("c")
    await team.close()


async def test_two_trees_at_once_are_read_each_by_its_reader(team: Team):
    async def reads(conversation: str) -> list[Recorded]:
        return recorded([item async for item in team.stream("look", conversation=conversation)])

    one, two = await asyncio.gather(reads("one"), reads("two"))
    assert (one, two) == (await team.history("one"), await team.history("two"))
    assert {event.conversation.partition("/")[0] for event in one} == {"one"}


async def test_the_stream_of_a_tree_that_fails_raises_after_its_last_event(store: str | None):
    team = a_team(store, limits=Limits(max_handoffs=MANY, max_turns=MANY))
    items: list[StreamItem] = []

    async def reads() -> None:
        async for item in team.stream("look", conversation="c"):
            items.append(item)

    with pytest.raises(EconomicLimitExceeded, match="max_turns=20"):
        await reads()
    events = recorded(items)
    assert events == await team.history("c")
    assert isinstance(events[-1].event, RunFailed)
    assert sum(isinstance(event.event, ModelReplied) for event in events) <= MANY
    await team.close()


async def test_a_reader_who_leaves_a_tree_does_not_cancel_it(team: Team):
    async for item in team.stream("look", conversation="c", key="k"):
        if isinstance(item, Recorded) and item.conversation != "c":
            break
    result = await team.run("look", conversation="c", key="k")
    assert (result.output, result.status) == (f"{MANY} came back.", "completed")


async def test_a_nested_tree_is_read_whole(store: str | None):
    ids = ["a", "b", "c", "d"]

    def deeper(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent == "d" or isinstance(messages[-1], ToolResult):
            return says(f"From {agent}.")
        after = ids[ids.index(agent) + 1]
        return calls(delegates(after, "one"), delegates(after, "two"))

    members = [Agent(id, handoffs=[delegate(after)]) for id, after in pairwise(ids)]
    limits = Limits(max_handoffs=14)
    team = Team([*members, Agent("d")], model=ScriptedModel(deeper), store=store, limits=limits)
    items = await read(team)
    history = await team.history("c")
    branch = await team.history("c/3.1")
    await team.close()
    assert recorded(items) == history
    assert len({event.conversation for event in history}) == 15
    assert branch == [event for event in history if event.conversation.startswith("c/3.1")]
    assert len({event.conversation for event in branch}) == 7
    spoken = {item.conversation for item in items if isinstance(item, TextDelta)}
    assert spoken == {event.conversation for event in history}


NAMES = ("a", "look_a", "b", "look_b", "c", "look_c")


async def finish(order: Sequence[str]) -> tuple[list[str], list[str]]:
    """In which order three delegates and three reads of one turn finished, and how the boss read them."""
    gates = {name: asyncio.Event() for name in order}
    gates[order[0]].set()
    after = dict(pairwise(order))

    def ended(record: Recorded) -> None:
        if record.conversation == "c" and isinstance(end := record.event, HandoffReturned | ToolFinished):
            name = NAMES[int(end.call.rpartition(".")[2])]
            done.append(name)
            if name in after:
                gates[after[name]].set()

    async def wait(name: str) -> str:
        await gates[name].wait()
        return f"From {name}."

    async def script(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent != "boss":
            return says(await wait(agent))
        if isinstance(messages[-1], ToolResult):
            return says(" | ".join(map(response, results(messages))))
        return calls(*(delegates(name, "x") if len(name) == 1 else (name, {}) for name in NAMES))

    done: list[str] = []
    reads = [tool(name=name, read_only=True)(partial(wait, name)) for name in NAMES[1::2]]
    boss = Agent("boss", handoffs=[delegate(name) for name in NAMES[::2]], tools=reads)
    hooks = {"handoff_returned": ended, "tool_finished": ended}
    team = Team([boss, *(Agent(id) for id in NAMES[::2])], model=ScriptedModel(script), hooks=hooks)
    async with asyncio.timeout(30):
        result = await team.run("all of it", conversation="c")
    await team.close()
    return done, result.output.split(" | ")


def response(result: ToolResult) -> str:
    if result.name.startswith("look"):
        return result.text
    return msgspec.json.decode(result.text, type=DelegateResult).response


async def test_results_are_read_in_call_order_in_whatever_order_they_come():
    orders = list(permutations(NAMES))[:: 1 if STRESS else 7]
    for at in range(0, len(orders), 60):
        batch = orders[at : at + 60]
        for order, (done, said) in zip(batch, await asyncio.gather(*map(finish, batch)), strict=True):
            assert done == list(order)
            assert said == [f"From {name}." for name in NAMES]


async def stopped_while_the_worker_works(log: MemoryLog) -> None:
    """A boss has delegated, and its process ends before the worker answers."""

    async def never(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent == "boss":
            return delegates("worker", "look")
        begun.set()
        await asyncio.sleep(60)
        return says("never")

    begun = asyncio.Event()
    members = [Agent("boss", handoffs=[delegate("worker")]), Agent("worker")]
    team = Team(members, model=ScriptedModel(never), store=log)
    run = asyncio.create_task(team.run("go", conversation="c"))
    await begun.wait()
    await team.close()
    with pytest.raises(EngineError):
        await run


async def resumed(team: Team) -> RunResult:
    async with asyncio.timeout(5):
        return await team.resume("c")


async def test_a_delegate_who_has_left_the_team_since_comes_back_as_a_failure():
    await stopped_while_the_worker_works(log := MemoryLog())

    def sums_up(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        return says(messages[-1].text)

    result = await resumed(Team([Agent("boss")], model=ScriptedModel(sums_up), store=log))
    back = msgspec.json.decode(result.output, type=DelegateResult)
    assert (back.agent, back.success) == ("worker", False)
    assert back.error == "no agent is called 'worker'; this team has: boss"
    assert [(h.receiver, h.state) for h in result.handoff_chain] == [("worker", "FAILED")]


async def test_a_boss_who_has_left_the_team_since_calls_its_delegates_back():
    await stopped_while_the_worker_works(log := MemoryLog())
    asked: list[str] = []

    async def sleeps(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        asked.append(agent)
        await asyncio.sleep(60)
        return says("never")

    team = Team([Agent("worker")], model=ScriptedModel(sleeps), store=log)
    with pytest.raises(UnknownAgentError, match="no agent is called 'boss'"):
        await resumed(team)
    assert [(h.receiver, h.state) for h in await team.handoffs("c")] == [("worker", "RETURNED")]
    assert asked == []
    await team.close()
