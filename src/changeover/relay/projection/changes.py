"""Changes: what each event means for handoffs, worked out once for tables, circuit breakers and lessons.

A reader runs beside `State.apply`: it looks at the state just before an event changes it, so nothing has to be read
from the log again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from changeover.facts import HandoffRecord, Mode
from changeover.facts import State as HandoffState
from changeover.faults import Fault, FunctionFault, LimitFault, ModelFault, ReceiverFault, ResultFault, WorkerFault
from changeover.ids import FIRST_TASK, branching_call, call_of, child_id, split_handoff, task_id
from changeover.relay.events import (
    Entry,
    Event,
    FellBack,
    HandoffAccepted,
    HandoffConditional,
    HandoffExpired,
    HandoffOffered,
    HandoffRejected,
    HandoffReturned,
    HandoffRolledBack,
    RollbackRequested,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunResumed,
    Unreadable,
)
from changeover.relay.fold.answers import open_offers
from changeover.relay.fold.handoffs import undone_words
from changeover.relay.fold.rollback import is_back, record_at
from changeover.relay.run import TURNING, Run
from changeover.relay.state import State
from changeover.relay.turn import Delegated, Offered, handoff_of

BLAMED = (ModelFault, FunctionFault, WorkerFault, ResultFault, ReceiverFault)
"""Faults of the receiver itself; a limit of the whole run or a refusal is not."""


class Change(Struct, frozen=True, gc=False):
    """What one event means for one handoff."""

    call: str
    state: HandoffState
    """PENDING: it was offered; WORKING: its receiver works on it; any other: it is over."""
    sender: str = ""
    receiver: str = ""
    tool: str = ""
    """The tool that the sender's model called; "" if the sender is code."""
    since: float = 0.0
    """When it was offered."""
    reason: str = ""
    ok: bool | None = None
    """True if the receiver did its task, False if it failed; None if neither holds, as after a cancellation."""
    task: str | None = None
    """The task that the receiver got, once it accepted."""
    offer: HandoffOffered | None = None
    """The offer, if it was made with this event."""
    resumed: bool = False
    """True if the run that had failed goes on, so that the handoff is open again."""
    counted: bool = True
    """False if circuit breakers ignore it: it was over before, or was taken back before it was answered."""


class Reading:
    """Applies events to a state, and collects what they mean for handoffs."""

    __slots__ = ("changes", "state")

    def __init__(self, state: State) -> None:
        self.state = state
        self.changes: list[Change] = []

    def apply(self, event: Event | Unreadable) -> None:
        if (read := MEANINGS.get(type(event))) is not None:
            self.changes.extend(read(self.state, event))
        self.state.apply(event)

    def fold(self, entry: Entry) -> None:
        """Apply all events of an entry."""
        self.state.at, self.state.seq = entry.at, entry.seq + len(entry.events) - 1
        for event in entry.events:
            self.apply(event)


def is_open(state: State, call: str) -> bool:
    """True if this offer has no answer yet, also while a person decides about it."""
    found = state.run.find(call) if state.run else None
    phase = handoff_of(found[1]) if found else None
    return isinstance(phase, Offered) and phase.offer.call == call and phase.index < 0


def tool_of(run: Run | None, call: str) -> str:
    """The tool by which a model asked for this handoff; "" if the sender is code or a rule."""
    turn = run.phase.turn if run is not None and isinstance(run.phase, TURNING) else None
    id = call_of(call)
    while turn is not None and id:
        if found := turn.calls.get(id):
            return found.call.name
        id = branching_call(id)  # a branch that is not sent out yet
    return ""


def _offer(state: State, event: HandoffOffered) -> Iterator[Change]:
    tool = tool_of(state.run, event.call)
    yield Change(event.call, HandoffState.PENDING, event.sender, event.receiver, tool, state.at, offer=event)


def _accept(state: State, event: HandoffAccepted) -> Iterator[Change]:
    if state.run is None or (found := state.run.offered(event.call)) is None:
        return
    _, call, offered = found
    offer, tool = offered.offer, call.call.name
    if offer.mode is Mode.TRANSFER:
        if state.leg >= 0:
            yield from _end_current(state, HandoffState.COMPLETE, True)
        task: str | None = task_id(state.id, state.position)
    else:
        task = None if event.answered else task_id(child_id(state.id, event.call), FIRST_TASK)
    yield Change(event.call, HandoffState.WORKING, offer.sender, event.receiver, tool, offered.at, task=task)


def _reject(state: State, event: HandoffRejected) -> Iterator[Change]:
    yield _change(state, event.call, event.receiver, HandoffState.REJECTED, reason=event.reason)


def _condition(state: State, event: HandoffConditional) -> Iterator[Change]:
    if event.needs_context or event.put_off:
        yield _change(state, event.call, event.receiver, HandoffState.RETURNED, reason=event.words)


def _expire(state: State, event: HandoffExpired) -> Iterator[Change]:
    yield _change(state, event.call, event.receiver, HandoffState.TIMEOUT, reason=event.reason, ok=False)


def _return(state: State, event: HandoffReturned) -> Iterator[Change]:
    if event.declined:
        return
    over = HandoffState.RETURNED if event.success or event.cancelled else HandoffState.FAILED
    ok = True if event.success else False if not event.cancelled and _blames(event.fault) else None
    yield _change(state, event.call, event.receiver, over, reason=event.error, ok=ok)


def _complete(state: State, event: RunCompleted) -> Iterable[Change]:
    return _end_current(state, HandoffState.COMPLETE, True)


def _fail(state: State, event: RunFailed) -> Iterator[Change]:
    yield from _end_current(state, HandoffState.FAILED, False if _blames(event.fault) else None)
    yield from _withdraw(state, "the run failed")


def _fall_back(state: State, event: FellBack) -> Iterator[Change]:
    if event.agent and state.leg >= 0:
        ok = False if _blames(event.fault) else None
        yield _of_record(state.handoffs[state.leg], HandoffState.FAILED, reason=event.reason, ok=ok)
        yield from _withdraw(state, event.reason)


def _cancel(state: State, event: RunCancelled) -> Iterator[Change]:
    if state.run is not None and event.run in (0, state.run.id):
        yield from _end_current(state, HandoffState.RETURNED, None)
        yield from _withdraw(state, "cancelled")


def _resume(state: State, event: RunResumed) -> Iterator[Change]:
    outcome, handoff = state.outcomes.get(event.run), state.work.handoff
    if state.run is None and outcome is not None and outcome.fault and handoff is not None:
        conversation, call = split_handoff(handoff)
        if conversation == state.id:  # else the sender is above, and ends it
            yield Change(call, HandoffState.WORKING, resumed=True)


def _recall(state: State, event: RollbackRequested) -> Iterator[Change]:
    """An offer without an answer, or a delegate that has ended, is taken back at once; work under way ends later."""
    reason = undone_words(event.reason)
    if is_open(state, event.call):
        yield _change(state, event.call, "", HandoffState.RETURNED, reason=reason, counted=False)
    elif (record := record_at(state, event.call)) and _goes_back(record, event):
        yield _of_record(record, HandoffState.RETURNED, reason=record.error or reason, counted=False)
    elif record is not None and event.fault is not None:
        yield _of_record(record, HandoffState.FAILED, reason=event.reason, ok=False if _blames(event.fault) else None)


def _goes_back(record: HandoffRecord, event: RollbackRequested) -> bool:
    over = record.state in (HandoffState.FAILED, HandoffState.TIMEOUT)
    return over and is_back(record) and (event.cleans or record.mode is Mode.DELEGATE)


def _roll_back(state: State, event: HandoffRolledBack) -> Iterator[Change]:
    current = state.handoffs[state.leg].id if state.leg >= 0 else ""
    for call in event.undone:
        if record := record_at(state, call):
            counted = record.id == current and record.state is not HandoffState.FAILED
            yield _of_record(record, HandoffState.RETURNED, reason=event.reason, counted=counted)
    yield from _withdraw(state, undone_words(event.reason))


MEANINGS: dict[type[Any], Callable[[State, Any], Iterable[Change]]] = {
    HandoffOffered: _offer,
    HandoffAccepted: _accept,
    HandoffRejected: _reject,
    HandoffConditional: _condition,
    HandoffExpired: _expire,
    HandoffReturned: _return,
    HandoffRolledBack: _roll_back,
    RollbackRequested: _recall,
    RunCompleted: _complete,
    RunFailed: _fail,
    FellBack: _fall_back,
    RunCancelled: _cancel,
    RunResumed: _resume,
}
"""What each event means for handoffs; any other means nothing."""

FAILURES = frozenset({FellBack, HandoffExpired, HandoffReturned, RollbackRequested, RunFailed})


def may_blame(events: Sequence[Event]) -> bool:
    """True if one of these events may say that a receiver failed."""
    return not FAILURES.isdisjoint(map(type, events)) and any(
        type(event) in FAILURES and not (isinstance(event, HandoffReturned) and event.success) for event in events
    )


def _change(state: State, call: str, receiver: str, over: HandoffState, **more: Any) -> Change:
    """A change of a handoff of the current turn."""
    found = state.run.find(call) if state.run else None
    match handoff_of(found[1]) if found else None:
        case Offered(offer=offer, at=at) if found:
            return Change(call, over, offer.sender, receiver or offer.receiver, found[1].call.name, at, **more)
        case Delegated(index=index):
            return _of_record(state.handoffs[index], over, **more)
        case _:
            return Change(call, over, state.agent, receiver, "", state.at, **more)


def _of_record(record: HandoffRecord, over: HandoffState, **more: Any) -> Change:
    call = split_handoff(record.id)[1]
    return Change(call, over, record.sender, record.receiver, record.tool, record.at, **more)


def _end_current(state: State, over: HandoffState, ok: bool | None) -> Iterator[Change]:
    """End the handoff by which the active agent got its task; a delegate's ends when its sender takes it back."""
    if state.leg >= 0 and (record := state.handoffs[state.leg]):
        failed = record.state is HandoffState.FAILED  # it is being rolled back
        if not failed or over is HandoffState.RETURNED:
            yield _of_record(record, over, ok=ok, counted=not failed)


def _withdraw(state: State, reason: str) -> Iterator[Change]:
    """The offers of the current turn that have no answer are over."""
    for record in open_offers(state, state.run) if state.run else ():
        yield _of_record(record, HandoffState.RETURNED, reason=reason, counted=False)


def _blames(fault: Fault | None) -> bool:
    """True if the receiver itself failed; without a fault, its result was not what was expected."""
    if isinstance(fault, LimitFault):
        return fault.limit == "max_iterations"
    return fault is None or isinstance(fault, BLAMED)
