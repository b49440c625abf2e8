"""Delegates in the read models, without a database."""

import pytest

from changeover.facts import Mode
from changeover.messages import Call
from changeover.relay.events import (
    ContextPacked,
    Entry,
    HandoffAccepted,
    HandoffOffered,
    HandoffReturned,
    ModelReplied,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunResumed,
    UserSpoke,
)
from changeover.stores.legs import Offered
from tests.stores.entries import delegate, handing_over
from tests.stores.projection.samples import FAULT, LEG, Past, at, projected


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
    past = Past(offers={"c:3.1": Offered("merge", "{}", "delegate")})
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
