"""The transition table of a handoff: which state may follow which, decided here and nowhere else."""

from __future__ import annotations

from enum import StrEnum

from changeover.errors import IllegalTransition
from changeover.facts import State as HandoffState


class Signal(StrEnum):
    """What can happen to a handoff. LAPSE means that a worker's claim on it expired."""

    ACCEPT = "accept"
    REJECT = "reject"
    EXPIRE = "expire"
    START = "start"
    COMPLETE = "complete"
    FAIL = "fail"
    RETURN = "return"
    LAPSE = "lapse"


TRANSITIONS: dict[HandoffState, dict[Signal, HandoffState]] = {
    HandoffState.PENDING: {
        Signal.ACCEPT: HandoffState.ACCEPTED,
        Signal.REJECT: HandoffState.REJECTED,
        Signal.EXPIRE: HandoffState.TIMEOUT,
        Signal.RETURN: HandoffState.RETURNED,
    },
    HandoffState.ACCEPTED: {
        Signal.START: HandoffState.WORKING,
        Signal.REJECT: HandoffState.REJECTED,
        Signal.EXPIRE: HandoffState.TIMEOUT,
        Signal.RETURN: HandoffState.RETURNED,
        Signal.LAPSE: HandoffState.PENDING,
    },
    HandoffState.WORKING: {
        Signal.COMPLETE: HandoffState.COMPLETE,
        Signal.FAIL: HandoffState.FAILED,
        Signal.EXPIRE: HandoffState.TIMEOUT,
        Signal.RETURN: HandoffState.RETURNED,
        Signal.LAPSE: HandoffState.PENDING,
    },
    HandoffState.COMPLETE: {Signal.RETURN: HandoffState.RETURNED},
    HandoffState.FAILED: {Signal.RETURN: HandoffState.RETURNED},
    HandoffState.TIMEOUT: {Signal.RETURN: HandoffState.RETURNED},
    HandoffState.REJECTED: {},
    HandoffState.RETURNED: {},
}


def advance(state: HandoffState, *signals: Signal) -> HandoffState:
    """The state after these signals; raises IllegalTransition at the first that the table does not allow."""
    for signal in signals:
        after = TRANSITIONS[state].get(signal)
        if after is None:
            raise IllegalTransition(state, signal, list(TRANSITIONS[state]))
        state = after
    return state


def concluded(state: HandoffState, *signals: Signal) -> HandoffState:
    """The state after work has ended. Work that had lapsed into the queue counts as started."""
    lapsed = state is HandoffState.PENDING and signals[0] in (Signal.COMPLETE, Signal.FAIL)
    return advance(state, *((Signal.ACCEPT, Signal.START) if lapsed else ()), *signals)
