"""The transition table of a handoff: which state may follow which, decided here and nowhere else."""

from __future__ import annotations

from enum import StrEnum

from changeover.errors import IllegalTransition
from changeover.facts import State


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


TRANSITIONS: dict[State, dict[Signal, State]] = {
    State.PENDING: {
        Signal.ACCEPT: State.ACCEPTED,
        Signal.REJECT: State.REJECTED,
        Signal.EXPIRE: State.TIMEOUT,
        Signal.RETURN: State.RETURNED,
    },
    State.ACCEPTED: {
        Signal.START: State.WORKING,
        Signal.REJECT: State.REJECTED,
        Signal.EXPIRE: State.TIMEOUT,
        Signal.RETURN: State.RETURNED,
        Signal.LAPSE: State.PENDING,
    },
    State.WORKING: {
        Signal.COMPLETE: State.COMPLETE,
        Signal.FAIL: State.FAILED,
        Signal.EXPIRE: State.TIMEOUT,
        Signal.RETURN: State.RETURNED,
        Signal.LAPSE: State.PENDING,
    },
    State.COMPLETE: {Signal.RETURN: State.RETURNED},
    State.FAILED: {Signal.RETURN: State.RETURNED},
    State.TIMEOUT: {Signal.RETURN: State.RETURNED},
    State.REJECTED: {},
    State.RETURNED: {},
}


def advance(state: State, *signals: Signal) -> State:
    """The state after these signals; raises IllegalTransition at the first that the table does not allow."""
    for signal in signals:
        after = TRANSITIONS[state].get(signal)
        if after is None:
            raise IllegalTransition(state, signal, list(TRANSITIONS[state]))
        state = after
    return state


def concluded(state: State, *signals: Signal) -> State:
    """The state after work has ended. Work that had lapsed into the queue counts as started."""
    lapsed = state is State.PENDING and signals[0] in (Signal.COMPLETE, Signal.FAIL)
    return advance(state, *((Signal.ACCEPT, Signal.START) if lapsed else ()), *signals)
