"""Approvals, limits and cancellations in the read models, without a database."""

import pytest

from changeover.guards.approval import Approve
from changeover.relay.events import (
    ApprovalDecided,
    ApprovalRequested,
    ApprovalWaived,
    CancelRequested,
    Event,
    LimitReached,
    RunCancelled,
    RunStopped,
)
from tests.relay.projection.samples import FAULT, LEG, Leg, at, projected


def test_a_task_waits_while_a_person_is_asked_and_runs_on_when_one_decides():
    made, leg = projected(at(6, ApprovalRequested("3.0", 2, "front", "refund")), LEG)
    assert [row.status for row in made["moved_tasks"]] == ["waiting"]
    [said] = made["messages"]
    assert (said.kind, said.content, said.task_id, said.agent, said.call) == (
        *("status_change", "waiting", "c#2", "front", "3.0"),
    )
    decision = at(7, ApprovalDecided("3.0", "d", Approve()))
    made, leg = projected(decision, leg)
    assert [row.status for row in made["moved_tasks"]] == ["running"]
    assert [(row.kind, row.content) for row in made["messages"]] == [("status_change", "running")]
    made, _ = projected(decision, leg)
    assert set(made) == {"decided_approvals"}


def test_what_is_asked_and_decided_at_once_never_waits():
    events = (ApprovalRequested("3.0", 2, "front", "refund"), ApprovalDecided("3.0", "d", Approve()))
    made, _ = projected(at(6, *events), LEG)
    assert [row.status for row in made["moved_tasks"]] == ["running"]


def test_a_waived_approval_leaves_no_trace():
    assert projected(at(6, ApprovalWaived("3.0", 2)), LEG) == ({}, LEG)


@pytest.mark.parametrize(
    ("event", "kind", "content"),
    [
        (CancelRequested(), "status_change", "cancelling"),
        (LimitReached("max_turns", 50, 2), "error", "the whole run has 2 left of max_turns=50"),
        (RunStopped(1, FAULT), "error", "stopping: the run needs more than max_turns=3"),
    ],
)
def test_what_comes_before_the_end_is_told_and_does_not_end_the_task(event: Event, kind: str, content: str):
    made, leg = projected(at(6, event), LEG)
    assert [(row.kind, row.content, row.task_id) for row in made["messages"]] == [(kind, content, "c#2")]
    assert ("moved_tasks" in made, leg) == (False, LEG)


def test_a_cancelled_run_ends_its_task_and_gives_its_handoff_back():
    working = Leg(5, "c@1", "c:3.0", "billing", "running")
    made, leg = projected(at(6, RunCancelled(1)), working)
    assert made["moved_tasks"] == [("cancelled", None, 5.0, "c", 5)]
    assert made["ended_handoffs"] == [("RETURNED", 5.0, None, "c:3.0")]
    assert [(row.kind, row.content) for row in made["messages"]] == [("status_change", "cancelled")]
    assert leg is not None
    assert leg.status == "cancelled"


def test_a_run_that_is_cancelled_before_its_turn_does_not_end_anothers_task():
    assert projected(at(6, RunCancelled(4)), LEG)[0] == {}
