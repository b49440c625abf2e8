"""ContextFlow: which hop of a conversation set, changed or removed a context variable or an artifact."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from changeover.ids import handoff_id, split_child
from changeover.relay.events import (
    Entry,
    Event,
    FellBack,
    FunctionReturned,
    HandoffAccepted,
    HandoffReturned,
    HandoffRolledBack,
    RunStarted,
    ToolFinished,
    Unreadable,
)
from changeover.relay.state import State

Context = tuple[Mapping[str, Any], Mapping[str, Any]]
"""Variables and artifacts."""
Kind = Literal["variable", "artifact"]
KINDS: tuple[Kind, Kind] = ("variable", "artifact")
ABOUT_CALLS = (ToolFinished, HandoffReturned)
Source = Literal["caller", "handoff", "tool", "function", "delegate", "rollback", "run"]
"""What changed a value: the caller's `context=`, a handoff that carried it, the Command of a tool or a Function, the
result of a delegate, a rollback; "run" if the beginning or the end of a run did."""


class Change(Struct, frozen=True, omit_defaults=True, gc=False):
    """One change of a value."""

    effect: Literal["set", "changed", "removed"]
    """What happened to the value."""
    source: Source
    """What changed it: a caller, a handoff, a tool, a function, a delegate, a rollback, or the run itself."""
    conversation: str
    """The conversation: the delegate's, if a delegate did it."""
    seq: int
    """The sequence number of the event that made the change."""
    at: float
    """When it was recorded, in seconds since the epoch."""
    agent: str
    """The agent that was active; the sender, if a handoff carried the value."""
    hop: str = ""
    """The id of the handoff that carried the value, or under which the agent worked; empty before the first one."""
    tool: str = ""
    """The tool or the function that set it, or the tool that handed off."""
    before: Any = None
    """The value before, if there was one."""
    after: Any = None
    """The value after, if there is one."""


class ValueFlow(Struct, frozen=True, gc=False):
    """All changes of one variable or artifact in a conversation and its delegates, in order."""

    name: str
    """The name of the variable or artifact."""
    kind: Kind
    """Variable or artifact."""
    changes: tuple[Change, ...]
    """In the order of the events that made them."""


def context_flow(entries: Iterable[Entry]) -> list[ValueFlow]:
    """The flow of every variable and artifact in a tree of logs, in the order in which they were first set."""
    tree, found = _Tree(), dict[tuple[Kind, str], list[Change]]()
    for entry in entries:
        for kind, name, change in tree.fold(entry):
            found.setdefault((kind, name), []).append(change)
    return [ValueFlow(name, kind, tuple(changes)) for (kind, name), changes in found.items()]


class _Tree:
    """Folds the logs of a tree, event by event, and compares the context before and after each."""

    def __init__(self) -> None:
        self._states: dict[str, State] = {}

    def fold(self, entry: Entry) -> Iterator[tuple[Kind, str, Change]]:
        """Apply an entry; gives kind, name and change of each value that it changes."""
        state = self._states.setdefault(entry.conversation, State(entry.conversation))
        state.at, state.seq = entry.at, entry.seq + len(entry.events) - 1
        for index, event in enumerate(entry.events):
            agent, tool = state.agent, _tool(state, event)
            before: Context = (state.variables, state.artifacts)
            state.apply(event)
            if before == (state.variables, state.artifacts):
                continue
            if isinstance(event, RunStarted) and before == ({}, {}):
                before = self._inherited(state)
            source, agent, hop, tool = _origin(state, event, agent, tool)
            made = Change("set", source, state.id, entry.seq + index, entry.at, agent, hop, tool)
            for kind, old, new in zip(KINDS, before, (state.variables, state.artifacts), strict=True):
                yield from ((kind, name, change) for name, change in _changes(old, new, made))

    def _inherited(self, state: State) -> Context:
        """The context of the sender, with which a delegate's conversation begins: to inherit it is no change."""
        parent = self._states.get(state.parent)
        return (parent.variables, parent.artifacts) if parent is not None else ({}, {})


def _tool(state: State, event: Event | Unreadable) -> str:
    """The name of the tool whose call an event is about."""
    found = state.run.find(event.call) if state.run is not None and isinstance(event, ABOUT_CALLS) else None
    return found[1].call.name if found else ""


def _origin(state: State, event: Event | Unreadable, agent: str, tool: str) -> tuple[Source, str, str, str]:
    """Source, agent, hop and tool of what an event changed."""
    given = state.run.spoken.given if state.run is not None else None
    match event:
        case RunStarted() if given is not None:
            return "handoff", given.sender, _delegation(state), given.tool
        case RunStarted():
            return "caller", state.agent, "", ""
        case HandoffAccepted():
            carried = state.handoffs[state.leg]
            return "handoff", carried.sender, carried.id, carried.tool
        case HandoffReturned():
            return "delegate", event.receiver, handoff_id(state.id, event.call), tool
        case ToolFinished():
            return "tool", agent, _leg(state), tool
        case FunctionReturned():
            return "function", agent, _leg(state), agent
        case HandoffRolledBack() | FellBack():
            return "rollback", agent, handoff_id(state.id, event.call), ""
        case _:
            return "run", agent, _leg(state), tool


def _delegation(state: State) -> str:
    """The handoff that a delegate's conversation works under; empty for a root."""
    return handoff_id(*split_child(state.id)) if state.parent else ""


def _leg(state: State) -> str:
    return state.handoffs[state.leg].id if state.leg >= 0 else _delegation(state)


def _changes(old: Mapping[str, Any], new: Mapping[str, Any], made: Change) -> Iterator[tuple[str, Change]]:
    for name, value in new.items():
        if name not in old:
            yield name, replace(made, after=value)
        elif old[name] != value:
            yield name, replace(made, effect="changed", before=old[name], after=value)
    for name, value in old.items():
        if name not in new:
            yield name, replace(made, effect="removed", before=value)
