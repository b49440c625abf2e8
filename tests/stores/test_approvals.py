"""What waits for a person's decision, over all conversations."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from changeover.facts import ApprovalRequest, Mode
from changeover.faults import LimitFault
from changeover.guards.approval import Approve, Decision, Edit, Reject, Respond
from changeover.messages import Call
from changeover.relay.events import (
    ApprovalRequested,
    CancelRequested,
    Entry,
    Event,
    HandoffOffered,
    ModelReplied,
    RunCancelled,
    RunFailed,
    RunStarted,
    RunStopped,
    UserSpoke,
)
from changeover.relay.ports.log import Log
from changeover.stores.sql.log import SqlLog
from tests.stores.conftest import Opened
from tests.stores.entries import WAITING, WORKING, asked, decided, delegate, opening, plan_of, query

Another = Callable[..., SqlLog]
FAULT = LimitFault("max_turns", 3)

ENDINGS = [CancelRequested(), CancelRequested(1), RunCancelled(1), RunFailed(1, FAULT), RunStopped(1, FAULT)]


def at(position: int, *events: Event, conversation: str = "c") -> Entry:
    return Entry(conversation, conversation, position, f"at {position}", 4.0, events)


async def waiting_for(log: Log) -> list[tuple[str, str]]:
    return [(request.conversation, request.call) for request in await log.approvals()]


def rows(store: str, *columns: str) -> list[tuple[Any, ...]]:
    return query(store, f"SELECT {', '.join(columns)} FROM approvals ORDER BY id")


async def test_a_request_is_listed_as_it_was_made(log: Log):
    await log.append(opening(), WORKING)
    what: dict[str, Any] = {"arguments": {"amount": 5, "to": ["ä", None]}, "receiver": "billing", "message": "please"}
    what["roles"] = ("manager", "owner")
    await log.append(asked(3, "2.0", at=2.5, expires_at=9.5, on_expiry="approve", **what), WAITING)
    expected = ApprovalRequest(
        conversation="c",
        call="2.0",
        agent="front",
        tool="refund",
        at=2.5,
        expires_at=9.5,
        on_expiry="approve",
        **what,
    )
    [request] = await log.approvals()
    assert (request, request.id) == (expected, expected.id)


async def test_requests_are_listed_over_all_conversations_the_oldest_first(log: Log):
    for root in ("a", "b"):
        await log.append(opening(root), WORKING)
    await log.append(delegate("a/1", "a"), WORKING)
    await log.append(asked(3, "2.10", "b", at=2.0), WAITING)
    await log.append(asked(4, "2.9", "b", at=2.0), WAITING)
    await log.append(asked(3, "2.0", "a/1", "a", at=1.5), WAITING)
    await log.append(asked(3, "2.0", "a", at=7.0), WAITING)
    assert await waiting_for(log) == [("a/1", "2.0"), ("b", "2.9"), ("b", "2.10"), ("a", "2.0")]


async def test_what_was_decided_is_awaited_no_more(log: Log):
    await log.append(opening(), WORKING)
    await log.append(asked(3, "2.0"), WAITING)
    await log.append(asked(4, "2.1"), WAITING)
    first, second = await log.approvals()
    await log.append(decided(5, second, Approve()), None)
    assert await log.approvals() == [first]


async def test_a_decision_about_something_else_than_what_was_shown_decides_nothing(log: Log):
    await log.append(opening(), WORKING)
    await log.append(asked(3, "2.0"), WAITING)
    [request] = await log.approvals()
    other = ApprovalRequest(conversation="c", call="2.0", agent="front", tool="refund", arguments={"amount": 500})
    await log.append(decided(4, other, Approve()), None)
    assert await log.approvals() == [request]


async def test_what_is_asked_once_more_is_awaited_once_more(log: Log):
    await log.append(opening(), WORKING)
    await log.append(asked(3, "2.0"), WAITING)
    [request] = await log.approvals()
    await log.append(decided(4, request, Approve()), None)
    again = asked(5, "2.0", at=6.0)
    again.cause = "again"
    await log.append(again, WAITING)
    assert [each.at for each in await log.approvals()] == [6.0]


@pytest.mark.parametrize("ending", ENDINGS, ids=repr)
async def test_when_a_run_ends_nobody_has_to_decide_any_more(log: Log, ending: Event):
    for conversation in ("c", "other"):
        await log.append(opening(conversation), WORKING)
        await log.append(asked(3, "2.0", conversation), WAITING)
        await log.append(asked(4, "2.1", conversation), WAITING)
    await log.append(at(5, ending), WORKING)
    assert await waiting_for(log) == [("other", "2.0"), ("other", "2.1")]


@pytest.mark.parametrize("ending", [CancelRequested(4), RunCancelled(4)], ids=repr)
async def test_what_is_cancelled_before_its_turn_leaves_the_questions_of_others(log: Log, ending: Event):
    await log.append(opening(), WORKING)
    await log.append(asked(3, "2.0"), WAITING)
    await log.append(at(4, UserSpoke("and then?")), None)
    await log.append(at(5, ending), WAITING)
    assert await waiting_for(log) == [("c", "2.0")]


@pytest.mark.parametrize("ending", [RunCancelled(1), RunFailed(1, FAULT)], ids=repr)
async def test_what_the_next_run_asks_in_the_entry_in_which_the_last_one_ends_is_awaited(log: Log, ending: Event):
    await log.append(opening(), WORKING)
    await log.append(asked(3, "2.0"), WAITING)
    await log.append(at(4, UserSpoke("and then?")), None)
    await log.append(at(5, ending, RunStarted(4, "front"), ApprovalRequested("6.0", 6, "front", "refund")), WAITING)
    assert await waiting_for(log) == [("c", "6.0")]


@pytest.mark.parametrize("ending", [RunCancelled(1), RunFailed(1, FAULT)], ids=repr)
async def test_what_the_next_run_offers_in_the_entry_in_which_the_last_one_ends_is_not_taken_back_with_the_others(
    another: Another, shared_store: str, ending: Event
):
    log = another()
    first, second, third = [
        HandoffOffered(call, task, "front", "billing", "please", Mode.DELEGATE)
        for call, task in (("3.0", 2), ("3.1", 2), ("9.0", 8))
    ]
    reply = ModelReplied("front", 2, calls=(Call("x", "ask"), Call("y", "ask")))
    await log.append(opening(), WORKING)
    await log.append(at(3, reply, first), WAITING)
    await log.append(at(5, UserSpoke("and then?")), None)
    await log.append(at(6, second, ending, RunStarted(5, "front"), reply, third), WAITING)
    found = query(shared_store, "SELECT id, state, run_id, ended_at IS NULL FROM handoffs ORDER BY id")
    assert [(id, state, run, bool(open_)) for id, state, run, open_ in found] == [
        ("c:3.0", "RETURNED", "c@1", False),
        ("c:3.1", "RETURNED", "c@1", False),
        ("c:9.0", "PENDING", "c@5", True),
    ]


@pytest.mark.parametrize(
    ("decision", "how", "status", "note"),
    [
        (Approve(), {"by": "ana"}, "approved", None),
        (Reject("too much"), {"by": "ana"}, "rejected", "too much"),
        (Reject(), {"by": "ana"}, "rejected", None),
        (Respond("it is done"), {"by": "ana"}, "responded", "it is done"),
        (Edit({"amount": 1}), {"by": "ana"}, "edited", '{"arguments":{"amount":1}}'),
        (Edit({}, "billing-2"), {"by": "ana"}, "edited", '{"arguments":{},"receiver":"billing-2"}'),
        (Reject("nobody decided in time"), {"expired": True}, "expired", "nobody decided in time"),
    ],
    ids=repr,
)
async def test_who_decided_what_and_when_is_kept(
    another: Another, shared_store: str, decision: Decision, how: dict[str, Any], status: str, note: str | None
):
    log = another()
    await log.append(opening(), WORKING)
    await log.append(asked(3, "2.0"), WAITING)
    [request] = await log.approvals()
    await log.append(decided(4, request, decision, **how), None)
    columns = ("id", "root", "task_id", "status", "requested_at", "decided_at", "decided_by", "note")
    assert rows(shared_store, *columns) == [(request.id, "c", "c#2", status, 2.0, 3.0, how.get("by"), note)]


async def test_the_first_decision_stands(another: Another, shared_store: str):
    log = another()
    await log.append(opening(), WORKING)
    await log.append(asked(3, "2.0"), WAITING)
    [request] = await log.approvals()
    await log.append(decided(4, request, Approve(), by="ana"), None)
    await log.append(decided(5, request, Reject("no"), by="bob"), None)
    await log.append(at(6, RunFailed(1, FAULT)), WORKING)
    assert rows(shared_store, "status", "decided_by", "note") == [("approved", "ana", None)]


async def test_what_was_withdrawn_says_so(another: Another, shared_store: str):
    log = another()
    await log.append(opening(), WORKING)
    await log.append(asked(3, "2.0"), WAITING)
    [request] = await log.approvals()
    await log.append(at(4, CancelRequested()), None)
    await log.append(decided(5, request, Approve(), by="ana"), None)
    assert rows(shared_store, "status", "decided_by") == [("withdrawn", None)]


async def test_what_was_decided_long_ago_is_not_read(opened: Opened, sqlite_file: Path):
    log = opened(f"sqlite:///{sqlite_file}")
    assert "approvals_pending" in plan_of(sqlite_file, log._sql.views.approvals(team="default"))
    withdrawn = (log._sql.writes["withdrawn_approvals"], ("c",))
    assert "approvals_pending (conversation=?)" in plan_of(sqlite_file, withdrawn)
