"""CircuitBreaker: what opens and closes the circuit of a receiver, and what whoever wanted to hand over is told."""

import pytest

from changeover.errors import MisconfiguredError
from changeover.facts import Ledger
from changeover.guards import Allow, Circuit, CircuitBreaker, Deny
from changeover.guards.breaker import Ended, admitted, breaker_among, closed, forced, noted
from changeover.guards.deadlock import Deadlock
from changeover.guards.guard import Facts, Offer, Tripped
from changeover.team import Team
from tests.guards import circuit_table
from tests.guards.circuit_table import TABLE, WHO, End, Force, Reset, Stand, Step


def after(circuit: Circuit, step: Step) -> Circuit:
    """The circuit after a step, which has to come out as it says."""
    match step:
        case circuit_table.Offer(handoff, at, until):
            found = admitted(circuit, handoff, at)
            if until is not None:
                assert found == Tripped(WHO, circuit.failures, until or None, circuit.opened_at or 0.0)
                return circuit
            assert isinstance(found, Circuit)
            return found
        case End(handoff, ok, at, began, breaker):
            return noted(circuit, Ended(handoff, WHO, ok, began, breaker), at)
        case Force(at):
            return forced(circuit, at)
        case Reset(at, changed):
            assert circuit.clean is not changed
            return closed(circuit, at) if changed else circuit


@pytest.mark.parametrize(("steps", "stand"), TABLE.values(), ids=TABLE)
def test_a_circuit_has_the_state_that_the_table_says(steps: list[Step], stand: Stand):
    circuit = Circuit(WHO)
    for step in steps:
        circuit = after(circuit, step)
    assert Stand(circuit.state, circuit.failures, circuit.openings, circuit.until, circuit.probe) == stand


def test_an_outcome_that_changes_nothing_returns_the_same_circuit():
    clean, failed = Circuit(WHO, closed_at=5.0), Circuit(WHO, failures=3, opened_at=1.0, until=31.0, cooldown=30.0)
    breaker = CircuitBreaker()
    assert noted(clean, Ended("a", WHO, True, 6.0, breaker), 7.0) is clean
    assert noted(failed, Ended("a", WHO, False, 0.5, breaker), 7.0) is failed
    assert admitted(clean, "a", 6.0) is clean


def judged(tripped: Tripped | None) -> object:
    return CircuitBreaker().check(Offer("triage", WHO), Ledger(), Facts(tripped=tripped))


def test_a_breaker_allows_handoffs_to_a_receiver_without_a_circuit():
    assert judged(None) == Allow()


@pytest.mark.parametrize(
    ("tripped", "told"),
    [
        (
            Tripped(WHO, 3, 1_893_456_029.2),
            "the circuit of clerk is open after 3 failures in a row; it is tried again at 2030-01-01 00:00:30 UTC",
        ),
        (
            Tripped(WHO, 1, 1_893_456_000.0),
            "the circuit of clerk is open after 1 failure; it is tried again at 2030-01-01 00:00:00 UTC",
        ),
        (
            Tripped(WHO, 1, 1e300),
            "the circuit of clerk is open after 1 failure; it is tried again at 9999-12-30 00:00:00 UTC",
        ),
        (Tripped(WHO, 0, None), "the circuit of clerk was opened by hand, and stays open until it is reset"),
    ],
)
def test_a_refusal_says_why_the_circuit_is_open_and_until_when(tripped: Tripped, told: str):
    assert judged(tripped) == Deny(told)


@pytest.mark.parametrize(
    ("breaker", "why"),
    [
        (CircuitBreaker(threshold=0), "threshold=0 must be"),
        (CircuitBreaker(threshold=True), "threshold=True must be"),
        (CircuitBreaker(threshold=1.5), "threshold=1.5 must be"),  # type: ignore[arg-type]
        (CircuitBreaker(cooldown=0), "cooldown=0 must be"),
        (CircuitBreaker(cooldown=float("nan")), "cooldown=nan must be"),
        (CircuitBreaker(cooldown=1e9), "cooldown=1000000000.0 must be"),
        (CircuitBreaker(cooldown="soon"), "cooldown='soon' must be"),  # type: ignore[arg-type]
    ],
)
def test_a_breaker_that_cannot_work_is_a_fault_of_its_team(breaker: CircuitBreaker, why: str):
    with pytest.raises(MisconfiguredError, match=f"the team has a CircuitBreaker whose {why}"):
        Team([], guards=[breaker])


def test_the_first_breaker_among_guards_counts():
    first = CircuitBreaker(1)
    assert breaker_among([Deadlock(), first, CircuitBreaker()]) is first
    assert breaker_among([Deadlock()]) is None
