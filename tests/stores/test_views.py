"""Views: records newest first, filtered, on every database, without writing."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from changeover import Agent, Team
from changeover.errors import ConversationNotFound, StoreUnavailable
from changeover.relay.ports.lists import ApprovalRow, ConversationRow, HandoffRow, MessageRow, TaskRow
from changeover.relay.ports.log import Head
from changeover.stores.memory.log import MemoryLog
from changeover.stores.sql.log import SqlLog
from changeover.stores.store import Store, upgrade_store
from changeover.stores.views import Views, open_views
from changeover.testing import ScriptedModel, hands_off
from tests.stores.entries import WORKING, answer, child, handing_over, more, opening, query

Another = Callable[..., SqlLog]


ENTRIES = (
    (opening("c", "I was charged twice", context={"plan": "gold"}), WORKING),
    (handing_over(variables={"order": 7}), WORKING),
    (answer(6, 5), Head("completed", "billing", False)),
    (child("c/3.1", "c"), Head("running", "", True)),
    (opening("cd", at=9.0), WORKING),
)


@pytest.fixture
async def views(another: Another, shared_store: str) -> AsyncIterator[Views]:
    """Of a store with two conversations, one of which has a delegate's below it."""
    log = another()
    for entry, head in ENTRIES:
        await log.append(entry, head)
    looking = open_views(Store(shared_store))
    yield looking
    looking.close()


async def test_conversations_are_listed_newest_first(views: Views):
    found = await views.listed(ConversationRow)
    assert [(row.id, row.root, row.parent, row.status) for row in found] == [
        ("cd", "cd", None, "running"),
        ("c/3.1", "c", "c", "running"),
        ("c", "c", None, "completed"),
    ]
    assert [row.id for row in await views.listed(ConversationRow, roots=True)] == ["cd", "c"]
    assert [row.id for row in await views.listed(ConversationRow, {"status": "running"}, limit=1)] == ["cd"]


async def test_within_a_conversation_are_its_delegates_and_nobody_whose_id_begins_alike(views: Views):
    assert {row.id for row in await views.listed(ConversationRow, within="c")} == {"c", "c/3.1"}
    assert {row.conversation for row in await views.listed(TaskRow, within="c")} == {"c"}
    assert await views.listed(TaskRow, within="nobody") == []


async def test_tasks_handoffs_and_messages_are_read_with_what_they_carry(views: Views):
    receiver, sender = await views.listed(TaskRow, within="c")
    assert (sender.id, sender.agent, sender.context) == ("c#2", "front", {"plan": "gold"})
    assert (receiver.id, receiver.parent_id, receiver.output) == ("c#5", "c#2", "Done.")
    assert receiver.context == {"plan": "gold", "order": 7}
    (handoff,) = await views.listed(HandoffRow, {"state": "COMPLETE"})
    assert (handoff.sender, handoff.receiver, handoff.variables) == ("front", "billing", {"order": 7})
    assert await views.one(HandoffRow, "c:3.0") == handoff
    assert await views.one(HandoffRow, "nothing") is None
    said = await views.listed(MessageRow, {"task_id": "c#2"})
    assert [row.kind for row in said][:1] == ["user_message"]
    assert [row.seq for row in said] == sorted(row.seq for row in said)
    assert await views.listed(ApprovalRow) == []


async def test_handoffs_of_a_conversation_are_read_from_its_log(views: Views):
    assert [(each.id, each.state) for each in await views.handoffs("c")] == [("c:3.0", "COMPLETE")]
    with pytest.raises(ConversationNotFound):
        await views.handoffs("nobody")


async def test_an_open_offer_is_listed_by_a_team_and_by_a_look_at_its_store(shared_store: str):
    model = ScriptedModel({"triage": [hands_off("billing", "Charged twice.")]})
    async with Team([Agent("triage"), Agent("billing", pull=True)], model=model, store=shared_store) as team:
        await team.run("I was charged twice!", conversation="ada")
        listed = await team.handoffs("ada")
    views = open_views(Store(shared_store))
    try:
        assert [(record.receiver, record.state) for record in listed] == [("billing", "PENDING")]
        assert await views.handoffs("ada") == listed
    finally:
        views.close()


async def test_every_conversation_is_checked_and_damage_is_named(views: Views, shared_store: str):
    assert {id: fault async for id, fault in views.checked()} == {"c": "", "c/3.1": "", "cd": ""}
    query(shared_store, "UPDATE entries SET body = '[{\"event\":\"from_the_future\"}]' WHERE cause = 'begin'")
    query(shared_store, "UPDATE conversations SET position = 99 WHERE id = 'cd'")
    faults = {id: fault async for id, fault in views.checked()}
    assert faults["c"] == ""
    assert "from_the_future" in faults["c/3.1"]
    assert faults["cd"] == "the log ends at 3, and its table says 99"


async def test_more_conversations_than_a_page_are_all_checked(
    another: Another, shared_store: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("changeover.stores.check.PAGE", 2)
    log = another()
    for name in "abcde":
        await log.append(opening(name), WORKING)
    await log.append(more(3, conversation="a"), WORKING)
    views = open_views(Store(shared_store))
    assert [id async for id, fault in views.checked() if not fault] == list("abcde")
    views.close()


def test_a_store_that_is_not_current_is_left_as_it_is(bare_store: str):
    if bare_store.startswith("postgresql"):
        with pytest.raises(StoreUnavailable, match="has no tables"):
            open_views(Store(bare_store))
    upgrade_store(Store(bare_store))
    query(bare_store, "UPDATE changeover_version SET version_num = '9999'")
    with pytest.raises(StoreUnavailable, match="has tables of version 9999"):
        open_views(Store(bare_store))


def test_looking_makes_no_file(tmp_path: Path):
    with pytest.raises(StoreUnavailable, match="does not exist"):
        open_views(Store(f"sqlite:///{tmp_path}/nothing.db"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [ConversationRow, TaskRow, MessageRow, HandoffRow, ApprovalRow])
async def test_a_log_in_memory_lists_the_same_as_a_store(views: Views, kind: type[Any]):
    memory = MemoryLog()
    for entry, head in ENTRIES:
        await memory.append(entry, head)
    assert await memory.lists.listed(kind) == await views.listed(kind)
    assert await memory.lists.tree("c") == await views.tree("c")
    assert await memory.lists.handoffs("c") == await views.handoffs("c")
