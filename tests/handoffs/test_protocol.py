"""The life of a handoff: what may follow what, and nothing else."""

from itertools import product

import pytest

from changeover.errors import IllegalTransition, ProtocolError
from changeover.facts import State
from changeover.handoffs.protocol import TRANSITIONS, Signal, advance

LEGAL = {
    ("PENDING", "accept"): "ACCEPTED",
    ("PENDING", "reject"): "REJECTED",
    ("PENDING", "expire"): "TIMEOUT",
    ("PENDING", "return"): "RETURNED",
    ("ACCEPTED", "start"): "WORKING",
    ("ACCEPTED", "reject"): "REJECTED",
    ("ACCEPTED", "expire"): "TIMEOUT",
    ("ACCEPTED", "return"): "RETURNED",
    ("ACCEPTED", "lapse"): "PENDING",
    ("WORKING", "complete"): "COMPLETE",
    ("WORKING", "fail"): "FAILED",
    ("WORKING", "expire"): "TIMEOUT",
    ("WORKING", "return"): "RETURNED",
    ("WORKING", "lapse"): "PENDING",
    ("COMPLETE", "return"): "RETURNED",
    ("FAILED", "return"): "RETURNED",
    ("TIMEOUT", "return"): "RETURNED",
}


@pytest.mark.parametrize(("state", "signal"), list(product(State, Signal)))
def test_each_signal_leads_from_each_state_exactly_where_the_table_says(state: State, signal: Signal):
    after = LEGAL.get((state, signal))
    if after is not None:
        assert advance(state, signal) == after
        return
    with pytest.raises(IllegalTransition) as caught:
        advance(state, signal)
    assert (caught.value.state, caught.value.signal) == (state, signal)
    assert caught.value.possible == tuple(TRANSITIONS[state])
    assert f"a handoff that is {state} cannot {signal}" in str(caught.value)


def test_the_table_has_every_state():
    assert set(TRANSITIONS) == set(State)


def test_signals_are_followed_one_after_the_other():
    assert advance(State.PENDING, Signal.ACCEPT, Signal.START, Signal.COMPLETE) is State.COMPLETE
    assert advance(State.PENDING) is State.PENDING


def test_the_first_illegal_signal_stops_the_rest():
    with pytest.raises(ProtocolError, match="a handoff that is ACCEPTED cannot complete; it allows only start, "):
        advance(State.PENDING, Signal.ACCEPT, Signal.COMPLETE, Signal.START)


def test_final_states_allow_no_signal():
    with pytest.raises(IllegalTransition, match="it allows nothing"):
        advance(State.RETURNED, Signal.RETURN)
