"""What each event means for handoffs, before the state changes."""

import pytest

from changeover.facts import Mode, State
from changeover.faults import LimitFault, ModelFault
from changeover.relay.events import (
    Event,
    HandoffAccepted,
    HandoffExpired,
    HandoffRejected,
    HandoffReturned,
    RunCancelled,
    RunCompleted,
    RunFailed,
)
from changeover.relay.projection.changes import Change, Reading
from tests.relay.projection.samples import LEG, Leg, Past, at, offered, state_at

WORKING = Leg(5, "c@1", "c:3.0", "billing", "running")


def changes(leg: Leg, *events: Event, past: Past = Past()) -> list[Change]:  # noqa: B008
    entry = at(9, *events)
    reading = Reading(state_at(entry, leg, past))
    reading.fold(entry)
    return reading.changes


@pytest.mark.parametrize(
    ("event", "state", "ok"),
    [
        (RunCompleted(1), State.COMPLETE, True),
        (RunFailed(1, ModelFault("billing", "it broke")), State.FAILED, False),
        (RunFailed(1, LimitFault("max_turns", 3)), State.FAILED, None),
        (RunCancelled(1), State.RETURNED, None),
    ],
    ids=repr,
)
def test_the_end_of_a_run_ends_the_handoff_of_the_active_agent(event: Event, state: State, ok: bool | None):
    [change] = changes(WORKING, event)
    assert (change.call, change.state, change.ok, change.since, change.counted) == ("3.0", state, ok, 1.0, True)


@pytest.mark.parametrize(
    ("event", "state", "ok"),
    [
        (HandoffRejected("3.0", 2, "billing", "closed"), State.REJECTED, None),
        (HandoffExpired("3.0", 2, "billing", "late"), State.TIMEOUT, False),
        (HandoffReturned("3.0", 2, "billing", True), State.RETURNED, True),
        (HandoffReturned("3.0", 2, "billing", False, error="it broke"), State.FAILED, False),
        (HandoffReturned("3.0", 2, "billing", False, cancelled=True), State.RETURNED, None),
    ],
    ids=repr,
)
def test_an_answer_ends_its_offer_with_the_facts_of_the_offer(event: Event, state: State, ok: bool | None):
    [change] = changes(LEG, event, past=Past(offers=(offered("3.0", mode=Mode.DELEGATE),)))
    assert (change.call, change.state, change.ok) == ("3.0", state, ok)
    assert (change.sender, change.receiver, change.tool, change.since) == ("front", "billing", "handoff", 1.0)


def test_a_transfer_ends_the_handoff_before_it():
    first, second = changes(WORKING, HandoffAccepted("7.0", 5, "tech"), past=Past(offers=(offered("7.0", "tech"),)))
    assert (first.call, first.state, first.ok) == ("3.0", State.COMPLETE, True)
    assert (second.call, second.state, second.task) == ("7.0", State.WORKING, "c#9")


def test_circuit_breakers_do_not_count_offers_that_the_end_of_a_run_withdraws():
    [change] = changes(LEG, RunCancelled(1), past=Past(offers=(offered("3.0"),)))
    assert (change.call, change.state, change.reason, change.counted) == ("3.0", State.RETURNED, "cancelled", False)


def test_an_answer_to_no_offer_means_nothing():
    assert changes(LEG, HandoffAccepted("3.0", 2, "billing")) == []
