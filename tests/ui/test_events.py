"""What the scripts make of events is what the library folds from them, at every event of every golden log."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from msgspec.structs import replace

from changeover.relay.context_flow import context_flow
from changeover.relay.events import Entry
from changeover.relay.history import fold_recorded
from changeover.relay.state import State
from changeover.server.wire import shown
from tests.ui.people import Person
from tests.upgrade.write_golden import GOLDEN, Kept, entry_of

FOLD = """async logs => {
  const { contextAt, contextOf, stateAt } = await import('/static/js/events.js');
  const { filmOf } = await import('/static/js/run/film.js');
  const shown = context => Object.fromEntries(context.map(({ name, value }) => [name, value]));
  return logs.map(events => {
    const made = filmOf(events).frames.map((frame, index) => {
      const { agent, variables, artifacts, workflow } = frame;
      return [index, agent, variables, shown(contextOf(frame)), artifacts, workflow];
    });
    const { seq, conversation } = events[events.length >> 1];
    const middle = [stateAt(events, seq).get(conversation).variables, shown(contextAt(events, seq, conversation))];
    return [made, middle];
  });
}"""
ORIGINS = """async logs => {
  const { filmOf } = await import('/static/js/run/film.js');
  return logs.map(events => filmOf(events).frames.map(({ variables, setBy }) =>
    Object.fromEntries(Object.keys(variables).map(name => [name, setBy[name]]))));
}"""
ENDS = """async logs => {
  const { stateAt } = await import('/static/js/events.js');
  const { transcriptOf } = await import('/static/js/transcript.js');
  return logs.map(events => {
    const found = stateAt(events).values().next().value;
    const states = transcriptOf(events).flatMap(item => [item.state, ...(item.branches ?? []).map(each => each.state)]);
    const open = states.filter(state => ['running', 'waiting', 'offered'].includes(state)).length;
    return [found.status, found.asked.size, open > 0];
  });
}"""


@cache
def kept() -> list[list[Entry]]:
    """Each log of the golden files, as entries of one event."""
    lines = [line for path in sorted(GOLDEN.glob("*.jsonl")) for line in path.read_bytes().splitlines()]
    return [single([entry_of(each) for each in msgspec.json.decode(line, type=Kept).entries]) for line in lines]


def single(entries: list[Entry]) -> list[Entry]:
    each = [(entry, index) for entry in entries for index in range(len(entry.events))]
    return [
        replace(entry, events=(entry.events[index],), position=entry.position + index, seq=seq)
        for seq, (entry, index) in enumerate(each, 1)
    ]


@cache
def golden() -> list[tuple[list[Any], list[Any], State]]:
    """Each log of the golden files, folded."""
    return [folded(entries) for entries in kept()]


def folded(entries: list[Entry]) -> tuple[list[Any], list[Any], State]:
    """The events as clients get them, what the library makes of the log after each, and the last state."""
    state = State(entries[0].conversation)
    events: list[Any] = []
    after: list[Any] = []
    for entry in entries:
        events += [msgspec.to_builtins(shown(each)) for each in fold_recorded(state, entry)]
        variables = dict(state.variables)
        known = [variables, variables, dict(state.artifacts), dict(state.workflow_state)]
        after.append(msgspec.to_builtins([entry.position, state.agent, *known]))
    return events, after, state


def test_the_state_at_every_event_is_the_one_that_the_library_folds(person: Person):
    page = person.open("/sign-in")
    logs = golden()
    assert sum(len(events) for events, _, _ in logs) > 2_000
    found = page.evaluate(FOLD, [events for events, _, _ in logs])
    for (events, expected, _), (made, middle) in zip(logs, found, strict=True):
        for event, one, other in zip(events, made, expected, strict=True):
            assert one == other, (event, events)
        assert middle == expected[len(events) // 2][2:4]


def origins(entries: list[Entry]) -> list[dict[str, Any]]:
    """What set each variable last, after each event, as the library tells the flow of values."""
    found: list[dict[str, Any]] = [{} for _ in entries]
    for flow in context_flow(entries):
        for change in flow.changes if flow.kind == "variable" else ():
            made = {"seq": change.seq, "agent": change.agent, "conversation": change.conversation}
            for after in found[change.seq - 1 :]:
                after.pop(flow.name, None)
                after.update({} if change.effect == "removed" else {flow.name: made})
    return found


def test_the_origin_of_every_variable_is_the_one_that_the_library_tells(person: Person):
    page = person.open("/sign-in")
    expected = [origins(entries) for entries in kept()]
    assert sum(len(after) for each in expected for after in each) > 150
    found = page.evaluate(ORIGINS, [events for events, _, _ in golden()])
    for made, each, (events, _, _) in zip(found, expected, golden(), strict=True):
        assert made == each, events


def test_a_log_without_a_run_under_way_shows_nothing_that_runs(person: Person):
    page = person.open("/sign-in")
    logs = golden()
    found = page.evaluate(ENDS, [events for events, _, _ in logs])
    for (events, _, state), (status, asked, runs) in zip(logs, found, strict=True):
        if state.run is None and not state.inbox:
            assert (asked, runs) == (0, False), (status, events)
            assert status in ("idle", "completed", "failed", "cancelled"), events
