"""What the scripts make of events is what the library folds from them, at every event of every golden log."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from msgspec.structs import replace

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
def golden() -> list[tuple[list[Any], list[Any], State]]:
    """Each log of the golden files, folded."""
    lines = [line for path in sorted(GOLDEN.glob("*.jsonl")) for line in path.read_bytes().splitlines()]
    logs = ([entry_of(each) for each in msgspec.json.decode(line, type=Kept).entries] for line in lines)
    return [folded(entries) for entries in logs]


def folded(entries: list[Entry]) -> tuple[list[Any], list[Any], State]:
    """The events as clients get them, what the library makes of the log after each, and the last state."""
    state = State(entries[0].conversation)
    events: list[Any] = []
    after: list[Any] = []
    for entry in entries:
        for index, event in enumerate(entry.events):
            one = replace(entry, events=(event,), position=entry.position + index, seq=len(events) + 1)
            events += [msgspec.to_builtins(shown(each)) for each in fold_recorded(state, one)]
            variables = dict(state.variables)
            known = [variables, variables, dict(state.artifacts), dict(state.workflow_state)]
            after.append(msgspec.to_builtins([one.position, state.agent, *known]))
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


def test_a_log_without_a_run_under_way_shows_nothing_that_runs(person: Person):
    page = person.open("/sign-in")
    logs = golden()
    found = page.evaluate(ENDS, [events for events, _, _ in logs])
    for (events, _, state), (status, asked, runs) in zip(logs, found, strict=True):
        if state.run is None and not state.inbox:
            assert (asked, runs) == (0, False), (status, events)
            assert status in ("idle", "completed", "failed", "cancelled"), events
