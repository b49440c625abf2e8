"""Invariants of logs and effects, whatever happened to the processes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from changeover.relay.events import (
    CallRefused,
    Entry,
    Event,
    HandoffAccepted,
    ModelReplied,
    RunCompleted,
    RunFailed,
    ToolFinished,
    ToolStarted,
    UserSpoke,
)
from changeover.relay.state import State
from tests.crash.notes import Note


def assert_whole(entries: Sequence[Entry]) -> None:
    """A conversation that has ended: nothing is missing, nothing is there twice, nothing is outstanding."""
    position, seq = 0, 1
    for entry in entries:
        assert (entry.position, entry.seq) == (position, seq), f"a gap before {entry}"
        position, seq = position + len(entry.events), seq + len(entry.events)
    assert (causes := Counter(entry.cause for entry in entries)) == dict.fromkeys(causes, 1), "an outcome twice"
    state = State(entries[0].conversation).fold(entries)
    assert (state.run, state.inbox) == (None, {}), f"{state.id} has not ended"
    events = [event for entry in entries for event in entry.events]
    said = {position for position, event in enumerate(events) if isinstance(event, UserSpoke)}
    ended = [event.run for event in events if isinstance(event, RunCompleted | RunFailed)]
    assert sorted(said) == sorted(ended), f"{state.id}: these runs were asked for: {said}; these ended: {ended}"
    _assert_answered_once(events)


def _assert_answered_once(events: Sequence[object]) -> None:
    asked = [
        f"{position}.{index}"
        for position, event in enumerate(events)
        if isinstance(event, ModelReplied)
        for index in range(len(event.calls))
    ]
    answers = Counter(event.call for event in events if isinstance(event, ToolFinished | CallRefused | HandoffAccepted))
    assert answers == dict.fromkeys(asked, 1), "a call was not answered, or twice"
    begun = Counter(event.call for event in events if isinstance(event, ToolStarted))
    assert all(count == 1 for count in begun.values()), f"an intent was recorded twice: {begun}"


def assert_none_again(notes: Sequence[Note], held: Mapping[int, set[str]]) -> None:
    """No effect begins after its outcome was recorded; `held` says what the log held when so many notes were there."""
    for count, recorded in held.items():
        again = [note for note in notes[count:] if note.what == "begin" and note.key in recorded]
        assert not again, f"begun although recorded: {again}"


def assert_at_most_once(notes: Iterable[Note], kind: str = "pay") -> None:
    begun = Counter(note.key for note in notes if note.what == "begin" and note.kind == kind)
    assert all(count == 1 for count in begun.values()), f"begun more than once: {begun}"


def causes(entries: Iterable[Entry]) -> set[str]:
    """The keys of all effects whose outcome is recorded."""
    return {f"{entry.conversation}:{entry.cause}" for entry in entries}


def events_of(entries: Iterable[Entry]) -> list[Event]:
    return [event for entry in entries for event in entry.events]  # type: ignore[misc]
