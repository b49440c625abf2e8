"""Several events in one decision: the log and the state are those of one event at a time."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changeover import Agent, Function, Limits, Person, Respond, Team, Variable, delegate, handoff
from changeover.agent.agent import Member
from changeover.agent.roster import Roster
from changeover.errors import ChangeoverError
from changeover.guards.rules import Rule
from changeover.handoffs.strategies import MessageOnly, Recent
from changeover.ids import call_of
from changeover.relay.commands import Command, Record
from changeover.relay.decide.decision import decide, settle
from changeover.relay.events import (
    Entry,
    Event,
    HandoffAccepted,
    HandoffOffered,
    LimitReached,
    ModelReplied,
    RunCompleted,
    RunStarted,
    Started,
    Unreadable,
    UserSpoke,
)
from changeover.relay.run import TURNING
from changeover.relay.state import State
from changeover.stores.memory.log import MemoryLog
from changeover.testing import ManualClock, ScriptedModel, calls, delegates, hands_off, says
from tests.relay.test_fold import ANY_LOG, ROSTER, seen
from tests.relay.world import a_roster, dispatcher_of

NAMES = ("a", "b", "c")
ENOUGH = 200


def one_at_a_time(state: State, roster: Roster, at: float, events: Sequence[Event]) -> tuple[list[Event], Any]:
    """`settle`, with a decision after every single event."""
    state.at, batch = at, list(events)
    for event in events:
        state.apply(event)
    for _ in range(ENOUGH):
        decision = decide(state, roster)
        if not isinstance(decision, Record):
            give_out(state, decision)
            return batch, decision
        state.apply(decision.event)
        batch.append(decision.event)
    raise AssertionError("it would decide for ever")


def give_out(state: State, commands: Sequence[Command]) -> None:
    """Mark the commands of a turn as given out, as an engine expects it."""
    if state.run is not None and isinstance(phase := state.run.phase, TURNING) and phase.turn:
        for command in commands:
            phase.turn.give_out(call_of(command.id))


@given(ANY_LOG)
@settings(max_examples=300)
def test_any_sequence_of_events_settles_as_if_one_event_was_decided_at_a_time(events: list[Event]):
    several, single = State("c"), State("c")
    assert_alike(settle(several, ROSTER, 5.0, events), one_at_a_time(single, ROSTER, 5.0, events))
    assert seen(several) == seen(single)


def wary(package: Any) -> bool:
    return "go on" not in package.task.description


def packed(handover: Any) -> str:
    return "in short: go on"


@st.composite
def agents(draw: st.DrawFn, name: str) -> Agent:
    """An agent that may ask before it accepts, lack a variable, see only part of the thread, or take no handoffs."""
    ways: list[Any] = [draw(st.sampled_from([other, handoff(other), handoff(other, timeout=5)])) for other in NAMES]
    return Agent(
        name,
        handoffs=[*ways, "person", "code", *(delegate(other, max_iterations=3) for other in NAMES if other != name)],
        accepts=draw(st.sampled_from([None, None, wary])),
        requires=draw(st.sampled_from([[], [], [Variable("n", "integer")]])),
        strategy=draw(st.sampled_from([None, None, MessageOnly(), Recent(2), packed])),
        accepts_handoffs=draw(st.sampled_from([True, True, False])),
    )


@st.composite
def teams(draw: st.DrawFn) -> dict[str, Any]:
    """The declarations of a team: members, guards, rules, limits, and whether senders go on alone."""
    members: list[Member] = [draw(agents(name)) for name in NAMES]
    rules = [Rule("on", if_=lambda ctx: ctx.input == "no!", goto="b"), Rule("no", if_=lambda _: True, deny="never")]
    return {
        "members": [*members, Person("person"), Function("code", lambda ctx: "counted")],
        "guards": draw(st.sampled_from([None, ()])),
        "rules": draw(st.sampled_from([(), (), rules[:1], rules])),
        "fallback": draw(st.booleans()),
        "limits": draw(st.sampled_from([Limits(max_turns=30), Limits(max_handoffs=2, on_limit="tell")])),
    }


MOVES = st.sampled_from(
    [hands_off(to, words) for to in (*NAMES, "person", "code", "nobody") for words in ("go on", "look")]
    + [delegates(to, "count") for to in NAMES]
)
LINES = MOVES | st.lists(MOVES, min_size=2, max_size=3).map(lambda moves: calls(*moves)) | st.just(says("done"))
SCRIPTS = st.fixed_dictionaries({name: st.lists(LINES, max_size=4) for name in NAMES})


@given(declared=teams(), script=SCRIPTS, texts=st.lists(st.sampled_from(["hello", "no!"]), min_size=1, max_size=3))
@settings(max_examples=60, deadline=None)
async def test_a_random_team_writes_the_log_that_one_event_at_a_time_would_give(
    declared: dict[str, Any], script: dict[str, list[Any]], texts: list[str]
):
    log, members = MemoryLog(), declared.pop("members")
    filled = {name: [*lines, *[says("done")] * 12] for name, lines in script.items()}
    options = {**declared, "clock": ManualClock(auto=True), "ask": lambda request: Respond("here")}
    team = Team(members, model=ScriptedModel(filled), store=log, **options)
    for _ in range(2):
        said = [team.run(text, conversation="c", agent="a") for text in texts]  # all but the first wait in the inbox
        for outcome in await asyncio.gather(*said, return_exceptions=True):
            assert not isinstance(outcome, BaseException) or isinstance(outcome, ChangeoverError)
    roster = dispatcher_of(team).directory.world.roster
    await team.close()
    entries = await log.tree("c")
    for id in {entry.conversation for entry in entries}:
        assert_settles(roster, [entry for entry in entries if entry.conversation == id])


def assert_settles(roster: Roster, entries: Sequence[Entry]) -> None:
    """Every entry follows from its first event, one event at a time and several at once."""
    several, single = State(entries[0].conversation), State(entries[0].conversation)
    for entry in entries:
        given = 1 + (type(entry.events[0]) is Started)
        # What the store says of the budget of a tree cannot be decided from one log.
        given += sum(type(event) is LimitReached for event in entry.events[given : given + 1])
        events = [event for event in entry.events[:given] if not isinstance(event, Unreadable)]
        found = settle(several, roster, entry.at, events)
        assert_alike(found, one_at_a_time(single, roster, entry.at, events))
        assert tuple(found[0]) == entry.events
        several.seq = single.seq = entry.seq
        assert seen(several) == seen(single)


def assert_alike(several: tuple[list[Event], Sequence[Command]], single: tuple[list[Event], Any]) -> None:
    assert several[0] == single[0]
    assert seen(several[1]) == seen(single[1])


@pytest.mark.parametrize("receiver", ["b", "code"])
async def test_an_offer_that_is_accepted_at_once_is_decided_with_its_acceptance(receiver: str):
    members: list[Member] = [Agent("a"), Agent("b"), Function("code", lambda ctx: "counted")]
    log = MemoryLog()
    team = Team(members, model=ScriptedModel({"a": [hands_off(receiver, "x")], "b": [says("done")]}), store=log)
    await team.run("hello", conversation="c")
    roster = dispatcher_of(team).directory.world.roster
    await team.close()
    first, second, *_ = await log.read("c")
    state = State("c").fold([first])
    state.apply(second.events[0])
    decision = decide(state, roster)
    assert isinstance(decision, Record)
    assert [type(decision.event), type(decision.then)] == [HandoffOffered, HandoffAccepted]


SPOKEN, ANSWER, ALONE = UserSpoke("hello"), ModelReplied("a", 2, "done"), a_roster([Agent("a")])


def decided(state: State, *events: Event) -> tuple[list[type[Event]], int]:
    """The types of the events that `settle` appends, and the number of commands that are left."""
    batch, commands = settle(state, ALONE, 5.0, events)
    return [type(event) for event in batch], len(commands)


def test_a_message_is_decided_with_the_start_of_its_run_unless_another_run_is_under_way():
    state = State("c")
    assert decided(state, Started(), SPOKEN) == ([Started, UserSpoke, RunStarted], 1)
    assert decided(state, SPOKEN) == ([UserSpoke], 1)


def test_nothing_is_decided_after_the_answer_of_a_run_unless_another_message_waits():
    for waiting, outstanding in (([], 0), ([SPOKEN], 1)):
        state = State("c")
        settle(state, ALONE, 5.0, [Started(), SPOKEN])
        settle(state, ALONE, 5.0, waiting)
        state.apply(ANSWER)
        decision = decide(state, ALONE)
        assert isinstance(decision, Record)
        assert (type(decision.event), decision.ends) == (RunCompleted, not waiting)
        assert len(settle(state, ALONE, 5.0, ())[1]) == outstanding
