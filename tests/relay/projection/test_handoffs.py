"""Handoffs in the read models, without a database: transfers, delegates and answers."""

from __future__ import annotations

from typing import Any

import pytest

from changeover.facts import Mode
from changeover.guards.approval import Approve, Decision, Edit, Reject, Respond
from changeover.messages import Call
from changeover.relay.events import (
    ApprovalDecided,
    ApprovalRequested,
    ContextPacked,
    Entry,
    Event,
    FunctionReturned,
    HandoffAccepted,
    HandoffConditional,
    HandoffExpired,
    HandoffOffered,
    HandoffRejected,
    HandoffReturned,
    ModelReplied,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunResumed,
    UserSpoke,
)
from tests.relay.projection.samples import FAULT, LEG, Leg, Past, at, offered, projected
from tests.stores.entries import delegate, handing_over

REPLY = ModelReplied("front", 2, calls=(Call("x", "handoff", {}), Call("y", "ask", {})))
OFFER = HandoffOffered("3.0", 2, "front", "billing", "yours", deadline=65.0)
AGAIN = HandoffOffered("3.0+1", 2, "front", "tech", "yours", attempt=2, retry_of="c:3.0", declined_by=("billing",))
REJECTED = HandoffRejected("3.0", 2, "billing", "closed")


def said(made: dict[str, list[Any]]) -> list[tuple[str, str, str | None, str | None]]:
    """The messages of an entry: kind, content, and the agent and the call that they belong to."""
    return [(row.kind, row.content, row.agent, row.call) for row in made.get("messages", [])]


def test_an_offer_that_is_not_answered_yet_is_a_row_that_is_pending():
    made, leg = projected(at(4, OFFER), LEG, Past({3: REPLY}))
    [row] = made["handoffs"]
    assert (row.state, row.task_id, row.tool, row.deadline) == ("PENDING", None, "handoff", 65.0)
    assert (row.offered_at, row.accepted_at, row.ended_at, row.attempt, row.retry_of) == (5.0, None, None, 1, None)
    assert (set(made), leg) == ({"handoffs"}, LEG)


def test_a_handoff_that_follows_a_declined_one_says_which_and_bears_the_name_of_the_same_tool():
    [row] = projected(at(6, AGAIN), LEG, Past({3: REPLY}))[0]["handoffs"]
    assert (row.id, row.receiver, row.tool) == ("c:3.0+1", "tech", "handoff")
    assert (row.attempt, row.retry_of) == (2, "c:3.0")


@pytest.mark.parametrize(
    ("event", "state", "reason", "content"),
    [
        (REJECTED, "REJECTED", "closed", "billing rejected it: closed"),
        (
            HandoffConditional("3.0", 2, "billing", needs_context=("order", "day")),
            *("RETURNED", "it has to know order, day", "billing did not accept yet: it has to know order, day"),
        ),
    ],
    ids=["rejected", "context"],
)
def test_a_handoff_that_is_declined_ends_and_its_sender_works_on(event: Event, state: str, reason: str, content: str):
    made, leg = projected(at(5, event), LEG)
    assert made.pop("ended_handoffs") == [(state, 5.0, reason, "c:3.0")]
    assert said(made) == [("status_change", content, "front", "3.0")]
    assert (set(made), leg) == ({"messages"}, LEG)


def test_what_needs_a_permission_is_still_pending():
    made, leg = projected(at(5, HandoffConditional("3.0", 2, "billing", needs_permission=("to pay",))), LEG)
    assert said(made) == [
        ("status_change", "billing did not accept yet: it needs permission for to pay", "front", "3.0")
    ]
    assert (set(made), leg) == ({"messages"}, LEG)


def test_a_handoff_that_is_too_late_ends_with_a_result_for_its_call():
    made, leg = projected(at(5, HandoffExpired("3.0", 2, "billing", "it was not done in time")), LEG)
    assert made.pop("ended_handoffs") == [("TIMEOUT", 5.0, "it was not done in time", "c:3.0")]
    assert said(made) == [("tool_result", "billing: it was not done in time", "front", "3.0")]
    assert (set(made), leg) == ({"messages"}, LEG)


def test_an_offer_that_is_made_and_declined_at_once_is_one_row_that_has_ended():
    made, _ = projected(at(3, REPLY, OFFER, REJECTED, AGAIN, HandoffAccepted("3.0+1", 2, "tech")), LEG)
    first, second = made["handoffs"]
    assert (first.id, first.state, first.task_id) == ("c:3.0", "PENDING", None)
    assert made["ended_handoffs"] == [("REJECTED", 5.0, "closed", "c:3.0")]
    assert (second.id, second.state, second.task_id, second.accepted_at) == ("c:3.0+1", "WORKING", "c#7", 5.0)
    assert [(row.id, row.handoff_id, row.agent) for row in made["tasks"]] == [("c#7", "c:3.0+1", "tech")]


def test_what_follows_a_declined_handoff_belongs_to_the_call_that_began_it():
    past = Past(offers=(offered("3.1+1", mode=Mode.DELEGATE),))
    made, _ = projected(at(9, HandoffAccepted("3.1+1", 2, "tech", Mode.DELEGATE)), LEG, past)
    assert made["accepted_handoffs"] == [("WORKING", "c/3.1+1#2", 5.0, "c:3.1+1")]
    assert said(made) == [("subtask_created", "c/3.1+1", "front", "3.1")]
    made, _ = projected(at(12, HandoffReturned("3.1+1", 2, "tech", True, "Three.")), LEG)
    assert (made["ended_handoffs"], said(made)) == (
        [("RETURNED", 5.0, None, "c:3.1+1")],
        [("tool_result", "Three.", "front", "3.1")],
    )
    past = Past(offers=(offered("3.0+1", mode=Mode.TRANSFER),))
    made, leg = projected(at(9, HandoffAccepted("3.0+1", 2, "tech")), LEG, past)
    assert (said(made), leg and leg.handoff_id) == ([("handoff", "c:3.0+1", "front", "3.0")], "c:3.0+1")


def test_a_task_that_no_delegate_took_comes_back_and_leaves_its_handoffs_as_they_are():
    error = "tech did not take it: busy"
    made, leg = projected(at(9, HandoffReturned("3.1+1", 2, "tech", False, error=error, declined=True)), LEG)
    assert (said(made), set(made), leg) == ([("tool_result", error, "front", "3.1")], {"messages"}, LEG)


def test_a_person_who_is_delegated_to_answers_without_a_task_elsewhere():
    events = (
        ApprovalDecided("3.1=task", "d", Respond("Yes."), "ana"),
        HandoffAccepted("3.1", 2, "ana", Mode.DELEGATE, "ana", answered=True),
        HandoffReturned("3.1", 2, "ana", True, "Yes."),
    )
    waiting = Leg(2, "c@1", None, "front", "waiting")
    made, _ = projected(at(9, *events), waiting, Past(offers=(offered("3.1", mode=Mode.DELEGATE),)))
    assert made["closed_handoffs"] == [("RETURNED", None, 5.0, 5.0, None, "c:3.1")]
    assert said(made) == [("status_change", "running", "front", None), ("tool_result", "Yes.", "front", "3.1")]
    assert [row.status for row in made["moved_tasks"]] == ["running"]


def test_a_person_to_whom_it_is_handed_over_has_a_task_and_ends_it_with_the_answer():
    events = (
        ApprovalDecided("3.0=task", "d", Respond("Yes."), "ana"),
        HandoffAccepted("3.0", 2, "ana", by="ana"),
        FunctionReturned("ana", 10, "Yes.", by="ana"),
        RunCompleted(1),
    )
    waiting = Leg(2, "c@1", None, "front", "waiting")
    made, leg = projected(at(9, *events), waiting, Past(offers=(offered("3.0", "ana"),)))
    tasks = [(row.id, row.agent, row.status, row.output) for row in made["tasks"]]
    assert tasks == [("c#10", "ana", "completed", "Yes.")]
    assert [(row.position, row.status, row.output) for row in made["moved_tasks"]] == [(2, "completed", None)]
    assert [row[:2] for row in said(made)] == [
        ("status_change", "running"),
        ("handoff", "c:3.0"),
        ("assistant_message", "Yes."),
    ]
    assert leg is not None
    assert (leg.agent, leg.status) == ("ana", "completed")


@pytest.mark.parametrize("kind", ["task", "permission", "escalation"])
def test_what_a_person_is_asked_about_a_handoff_waits_under_a_name_of_its_own(kind: Any):
    asked = ApprovalRequested(f"3.0+1={kind}", 2, "front", "handoff", {"n": 1}, "tech", "yours", kind=kind)
    made, leg = projected(at(6, asked), LEG)
    [row] = made["approvals"]
    assert (row.kind, row.call, row.receiver, row.message, row.status) == (
        *(kind, f"3.0+1={kind}", "tech", "yours", "pending"),
    )
    assert said(made) == [("status_change", "waiting", "front", "3.0")]
    assert leg is not None
    assert leg.status == "waiting"


def test_what_a_person_is_asked_as_the_active_member_belongs_to_her_task():
    active = Leg(5, "c@1", "c:3.0", "ana", "pending")
    made, _ = projected(at(6, ApprovalRequested("5=task", 5, "front", "", receiver="ana", kind="task")), active)
    assert [(row.kind, row.task_id, row.agent) for row in made["messages"]] == [("status_change", "c#5", "ana")]


@pytest.mark.parametrize(
    ("call", "decision", "content"),
    [
        ("3.0", Respond("Paid."), ["Paid."]),
        ("3.0", Respond(""), [""]),
        ("3.0", Reject("no"), ["not approved by ana: no"]),
        ("3.0", Approve(), []),
        ("3.0+2=escalation", Respond("Paid."), ["Paid."]),
        ("3.0+2=escalation", Reject("no"), ["given back by ana: no"]),
        ("3.0+2=escalation", Reject(), ["given back by ana"]),
        ("3.0+2=escalation", Edit(receiver="tech"), []),
        ("3.0=task", Respond("Paid."), []),
        ("3.0=task", Reject("no"), []),
        ("3.0=permission", Reject("no"), []),
    ],
    ids=repr,
)
def test_a_decision_is_the_result_of_a_call_if_nothing_else_will_be(call: str, decision: Decision, content: list[str]):
    made, _ = projected(at(6, ApprovalDecided(call, "d", decision, "ana")), LEG)
    assert said(made) == [("tool_result", text, "front", "3.0") for text in content]
    [row] = made["decided_approvals"]
    assert (row.decided_by, row.id) == ("ana", f"c:{call}:d")


def test_a_delegate_gets_its_task_elsewhere_and_its_sender_works_on():
    made, leg = projected(handing_over(mode=Mode.DELEGATE), LEG)
    assert leg == LEG
    assert "tasks" not in made
    assert "moved_tasks" not in made
    [handoff] = made["handoffs"]
    assert (handoff.state, handoff.mode, handoff.task_id, handoff.tool) == ("WORKING", "delegate", "c/3.0#2", "handoff")
    said = made["messages"][-1]
    assert (said.kind, said.content, said.task_id, said.agent, said.call) == (
        *("subtask_created", "c/3.0", "c#2", "front", "3.0"),
    )


def test_a_delegate_that_is_accepted_later_gets_its_task_elsewhere_too():
    past = Past(offers=(offered("3.1", mode=Mode.DELEGATE),))
    made, leg = projected(at(10, HandoffAccepted("3.1", 2, "billing")), LEG, past)
    assert made["accepted_handoffs"] == [("WORKING", "c/3.1#2", 5.0, "c:3.1")]
    assert (leg, [row.kind for row in made["messages"]]) == (LEG, ["subtask_created"])


def test_a_context_that_was_packed_is_told_of_by_its_tokens():
    made, leg = projected(at(6, ContextPacked("3.0", 2, "summary", 120, briefing="in short")), LEG)
    assert (made, leg) == ({"packed_handoffs": [("summary", 120, None, "c:3.0")]}, LEG)


def test_a_context_that_could_not_be_packed_is_told_of_with_what_was_given_instead():
    made, leg = projected(at(6, ContextPacked("3.0+1", 2, "recent", 9, error="nobody to summarise it")), LEG)
    assert made.pop("packed_handoffs") == [("recent", 9, "nobody to summarise it", "c:3.0+1")]
    [said] = made.pop("messages")
    assert (said.kind, said.content, said.task_id, said.agent, said.call) == (
        *("error", "nobody to summarise it", "c#2", "front", "3.0"),
    )
    assert (made, leg) == ({}, LEG)


@pytest.mark.parametrize(
    ("returned", "state", "content"),
    [
        (HandoffReturned("3.0", 2, "billing", True, "found"), "RETURNED", "found"),
        (HandoffReturned("3.0", 2, "billing", True), "RETURNED", ""),
        (HandoffReturned("3.0", 2, "billing", False, error="it broke"), "FAILED", "it broke"),
        (HandoffReturned("3.0", 2, "billing", False), "FAILED", "failed"),
        (HandoffReturned("3.0", 2, "billing", False, cancelled=True), "RETURNED", "cancelled"),
    ],
    ids=repr,
)
def test_what_a_delegate_comes_back_with_is_the_result_of_the_call(returned: HandoffReturned, state: str, content: str):
    made, leg = projected(at(9, returned), LEG)
    assert made.pop("ended_handoffs") == [(state, 5.0, returned.error or None, "c:3.0")]
    [said] = made.pop("messages")
    assert (said.kind, said.content, said.task_id, said.call) == ("tool_result", content, "c#2", "3.0")
    assert (made, leg) == ({}, LEG)


def test_a_delegates_first_task_knows_whom_it_serves_and_leaves_their_handoff_alone():
    made, leg = projected(delegate("c/3.0/7.1", "c"), None)
    [task] = made["tasks"]
    assert (task.id, task.master_id, task.parent_id, task.handoff_id) == ("c/3.0/7.1#2", "c", "c/3.0#2", "c/3.0:7.1")
    assert [(row.content, row.agent) for row in made["messages"]] == [("look it up", "front")]
    for ending in (RunCompleted(1), RunFailed(1, FAULT), RunCancelled(1), RunResumed(1)):
        made, _ = projected(Entry("c/3.0/7.1", "c", 3, "x", 5.0, (ending,)), leg)
        assert "ended_handoffs" not in made
        assert len(made["moved_tasks"]) == 1


def test_what_a_delegate_hands_over_itself_ends_with_its_leg():
    _, leg = projected(delegate("c/3.0", "c"), None)
    transfer = handing_over(3, "c/3.0")
    transfer.root = "c"
    made, leg = projected(transfer, leg)
    assert "ended_handoffs" not in made
    assert [(row.parent_id, row.handoff_id) for row in made["tasks"]] == [("c/3.0#2", "c/3.0:3.0")]
    made, _ = projected(Entry("c/3.0", "c", 6, "x", 5.0, (RunCancelled(1),)), leg)
    assert made["ended_handoffs"] == [("RETURNED", 5.0, None, "c/3.0:3.0")]


@pytest.mark.parametrize(
    ("call", "tool"),
    [("4", ""), ("5.0", "look"), ("5.1", "ask"), ("5.1.2", "ask"), ("5.9", ""), ("6.0", ""), ("7", "")],
)
def test_a_handoff_is_named_after_the_call_that_led_to_it_if_there_was_one(call: str, tool: str):
    reply = ModelReplied("front", 2, calls=(Call("x", "look"), Call("y", "ask")))
    [row] = projected(at(9, HandoffOffered(call, 2, "front", "b")), LEG, Past({5: reply, 6: UserSpoke("hi")}))[0][
        "handoffs"
    ]
    assert row.tool == tool
    here = at(5, reply, UserSpoke("hi"), HandoffOffered(call, 2, "front", "b"))
    assert projected(here, LEG, Past())[0]["handoffs"][0].tool == tool
