"""Watcher: checks after every event that handoffs follow the transition table and each task has one owner."""

from collections.abc import Iterator, Sequence
from typing import Any

from changeover import ApprovalRequest
from changeover.facts import State as HandoffState
from changeover.handoffs.protocol import TRANSITIONS, Signal
from changeover.ids import call_of
from changeover.messages import Assistant
from changeover.protocol import HandoffRecord, Mode
from changeover.relay.events import HandoffReturned, HandoffRolledBack, RollbackDone, RollbackRequested, RunResumed
from changeover.relay.result import handoffs_of
from changeover.relay.run import TURNING, Awaiting, Stopping
from changeover.relay.state import State
from changeover.relay.turn import Asked, Delegated, OpenCall
from changeover.stream import Recorded
from changeover.testing import assert_valid_history

OPEN = (HandoffState.PENDING, HandoffState.ACCEPTED, HandoffState.WORKING)
ENDED = (HandoffState.FAILED, HandoffState.TIMEOUT)


def reachable(state: HandoffState) -> set[HandoffState]:
    """All states that a handoff can reach from this one; without pulled agents no claim lapses."""
    found, ahead = {state}, [state]
    while ahead:
        steps = [after for signal, after in TRANSITIONS[ahead.pop()].items() if signal is not Signal.LAPSE]
        ahead += [after for after in steps if after not in found]
        found.update(steps)
    return found


REACHABLE = {state: reachable(state) for state in HandoffState}


class Watcher:
    """Folds every log event by event, and sees what each event does to handoffs."""

    def __init__(self) -> None:
        self.states: dict[str, State] = {}
        self.undone: list[str] = []
        """Handoffs that were rolled back after they were accepted, or not answered in time."""
        self._recalled: set[str] = set()
        """Delegates whose rollback was requested while they worked."""
        self.cleaned: list[str] = []

    def look(self, history: Sequence[Recorded]) -> None:
        """Take in what is new of a conversation and those below it."""
        for record in history:
            state = self.states.setdefault(record.conversation, State(record.conversation))
            if record.position == state.position:
                state.at = record.at
                self._take_in(state, record.event)

    @property
    def seen(self) -> int:
        """How many events there are."""
        return sum(state.position for state in self.states.values())

    def _take_in(self, state: State, event: Any) -> None:
        before = {record.id: record.state for record in handoffs_of(state)}
        state.apply(event)
        after = handoffs_of(state)
        ids = [record.id for record in after]
        assert len(ids) == len(set(ids)), f"one handoff stands there twice: {ids}"
        lost = {id: was for id, was in before.items() if id not in ids}
        assert not lost, f"{event} lost {lost}"
        for record in after:
            was = before.get(record.id, HandoffState.PENDING)
            legal = REACHABLE[was] | ({HandoffState.WORKING} if isinstance(event, RunResumed) else set())
            assert record.state in legal, f"{event} brought {record.id} from {was} to {record.state}"
        self._note_rollback(state, event, before, after)
        if isinstance(event, RollbackDone):
            self.cleaned.append(f"{state.id}:{event.call}<")

    def _note_rollback(
        self, state: State, event: Any, before: dict[str, HandoffState], after: Sequence[HandoffRecord]
    ) -> None:
        """Note which handoffs have to be cleaned up after this event."""
        match event:
            case HandoffRolledBack(undone=undone):
                self.undone += [f"{state.id}:{call}<" for call in undone]
            case RollbackRequested(call=call):
                [record, *_] = [each for each in after if each.id == f"{state.id}:{call}"]
                if record.state is HandoffState.RETURNED and before.get(record.id) in ENDED:
                    self.undone.append(f"{record.id}<")
                elif record.state is HandoffState.WORKING and record.mode is Mode.DELEGATE:
                    self._recalled.add(record.id)
            case HandoffReturned(call=call, success=success):
                if (id := f"{state.id}:{call}") in self._recalled and not success:
                    self.undone.append(f"{id}<")
            case _:
                pass

    def check(self) -> None:
        """Each task has exactly one owner."""
        for state in self.states.values():
            records = handoffs_of(state)
            self._check_transfers(state, [each for each in records if each.mode is Mode.TRANSFER])
            self._check_delegates(state, [each for each in records if each.mode is Mode.DELEGATE])
            self._check_attempts(state, records)
            thread = list(state.thread)
            if thread and isinstance(thread[-1], Assistant) and thread[-1].calls:
                thread.pop()  # its answers come when they are all there
            assert_valid_history(thread)

    def _check_transfers(self, state: State, records: Sequence[HandoffRecord]) -> None:
        working = [record for record in records if record.state is HandoffState.WORKING]
        assert len(working) <= 1, f"several have {state.id}: {working}"
        if working:
            assert (working[0].receiver, state.run is not None) == (state.agent, True), f"no agent works on {working}"
        if state.run is None:
            assert not [record for record in records if record.state in OPEN], f"{state.id} ended with {records}"

    def _check_delegates(self, state: State, records: Sequence[HandoffRecord]) -> None:
        phases = [call.phase for call in _calls(state)]
        out = {f"{state.id}:{phase.offer.call}" for phase in phases if isinstance(phase, Delegated)}
        working = {record.id for record in records if record.state is HandoffState.WORKING}
        assert working == out, f"{working} are at work, and {out} are awaited"

    def _check_attempts(self, state: State, records: Sequence[HandoffRecord]) -> None:
        """One handoff of a call is open at a time: a receiver that declined is out of it."""
        calls = [call_of(record.id.rpartition(":")[2]) for record in records if record.state in OPEN]
        assert len(calls) == len(set(calls)), f"a task was offered to several at once: {records}"

    def under_way(self) -> Iterator[State]:
        return (state for state in self.states.values() if state.run or state.inbox)

    def awaited(self) -> set[str]:
        """What people have to decide."""
        return {request.id for state in self.states.values() for request in _requests(state)}


def _calls(state: State) -> list[OpenCall]:
    """The calls of the turn that is under way."""
    turn = state.run.phase.turn if state.run and isinstance(state.run.phase, TURNING) else None
    return list(turn.calls.values()) if turn else []


def _requests(state: State) -> list[ApprovalRequest]:
    """What people have to decide before it goes on here."""
    if state.run and isinstance(state.run.phase, Stopping):
        return []
    own = [state.run.phase.request] if state.run and isinstance(state.run.phase, Awaiting) else []
    return [*own, *(call.phase.request for call in _calls(state) if isinstance(call.phase, Asked))]
