"""Random teams with random scripts: they end, within their limits, with whole histories, and the same after a crash."""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changeover import END, Agent, Approve, Command, Function, Limits, RunContext, Send, Team, delegate, tool
from changeover.agent.agent import Member
from changeover.errors import ChangeoverError, ModelError
from changeover.observe.hooks import EVENTS
from changeover.relay.events import Entry, HandoffAccepted, ModelReplied
from changeover.relay.ports.world import Request
from changeover.relay.state import State
from changeover.relay.stream import TextDelta, ThinkingDelta
from changeover.stores.memory.log import MemoryLog
from changeover.stream import Recorded
from changeover.testing import ManualClock, Reply, assert_valid_history, calls, says
from changeover.testing.crash import Death, MortalLog, _dies_and_resumes, _live
from changeover.testing.effects import Effects
from changeover.testing.scripted import resolve
from changeover.tools.tool import Tool

STRESS = "CHANGEOVER_STRESS" in os.environ
EXAMPLES = 1_500 if STRESS else 60

AGENTS = ("a", "b", "c", "d")
GENEROUS = Limits(max_handoffs=500, max_turns=1_000)


class Scripted:
    """A model that goes through its lines in each conversation, then answers; it remembers what it was asked."""

    def __init__(self, script: dict[str, list[Any]]) -> None:
        self._script = script
        self.requests: list[Request] = []

    async def reply(self, request: Request) -> Reply:
        self.requests.append(request)
        await asyncio.sleep(0)
        lines = self._script.get(request.agent, [])
        line = lines[request.turn] if request.turn < len(lines) else "done"
        if line == "busy":
            raise ModelError("busy", agent=request.agent)
        if line == "done" or request.turn >= len(lines):
            return says(f"{request.agent} is done")
        return resolve(calls(*line), request)

    async def stream(self, request: Request) -> AsyncIterator[TextDelta | ThinkingDelta | Reply]:
        yield await self.reply(request)


@tool(read_only=True)
async def look(n: int = 0) -> str:
    """Look for a while."""
    for _ in range(n):
        await asyncio.sleep(0)
    return f"saw {n}"


@tool
async def save() -> Command:
    """Save."""
    return Command(update={"context": {"saved": True}, "artifacts": {"file": "f"}})


@tool(at_most_once=True)
async def pay() -> str:
    """Pay."""
    return "paid"


@tool
async def trip() -> str:
    """Trip over something."""
    raise RuntimeError("tripped")


@tool(approval=True)
async def sign() -> str:
    """Sign."""
    return "signed"


@tool
async def stop() -> Command:
    """End the run."""
    return Command(goto=END, update={"output": "stopped"})


def leading(to: str) -> list[Tool]:
    """Tools that say where to go."""

    @tool
    async def route() -> Command:
        return Command(goto=to, message="routed")

    @tool(read_only=True)
    async def spread() -> Command:
        return Command(goto=[Send(to, {"n": 1}), Send(to, {"n": 2}, "second")])

    return [route, spread, stop]


def divide(ctx: RunContext) -> str | Command:
    if not ctx.returned:
        return Command(goto=[Send("d", {"n": n}) for n in range(2)])
    return " and ".join(result.response for result in ctx.returned)


def members(ahead: bool) -> list[Member]:
    """Four agents and a Function. If `ahead`, delegates and transfers lead only to those that come later, so that
    everything ends of itself; else to any agent, and only limits end it."""
    team: list[Member] = []
    for index, id in enumerate(AGENTS):
        others = AGENTS[index + 1 :] if ahead else AGENTS
        tools = [look, save, pay, trip, sign, *(leading(others[-1]) if others else ())]
        ways: list[Any] = [*others, *(delegate(other, max_iterations=6) for other in others)]
        team.append(Agent(id, tools=tools, handoffs=ways))
    return [*team, Function("f", divide)]


@st.composite
def scripts(draw: st.DrawFn, ahead: bool) -> dict[str, list[Any]]:
    """For each agent the turns that it takes in a conversation: several calls in one, of any kind."""
    script = {}
    for index, id in enumerate(AGENTS):
        others = AGENTS[index + 1 :] if ahead else AGENTS
        moves: list[Any] = [("look", {"n": 2}), ("look", {}), ("save", {}), ("pay", {}), ("trip", {}), ("sign", {})]
        moves += [("look", {"m": 1}), ("nonsense", {})]
        if others:
            moves += [("route", {}), ("spread", {}), ("stop", {})]
        for other in others:
            moves += [
                ("handoff", {"to": other, "message": "go on"}),
                (f"delegate_to_{other}", {"task": f"for {other}"}),
            ]
        turn = st.lists(st.sampled_from(moves), min_size=1, max_size=4)
        script[id] = draw(st.lists(st.just("busy") | turn, max_size=2))
    return script


def a_team(script: dict[str, list[Any]], ahead: bool, limits: Limits, **options: Any) -> tuple[Team, Scripted]:
    model = Scripted(script)
    clock = ManualClock(auto=True)
    ask = lambda request: Approve()  # noqa: E731
    return Team(members(ahead), model=model, clock=clock, limits=limits, ask=ask, **options), model


async def two_messages(team: Any) -> list[Any]:
    return [await outcome(team, "one", "a"), await outcome(team, "two", None)]


async def outcome(team: Any, text: str, agent: str | None) -> Any:
    try:
        return await team.run(text, conversation="c", agent=agent)
    except ChangeoverError as error:
        return f"{type(error).__name__}: {error}".partition(" (so far")[0]


@given(script=scripts(ahead=True), at=st.integers(1, 60), death=st.sampled_from(Death))
@settings(max_examples=EXAMPLES, deadline=None)
@pytest.mark.stress
@pytest.mark.timeout(900 if STRESS else 90)
async def test_a_random_team_comes_to_the_same_end_with_a_crash_anywhere(
    script: dict[str, list[Any]], at: int, death: Death
):
    team, _ = a_team(script, True, GENEROUS)
    whole = MortalLog(MemoryLog())
    end = await _live(team, two_messages, whole, Effects())
    await _dies_and_resumes(team, two_messages, MortalLog(MemoryLog(), at % whole.appends + 1, death), end)


LIMITS = st.builds(
    Limits,
    max_handoffs=st.integers(0, 6),
    max_turns=st.integers(1, 12),
    max_depth=st.integers(0, 3),
    on_limit=st.sampled_from(["raise", "tell"]),
)


@given(script=scripts(ahead=False), limits=LIMITS)
@settings(max_examples=EXAMPLES, deadline=None)
@pytest.mark.stress
@pytest.mark.timeout(900 if STRESS else 90)
async def test_a_random_team_ends_within_its_limits_and_leaves_whole_histories(
    script: dict[str, list[Any]], limits: Limits
):
    log = MemoryLog()
    team, model = a_team(script, False, limits, store=log)
    async with asyncio.timeout(20):
        results = await two_messages(team)
    for request in model.requests:
        assert_valid_history(request)
    entries = await log.tree("c")
    assert_within(limits, entries, runs=2)
    assert_over(entries)
    if limits.on_limit == "tell":
        assert not any(isinstance(each, str) and "max_handoffs" in each for each in results)
    await team.close()


def assert_within(limits: Limits, entries: list[Entry], runs: int) -> None:
    """No run of the root made more handoffs or took more turns than it may."""
    events = [event for entry in entries for event in entry.events]
    assert sum(isinstance(event, HandoffAccepted) for event in events) <= runs * limits.max_handoffs
    assert sum(isinstance(event, ModelReplied) for event in events) <= runs * limits.max_turns
    assert all(entry.conversation.count("/") <= limits.max_depth for entry in entries)


def assert_over(entries: list[Entry]) -> None:
    """Nothing is under way in any conversation of the tree."""
    for id in {entry.conversation for entry in entries}:
        state = State(id).fold(entry for entry in entries if entry.conversation == id)
        assert state.run is None, f"{id} is still under way"
        assert not state.inbox, f"{id} has something to begin"


@given(script=scripts(ahead=True), at=st.integers(1, 80))
@settings(max_examples=EXAMPLES, deadline=None)
@pytest.mark.stress
@pytest.mark.timeout(900 if STRESS else 90)
async def test_a_random_team_can_be_cancelled_anywhere_and_goes_on_with_the_next_message(
    script: dict[str, list[Any]], at: int
):
    seen: list[Recorded] = []
    cancelling: list[asyncio.Task[bool]] = []

    async def count(record: Recorded) -> None:
        seen.append(record)
        if len(seen) == at:
            cancelling.append(asyncio.ensure_future(team.cancel("c")))

    log = MemoryLog()
    team, model = a_team(script, True, GENEROUS, store=log, hooks=dict.fromkeys(EVENTS, count))
    async with asyncio.timeout(20):
        first = await outcome(team, "one", "a")
        assert cancelling or len(seen) < at, "nothing was cancelled"
        at = 0  # the second message is left in peace
        cancelled = [await task for task in cancelling]
        if not isinstance(first, str):
            assert first.status == ("cancelled" if any(cancelled) else "completed")
        assert_over(await log.tree("c"))
        answer = await outcome(team, "two", "f")
        assert isinstance(answer, str) or answer.status == "completed"
    for request in model.requests:
        assert_valid_history(request)
    await team.close()
