"""The fold of rollbacks: the task goes back to its sender, and cleanup is due; and of the callbacks of declarations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from changeover.facts import HandoffRecord, Mode
from changeover.facts import State as HandoffState
from changeover.handoffs.callback import Rollback
from changeover.handoffs.protocol import TRANSITIONS, Signal, advance, concluded
from changeover.ids import Mark, command_id, handoff_id, split_handoff
from changeover.messages import Note
from changeover.relay.events import (
    FellBack,
    FollowUpDone,
    FollowUpFailed,
    HandoffRolledBack,
    RollbackDone,
    RollbackFailed,
    RollbackRequested,
)
from changeover.relay.fold.answers import end_offer, open_offers
from changeover.relay.fold.handoffs import undone_words
from changeover.relay.run import TURNING, Acting, Replied, Run, Stopping, Task, Thinking
from changeover.relay.turn import Asked, Delegated, Offered, OpenCall, Turn, handoff_of

if TYPE_CHECKING:
    from changeover.relay.state import State


def request(state: State, run: Run, event: RollbackRequested) -> None:
    partial = state.undoing.failed.pop(event.call, "")
    if isinstance(run.phase, Stopping):
        return
    found = run.find(event.call, (Offered, Asked, Delegated))
    phase = handoff_of(found[1]) if found else None
    if found and phase and phase.offer.call == event.call:
        _recall(state, run, *found, event)
        return
    _request(state, event, partial)
    if state.returning is event:
        if event.fault is not None:
            state.end_leg(Signal.FAIL)
            state.work.status = "failed"
        turn = run.phase.turn if isinstance(run.phase, Acting) else None
        if turn:
            turn.withdraw()
        run.phase = Stopping(None, turn)


def request_idle(state: State, event: RollbackRequested) -> None:
    _request(state, event, state.undoing.failed.pop(event.call, ""))


def _request(state: State, event: RollbackRequested, partial: str) -> None:
    record = record_at(state, event.call)
    if record is None or Signal.RETURN not in TRANSITIONS[record.state]:
        return
    if is_back(record) and (event.cleans or record.mode is Mode.DELEGATE):
        _mark(state, event, partial)
    else:
        state.returning = event


def is_back(record: HandoffRecord) -> bool:
    """True if the sender has the task of a handoff that ended: of a delegate, or of a transfer without an answer."""
    return record.mode is Mode.DELEGATE or record.state is HandoffState.TIMEOUT


def record_at(state: State, call: str) -> HandoffRecord | None:
    """The record of the handoff with this call."""
    id = handoff_id(state.id, call)
    return next((record for record in reversed(state.handoffs) if record.id == id), None)


def under_way(state: State, call: str) -> bool:
    """True if a rollback of this handoff is under way."""
    if state.returning is not None and state.returning.call == call:
        return True
    found = state.run.find(call, Delegated) if state.run else None
    return found is not None and isinstance(found[1].phase, Delegated) and found[1].phase.recalled is not None


def _recall(state: State, run: Run, turn: Turn, call: OpenCall, event: RollbackRequested) -> None:
    """Withdraw an open offer, or recall the delegate that works on it."""
    phase = handoff_of(call)
    if isinstance(phase, Delegated):
        turn.move(call, replace(phase, recalled=event))
    elif isinstance(phase, Offered):
        end_offer(state, run, turn, call, Signal.RETURN, undone_words(event.reason))


def _mark(state: State, event: RollbackRequested, partial: str) -> None:
    """Mark a handoff as rolled back whose sender has the task."""
    for index, record in enumerate(state.handoffs):
        if record.id == handoff_id(state.id, event.call):
            standing, why = advance(record.state, Signal.RETURN), record.error or undone_words(event.reason)
            state.handoffs[index] = back = replace(record, state=standing, error=why)
            if event.cleans:
                state.owe(Rollback(back, event.reason, event.by, partial))


def roll_back(state: State, run: Run, event: HandoffRolledBack) -> None:
    """Give the task back to its sender, who goes on with the run."""
    if state.returning is None or state.returning.call != event.call:
        return
    close_turn(state, run, undone_words(event.reason))
    for call in event.undone:
        run.wishes.pop(call, None)
    _undo(state, event)
    if event.agent == event.sender:
        _go_on(state, run, event.agent, event.queued, "cancelled")
    else:
        run.phase, state.work.handoff = Replied(""), None  # code has the task back


def return_failed(state: State, run: Run, event: FellBack) -> None:
    """The receiver of a transfer failed: its sender has the task again, and goes on alone."""
    close_turn(state, run, event.reason)
    record = state.handoffs[state.leg]
    state.handoffs[state.leg] = replace(record, state=concluded(record.state, Signal.FAIL), error=event.reason)
    run.wishes.pop(event.call, None)
    if lost := state.undoing.dropped.get(event.call):
        state.variables = {**lost, **state.variables}
    _leave(state, event.agent, Note(f"{event.reason}; go on by yourself", "changeover"))
    _go_on(state, run, event.agent, event.queued, "failed")


def close_turn(state: State, run: Run, reason: str) -> None:
    """Close the turn under way: withdraw its offers, and close its requests to people."""
    if isinstance(run.phase, TURNING) and run.phase.turn:
        state.add(*run.phase.turn.results())
        offers = open_offers(state, run, Signal.RETURN, reason)
        state.handoffs += offers
        for offer in offers:
            run.count_handoff(offer.sender, -1)
    run.waiting.give_up(state.at)


def _go_on(state: State, run: Run, agent: str, queued: bool, ended: Literal["cancelled", "failed"]) -> None:
    """Begin a new task of the agent that goes on with the run; the receiver's task has ended."""
    state.task, run.phase = state.position, Thinking(str(state.position))
    run.strikes, run.repairs, run.verdict = 0, 0, None
    before = state.work
    if before.status != "failed":
        before.status = ended
    state.work = Task(state.position, run.ref, agent, before.input, max_iterations=before.max_iterations)
    run.ticket, run.worn_out = handoff_id(state.id, state.position) if queued else "", False


def roll_back_idle(state: State, event: HandoffRolledBack) -> None:
    if state.returning is not None and state.returning.call == event.call:
        _undo(state, event)
        if last := state.last:
            state.outcomes[last.run.id] = replace(last, undone=True)


def _undo(state: State, event: HandoffRolledBack) -> None:
    """Mark this transfer and all later ones as undone."""
    for index, record in enumerate(state.handoffs):
        ref = split_handoff(record.id)[1]
        if ref in event.undone and Signal.RETURN in TRANSITIONS[record.state]:
            state.handoffs[index] = back = replace(record, state=HandoffState.RETURNED, error=event.reason)
            state.owe(Rollback(back, event.reason, event.by, event.partial))
    if event.restored:
        state.variables = {**event.restored, **state.variables}
    said = f"\n\nWhat it said last:\n{event.partial}" if event.partial else ""
    why = f": {event.reason}" if event.reason else ""
    _leave(state, event.agent, Note(f"{event.receiver} gives the task back{why}{said}", event.receiver))


def _leave(state: State, agent: str, note: Note) -> None:
    """End the work under a transfer: this agent is active again, and reads the whole record and a note."""
    state.returning, state.handed, state.leg, state.undoes = None, None, -1, False
    state.see(state.record)
    state.return_to, state.agent = "", agent
    state.path.append(agent)
    state.add(note)


MARKS = {
    RollbackFailed: Mark.CLEANUP,
    RollbackDone: Mark.CLEANUP,
    FollowUpFailed: Mark.FOLLOW_UP,
    FollowUpDone: Mark.FOLLOW_UP,
}


def try_again(state: State, event: RollbackFailed | FollowUpFailed) -> None:
    key = command_id(event.call, MARKS[type(event)])
    if before := state.callbacks.get(key):
        state.callbacks[key] = before.again(event.retry_at)


def finish(state: State, event: RollbackDone | FollowUpDone) -> None:
    state.callbacks.pop(command_id(event.call, MARKS[type(event)]), None)
