"""Rollback of a handoff: when its task goes back to the sender, and when its cleanup is done."""

from __future__ import annotations

from collections.abc import Iterator

from changeover.agent.roster import Roster
from changeover.facts import HandoffRecord, Mode
from changeover.handoffs.protocol import TRANSITIONS, Signal
from changeover.ids import split_handoff
from changeover.relay.commands import Record
from changeover.relay.events import ENGINE, HandoffRolledBack, RollbackRequested, RunFailed, RunStopped
from changeover.relay.fold.handoffs import last_words
from changeover.relay.fold.rollback import record_at
from changeover.relay.result import error_of, waiting_result
from changeover.relay.run import Run, Stopping
from changeover.relay.state import State


def busy(run: Run) -> bool:
    """True if delegates have to be called back first."""
    return isinstance(run.phase, Stopping) and run.phase.turn is not None and run.phase.turn.delegated > 0


def returned(state: State, wanted: RollbackRequested, roster: Roster) -> Record:
    """Give the task back to its sender."""
    record = record_at(state, wanted.call)
    assert record is not None
    who, why = (record.sender, record.receiver), (wanted.reason, wanted.by)
    partial = last_words(state.record, record.receiver)
    agent = record.sender if record.sender in state.path else _before(state, record.receiver)
    undone, queued = tuple(_undone(state, record)), roster.pulls(agent)
    lost = {name: value for call in undone for name, value in state.undoing.dropped.get(call, {}).items()}
    restored = {name: value for name, value in lost.items() if name not in state.variables}
    return Record(HandoffRolledBack(wanted.call, *who, *why, partial, undone, agent, queued, restored))


def by_policy(state: State) -> Record:
    """Roll back a handoff that failed or timed out, as its declaration says."""
    call = next(iter(state.undoing.failed))
    record = record_at(state, call)
    assert record is not None
    return Record(RollbackRequested(call, record.error, ENGINE, cleans=True))


def before_failure(state: State, run: Run, decision: Record) -> Record:
    """The decision or, if it fails the run, the rollback of the transfer that gave the active agent its task."""
    event = decision.event
    if not isinstance(event, RunFailed | RunStopped) or isinstance(run.phase, Stopping):
        return decision
    call, reason = (
        split_handoff(state.handoffs[state.leg].id)[1],
        str(error_of(event.fault, waiting_result(state, run.id, []))),
    )
    return Record(RollbackRequested(call, reason, ENGINE, fault=event.fault))


def _before(state: State, receiver: str) -> str:
    """The agent that was active before code handed over to this receiver."""
    last = max((index for index, agent in enumerate(state.path) if agent == receiver), default=0)
    return state.path[last - 1] if last else ""


def _undone(state: State, first: HandoffRecord) -> Iterator[str]:
    """The calls of this transfer and of the later ones that are still open."""
    for record in state.handoffs[state.handoffs.index(first) :]:
        if record.mode is Mode.TRANSFER and Signal.RETURN in TRANSITIONS[record.state]:
            yield split_handoff(record.id)[1]


def settled(state: State, roster: Roster) -> Record | None:
    """The end of a callback whose function is no longer declared, if there is one."""
    for callback in state.callbacks.values():
        if roster.callback(callback.about) is None:
            return Record(callback.done())
    return None
