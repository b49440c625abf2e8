"""From events to rows, without a database."""

from typing import get_args

from changeover.messages import Call
from changeover.relay.events import (
    Entry,
    Event,
    HandoffAccepted,
    HandoffOffered,
    ModelReplied,
    RunStarted,
    ToolFinished,
    Unreadable,
    UserSpoke,
)
from changeover.stores.lookups import Known, Leg, Wants, wants
from changeover.stores.projections import PROJECTIONS, project
from tests.stores.entries import handing_over, more, opening


def at(position: int, *events: Event | Unreadable) -> Entry:
    return Entry("c", "c", position, "x", 5.0, events)


def names(entry: Entry, known: Known) -> list[str]:
    return [name for name, _ in project(entry, entry.events, known)]


def test_every_event_has_its_meaning():
    assert set(PROJECTIONS) == {*get_args(Event), Unreadable}


def test_the_beginning_of_a_conversation_needs_to_know_nothing():
    assert wants(opening()) == Wants(leg=False, texts=True)


def test_an_entry_that_creates_no_task_does_not_fetch_long_texts():
    assert wants(at(9, ToolFinished("7.0", 2, "x"))) == Wants(leg=True)
    assert wants(more(9)) == Wants(leg=True)


def test_what_earlier_entries_said_is_asked_for_by_position():
    assert wants(at(9, RunStarted(4, "front"))) == Wants(leg=True, texts=True, events=[4])
    assert wants(at(9, HandoffOffered("7.1", 2, "front", "billing"))) == Wants(leg=True, events=[7])
    assert wants(at(9, HandoffAccepted("7.1", 2, "billing"))) == Wants(leg=True, texts=True, offers=["7.1"])


def test_several_changes_to_one_row_are_one_write():
    leg = Leg(2, "c@1", None, "front", "running", "{}", "hello")
    written = names(handing_over(), Known(leg))
    assert sorted(written) == ["add_handoff", "add_message", "add_message", "add_task", "move_task"]


def test_a_handoff_that_is_accepted_later_becomes_one_then():
    reply = ModelReplied("front", 2, calls=(Call("x", "look"), Call("y", "to_billing")))
    leg = Leg(2, "c@1", None, "front", "running", '{"a":1}', "hello")
    offer = HandoffOffered("3.1", 2, "front", "billing", variables={"b": 2})
    [(_, offered)] = project(at(9, offer), (offer,), Known(leg, {3: reply}))
    assert (offered["state"], offered["tool"], offered["task_id"]) == ("PENDING", "to_billing", None)
    accepted = HandoffAccepted("3.1", 2, "billing")
    known = Known(leg, offers={"3.1": {"merge": "merge", "variables": '{"b":2}'}})
    written = dict(project(at(10, accepted), (accepted,), known))
    assert written["accept_handoff"] == {"id": "c:3.1", "task_id": "c#10", "state": "WORKING", "accepted_at": 5.0}
    assert (written["add_task"]["context"], written["add_task"]["input"]) == ('{"a":1,"b":2}', "hello")
    assert written["move_task"]["status"] == "completed"


def test_the_first_sign_of_life_makes_a_pending_task_run():
    leg = Leg(5, "c@1", "c:3.0", "billing", "pending")
    reply = ModelReplied("billing", 5, calls=(Call("x", "look"),))
    written = dict(project(at(6, reply), (reply,), Known(leg)))
    assert written["move_task"]["status"] == "running"
    running = Leg(5, "c@1", "c:3.0", "billing", "running")
    assert names(at(6, reply), Known(running)) == ["add_message"]


def test_what_is_not_understood_leaves_no_trace():
    assert names(at(6, Unreadable("teleported", b"{}")), Known()) == []


def test_events_that_do_not_fit_are_passed_over():
    lost = (RunStarted(4, "front"), HandoffAccepted("3.0", 2, "billing"))
    assert names(at(9, *lost), Known()) == []
    assert names(at(9, UserSpoke("hi")), Known()) == ["add_message"]
