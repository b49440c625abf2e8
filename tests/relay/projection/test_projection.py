"""From events to rows, without a database."""

from typing import get_args

import msgspec
import pytest

from changeover.messages import Call
from changeover.relay.events import (
    Event,
    FunctionReturned,
    HandoffAccepted,
    HandoffOffered,
    ModelReplied,
    ResultJudged,
    RunCompleted,
    RunStarted,
    ToolFinished,
    Unreadable,
    UserSpoke,
)
from changeover.relay.projection.projection import PROJECTIONS
from changeover.relay.projection.rows import FIELDS
from changeover.relay.run import Replied
from changeover.stores.sql import schema
from changeover.stores.sql.compiler import Compiler
from changeover.stores.sql.statements import writes
from changeover.tools.command import Directive
from tests.relay.projection.samples import LEG, Leg, Past, at, offered, projected, projected_from, state_at
from tests.stores.entries import handing_over, opening


def test_every_event_has_its_meaning():
    assert set(PROJECTIONS) == {*get_args(Event), Unreadable}


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_rows_are_bound_in_the_order_of_their_fields(dialect: str):
    assert {name: statement.names for name, statement in writes(Compiler(dialect)).items()} == FIELDS


def test_a_whole_row_has_a_field_for_every_column():
    for name in ("tasks", "messages", "handoffs", "approvals", "entries"):
        assert tuple(schema.METADATA.tables[name].columns.keys()) == FIELDS[name]
    assert tuple(schema.conversations.columns.keys()) == FIELDS["new_conversations"]


def test_the_beginning_of_a_conversation_needs_to_know_nothing():
    made, leg = projected(opening(text="hi"), None)
    assert [row.task_id for row in made["messages"]] == ["c#2"]
    assert leg == Leg(2, "c@1", None, "front", "running", "{}", "hi")


def test_several_changes_to_one_row_are_one_write():
    made, leg = projected(handing_over(), LEG)
    assert {name: len(each) for name, each in made.items()} == {
        "tasks": 1,
        "moved_tasks": 1,
        "messages": 2,
        "handoffs": 1,
    }
    assert made["moved_tasks"][0].status == "completed"
    assert made["handoffs"][0].state == "WORKING"
    assert leg == Leg(5, "c@1", "c:3.0", "billing", "pending", '{"a":1}', "hello")


def test_a_handoff_that_is_accepted_later_becomes_one_then():
    reply = ModelReplied("front", 2, calls=(Call("x", "look"), Call("y", "to_billing")))
    offer = HandoffOffered("3.1", 2, "front", "billing", variables={"b": 2})
    made, leg = projected(at(9, offer), LEG, Past({3: reply}))
    [row] = made["handoffs"]
    assert (row.state, row.tool, row.task_id, leg) == ("PENDING", "to_billing", None, LEG)
    accepted = at(10, HandoffAccepted("3.1", 2, "billing"))
    made, leg = projected(accepted, LEG, Past(offers=(offered("3.1", variables={"b": 2}),)))
    assert made["accepted_handoffs"] == [("WORKING", "c#10", 5.0, "c:3.1")]
    assert leg == Leg(10, "c@1", "c:3.1", "billing", "pending", '{"a":1,"b":2}', "hello")


def test_what_was_said_earlier_gets_its_task_when_a_run_takes_it_up():
    made, leg = projected(at(9, RunStarted(4, "front")), LEG, Past({4: UserSpoke("and now?", context={"b": 2})}))
    assert made["given_messages"] == [("c#9", "c", 4)]
    assert leg == Leg(9, "c@4", None, "front", "running", '{"a":1,"b":2}', "and now?")


def test_a_function_that_only_says_where_to_go_says_nothing():
    made, _ = projected(at(6, FunctionReturned("front", 2, "", Directive(goto="billing"))), LEG)
    assert made == {}


@pytest.mark.parametrize(
    ("events", "output"),
    [
        ((ModelReplied("front", 2, "Hello."), RunCompleted(1)), "Hello."),
        ((FunctionReturned("front", 2, "Hello."), RunCompleted(1)), "Hello."),
        ((ToolFinished("3.0", 2, "seen"), RunCompleted(1, "That is all.")), "That is all."),
        ((ModelReplied("front", 2, "Hello."), RunCompleted(1, "")), ""),
        ((RunCompleted(1),), None),
    ],
    ids=repr,
)
def test_the_output_of_a_task_is_what_ends_the_run_or_was_said_last(events: tuple[Event, ...], output: str | None):
    made, _ = projected(at(6, *events), LEG)
    assert [(row.status, row.output) for row in made["moved_tasks"]] == [("completed", output)]


def test_the_output_of_a_task_that_is_judged_after_its_answer_was_recorded_is_the_answer():
    judged = at(7, ResultJudged(2), RunCompleted(1))
    state = state_at(judged, LEG, Past())
    assert state.run is not None
    state.run.phase = Replied("Hello.", 6)
    made, _ = projected_from(state, judged)
    assert [(row.status, row.output) for row in made["moved_tasks"]] == [("completed", "Hello.")]


REPLY = ModelReplied("front", 2, calls=(Call("x", "look"), Call("y", "look")))


def test_what_calls_add_to_the_context_stands_in_call_order_whichever_ended_first():
    later = at(6, ToolFinished("3.1", 2, "", directive=Directive(context={"a": "later", "b": 1})))
    earlier = at(7, ToolFinished("3.0", 2, "", directive=Directive(context={"a": "earlier", "c": 2})))
    state = state_at(later, LEG, Past({3: REPLY}))
    projected_from(state, later)
    made, leg = projected_from(state, earlier)
    assert leg is not None
    assert msgspec.json.decode(leg.context) == {"a": "later", "b": 1, "c": 2}
    assert [row.context for row in made["widened_tasks"]] == [leg.context]


@pytest.mark.parametrize(
    "event",
    [
        ToolFinished("3.0", 2, "seen", directive=Directive(context={"a": 2, "b": 3})),
        FunctionReturned("front", 2, "seen", Directive(context={"a": 2, "b": 3})),
    ],
)
def test_what_a_directive_adds_to_the_context_is_there_from_then_on(event: Event):
    past = Past({3: REPLY}) if isinstance(event, ToolFinished) else Past()
    made, leg = projected(at(6, event), LEG, past)
    assert made["widened_tasks"] == [('{"a":2,"b":3}', "c", 2)]
    assert leg is not None
    assert leg.context == '{"a":2,"b":3}'
    made, leg = projected(handing_over(7, variables={"c": 4}), leg)
    assert leg is not None
    assert leg.context == made["tasks"][0].context == '{"a":2,"b":3,"c":4}'


def test_the_first_sign_of_life_makes_a_pending_task_run():
    pending = Leg(5, "c@1", "c:3.0", "billing", "pending")
    reply = at(6, ModelReplied("billing", 5, calls=(Call("x", "look"),)))
    made, leg = projected(reply, pending)
    assert [row.status for row in made["moved_tasks"]] == ["running"]
    assert leg is not None
    assert leg.status == "running"
    made, _ = projected(reply, leg)
    assert "moved_tasks" not in made


def test_a_task_that_ends_at_once_is_moved_once():
    pending = Leg(5, "c@1", "c:3.0", "billing", "pending")
    made, _ = projected(at(6, ModelReplied("billing", 5, "Done."), RunCompleted(1)), pending)
    assert made["moved_tasks"] == [("completed", "Done.", 5.0, "c", 5)]
    assert made["ended_handoffs"] == [("COMPLETE", 5.0, None, "c:3.0")]


def test_what_is_not_understood_leaves_no_trace():
    assert projected(at(6, Unreadable("teleported", b"{}")), LEG) == ({}, LEG)


def test_events_that_do_not_fit_are_passed_over():
    lost = (RunStarted(4, "front"), HandoffAccepted("3.0", 2, "billing"))
    assert projected(at(9, *lost), None, Past()) == ({}, None)
    made, _ = projected(at(9, UserSpoke("hi")), None)
    assert [row.kind for row in made["messages"]] == ["user_message"]
