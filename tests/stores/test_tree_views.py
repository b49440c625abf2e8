"""Read models of delegates and of what waits for people."""

import json
from collections.abc import Callable

from changeover.facts import Mode
from changeover.relay.events import (
    CancelRequested,
    Entry,
    HandoffAccepted,
    HandoffReturned,
    ModelReplied,
    RunCancelled,
    RunCompleted,
    ToolFinished,
)
from changeover.stores.sql.log import SqlLog
from changeover.tools.command import Directive
from tests.stores.entries import (
    DONE,
    LEFT,
    WAITING,
    WORKING,
    asked,
    delegate,
    handing_over,
    kinds,
    opening,
    query,
    rows,
)

Another = Callable[..., SqlLog]


async def test_a_delegate_works_in_tasks_of_its_own_below_its_senders(another: Another, shared_store: str):
    log = another()
    await log.append(opening(), WORKING)
    await log.append(handing_over(mode=Mode.DELEGATE), WORKING)
    await log.append(delegate("c/3.0", "c"), WORKING)
    assert rows(shared_store, "tasks", "id", "master_id", "parent_id", "run_id", "handoff_id", "status") == [
        ("c#2", "c", None, "c@1", None, "running"),
        ("c/3.0#2", "c", "c#2", "c/3.0@1", "c:3.0", "running"),
    ]
    served = "SELECT h.sender, t.agent FROM handoffs h JOIN tasks t ON t.id = h.task_id"
    assert query(shared_store, served) == [("front", "billing")]
    found = (ModelReplied("billing", 2, "Found."), RunCompleted(1))
    await log.append(Entry("c/3.0", "c", 3, "2", 4.0, found), DONE)
    standing = ("state", "ended_at")
    assert rows(shared_store, "handoffs", *standing, order="id") == [("WORKING", None)], "its sender has not heard yet"
    returned = HandoffReturned("3.0", 2, "billing", True, "Found.")
    await log.append(Entry("c", "c", 6, "3.0", 5.0, (returned,)), WORKING)
    assert rows(shared_store, "handoffs", *standing, order="id") == [("RETURNED", 5.0)]
    await log.append(Entry("c", "c", 7, "6", 6.0, (ModelReplied("front", 2, "Done."), RunCompleted(1))), DONE)
    assert rows(shared_store, "tasks", "id", "status", "output") == [
        ("c#2", "completed", "Done."),
        ("c/3.0#2", "completed", "Found."),
    ]
    assert rows(shared_store, "handoffs", *standing, order="id") == [("RETURNED", 5.0)]


async def test_a_delegate_that_is_accepted_in_a_later_entry_is_one_too(another: Another, shared_store: str):
    log = another()
    await log.append(opening(), WORKING)
    offered = handing_over(mode=Mode.DELEGATE)
    offered.events = offered.events[:2]
    await log.append(offered, WORKING)
    await log.append(Entry("c", "c", 5, "ok", 3.0, (HandoffAccepted("3.0", 2, "billing"),)), WORKING)
    assert rows(shared_store, "handoffs", "state", "task_id", order="id") == [("WORKING", "c/3.0#2")]
    assert rows(shared_store, "tasks", "id", "status") == [("c#2", "running")]


async def test_what_a_directive_added_is_known_to_whoever_goes_on(another: Another, shared_store: str):
    mine, theirs = another(), another()
    await mine.append(opening(context={"plan": "gold"}), LEFT)
    seen = ToolFinished("3.0", 2, "seen", directive=Directive(context={"order": 7}))
    await mine.append(Entry("c", "c", 3, "3.0", 2.0, (seen,)), LEFT)
    await theirs.append(handing_over(4), LEFT)
    assert [json.loads(context) for (context,) in rows(shared_store, "tasks", "context")] == [
        {"plan": "gold", "order": 7}
    ] * 2


async def test_a_task_waits_for_a_person_and_is_cancelled_by_one(another: Another, shared_store: str):
    log = another()
    await log.append(opening(), WORKING)
    await log.append(asked(3, "2.0"), WAITING)
    assert rows(shared_store, "tasks", "status") == [("waiting",)]
    await log.append(Entry("c", "c", 4, "x", 3.0, (CancelRequested(by="ana"), RunCancelled(1))), DONE)
    assert rows(shared_store, "tasks", "status") == [("cancelled",)]
    assert [row[1:] for row in kinds(shared_store)[1:]] == [
        ("status_change", "front", "waiting"),
        ("status_change", "front", "cancelling"),
        ("status_change", "front", "cancelled"),
    ]
