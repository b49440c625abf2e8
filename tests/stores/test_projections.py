"""From events to rows, without a database."""

from collections.abc import Mapping
from typing import Any, get_args

import pytest

from changeover.messages import Call
from changeover.relay.events import (
    Entry,
    Event,
    HandoffAccepted,
    HandoffOffered,
    ModelReplied,
    RunCompleted,
    RunStarted,
    Unreadable,
    UserSpoke,
)
from changeover.stores import schema
from changeover.stores.compiling import Compiler
from changeover.stores.legs import Leg, Offered
from changeover.stores.projections import PROJECTIONS, project
from changeover.stores.rows import FIELDS, Rows
from changeover.stores.statements import writes
from tests.stores.entries import handing_over, opening

LEG = Leg(2, "c@1", None, "front", "running", '{"a":1}', "hello")


class Past:
    """Earlier entries, as far as a test needs them; anything else must not be asked for."""

    def __init__(self, events: Mapping[int, Event] | None = None, offers: Mapping[str, Offered] | None = None) -> None:
        self._events, self._offers = events or {}, offers or {}

    def event(self, position: int) -> Event | None:
        return self._events.get(position)

    def offer(self, id: str) -> Offered | None:
        return self._offers.get(id)


class Nothing(Past):
    """For entries that say everything themselves."""

    def event(self, position: int) -> Event | None:
        raise AssertionError(f"asked for the event at {position}")

    offer = event  # type: ignore[assignment]


class Row(tuple[Any, ...]):
    """A row whose fields have names."""

    def __new__(cls, name: str, row: tuple[Any, ...]) -> "Row":
        made = super().__new__(cls, row)
        made._fields = FIELDS[name]  # type: ignore[attr-defined]
        return made

    def __getattr__(self, name: str) -> Any:
        return self[self.__dict__["_fields"].index(name)]


def at(position: int, *events: Event | Unreadable) -> Entry:
    return Entry("c", "c", position, "x", 5.0, events)


def projected(entry: Entry, leg: Leg | None, past: Past | None = None) -> tuple[dict[str, list[Any]], Leg | None]:
    made = Rows()
    after = project(entry, entry.events, leg, past or Nothing(), made)
    return {name: [Row(name, row) for row in rows] for name, rows in made.by_statement()}, after


def test_every_event_has_its_meaning():
    assert set(PROJECTIONS) == {*get_args(Event), Unreadable}


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_rows_are_bound_in_the_order_of_their_fields(dialect: str):
    assert {name: statement.names for name, statement in writes(Compiler(dialect)).items()} == FIELDS


def test_a_whole_row_has_a_field_for_every_column():
    for name in ("tasks", "messages", "handoffs", "entries"):
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
    made, leg = projected(accepted, LEG, Past(offers={"c:3.1": Offered("merge", '{"b":2}')}))
    assert made["accepted_handoffs"] == [("WORKING", "c#10", 5.0, "c:3.1")]
    assert leg == Leg(10, "c@1", "c:3.1", "billing", "pending", '{"a":1,"b":2}', "hello")


def test_what_was_said_earlier_gets_its_task_when_a_run_takes_it_up():
    made, leg = projected(at(9, RunStarted(4, "front")), LEG, Past({4: UserSpoke("and now?", context={"b": 2})}))
    assert made["given_messages"] == [("c#9", "c", 4)]
    assert leg == Leg(9, "c@4", None, "front", "running", '{"a":1,"b":2}', "and now?")


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
    assert made["ended_handoffs"] == [("COMPLETE", 5.0, "c:3.0")]


def test_what_is_not_understood_leaves_no_trace():
    assert projected(at(6, Unreadable("teleported", b"{}")), LEG) == ({}, LEG)


def test_events_that_do_not_fit_are_passed_over():
    lost = (RunStarted(4, "front"), HandoffAccepted("3.0", 2, "billing"))
    assert projected(at(9, *lost), None, Past()) == ({}, None)
    made, _ = projected(at(9, UserSpoke("hi")), None)
    assert [row.kind for row in made["messages"]] == ["user_message"]
