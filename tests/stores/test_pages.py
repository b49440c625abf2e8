"""Pages of lists: filters, orders, cursors and searches give the same on every store, and go by an index."""

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest

from changeover.errors import MisconfiguredError
from changeover.relay.events import Entry, ModelReplied, Renamed, RunCompleted
from changeover.relay.ports.lists import (
    FILTERS,
    ORDERS,
    ApprovalRow,
    ConversationRow,
    HandoffRow,
    Lists,
    MessageRow,
    Page,
    RunRow,
    TaskRow,
    order_of,
)
from changeover.relay.ports.log import Head, Log
from changeover.stores.sql.database import Call
from changeover.stores.sql.lists import SqlLists
from tests.stores.conftest import Opened
from tests.stores.entries import DONE, WORKING, answer, asked, delegate, handing_over, more, opening, query
from tests.stores.test_queue_plans import explained


async def filled(log: Log) -> None:
    """Five conversations of two users; one has a delegate, one went on after it was begun, and one was renamed."""
    for number, (text, user) in enumerate(
        [("Wo ist mein ÄPFEL-Paket?", "ada"), ("I was charged twice", "bob"), ("Refund 100%_please", "ada")], 1
    ):
        await log.append(opening(f"c{number}", text, at=float(number), user=user), WORKING)
    await log.append(opening("c4", "nobody asks", at=4.0), WORKING)
    await log.append(Entry("c4", "c4", 3, "2", 4.5, (ModelReplied("front", 2, "No."), RunCompleted(1))), DONE)
    await log.append(handing_over(conversation="c1", at=5.0), Head("running", "billing", True))
    await log.append(delegate("c1/6.0", "c1", at=6.0), Head("waiting", "billing", False))
    await log.append(asked(3, "3.0", "c2", at=7.0), Head("waiting", "front", False))
    await log.append(Entry("c3", "c3", 3, "rename", 8.0, (Renamed("Money back", "ada"),)), WORKING)
    await log.append(more(4, conversation="c3", at=9.0), WORKING)


async def ids(lists: Lists, kind: Any = ConversationRow, **options: Any) -> list[str]:
    return [row.id for row in await lists.listed(kind, **options)]


async def test_conversations_have_a_user_a_title_and_the_time_of_the_last_message(log: Log):
    await filled(log)
    rows = {row.id: (row.user, row.title, row.said_at) for row in await log.lists.listed(ConversationRow)}
    assert rows == {
        "c1": ("ada", "Wo ist mein ÄPFEL-Paket?", 1.0),
        "c2": ("bob", "I was charged twice", 2.0),
        "c3": ("ada", "Money back", 9.0),
        "c4": ("", "nobody asks", 4.0),
        "c1/6.0": ("ada", "look it up", 6.0),
    }


async def test_conversations_are_filtered_by_user_status_and_text(log: Log):
    await filled(log)
    lists = log.lists
    assert await ids(lists, wanted={"user": "ada"}, roots=True) == ["c3", "c1"]
    assert await ids(lists, wanted={"user": "ada"}) == ["c3", "c1/6.0", "c1"]
    assert await ids(lists, wanted={"user": ""}, roots=True) == ["c4"]
    assert await ids(lists, wanted={"status": "waiting"}) == ["c1/6.0", "c2"]
    assert await ids(lists, wanted={"status": "waiting", "user": "bob"}, roots=True) == ["c2"]
    assert await ids(lists, wanted={"status": "completed"}) == ["c4"]
    assert await ids(lists, wanted={"status": "running"}) == ["c3", "c1"]
    assert await ids(lists, wanted={"text": "MONEY"}) == ["c3"]
    assert await ids(lists, wanted={"text": "ÄPFEL"}) == ["c1"]
    assert await ids(lists, wanted={"text": "%_"}) == []
    assert await ids(lists, wanted={"text": "C4"}) == ["c4"]
    assert await ids(lists, wanted={"text": "\0"}) == []
    assert await ids(lists, wanted={"team": "default", "agent": "front"}, roots=True) == ["c3", "c4", "c2"]


@pytest.mark.parametrize("log", ["memory", "sqlite"], indirect=True)
async def test_a_search_ignores_case_in_any_alphabet(log: Log):
    await filled(log)
    assert await ids(log.lists, wanted={"text": "mein äpfel"}) == ["c1"]


async def test_tasks_runs_handoffs_and_approvals_are_filtered_by_the_user_of_their_tree(log: Log):
    await filled(log)
    lists = log.lists
    assert await ids(lists, TaskRow, wanted={"user": "ada"}) == ["c1/6.0#2", "c1#5", "c3#2", "c1#2"]
    assert await ids(lists, RunRow, wanted={"user": "ada"}) == ["c3@1", "c1@1"]
    assert await ids(lists, HandoffRow, wanted={"user": "ada", "team": "default"}) == ["c1:3.0"]
    assert await ids(lists, HandoffRow, wanted={"user": "bob"}) == []
    assert len(await ids(lists, ApprovalRow, wanted={"user": "bob", "status": "pending"})) == 1
    assert await ids(lists, ApprovalRow, wanted={"user": "ada"}) == []
    assert {row.content for row in await lists.listed(MessageRow, {"user": "bob"})} >= {"I was charged twice"}
    assert await ids(lists, TaskRow, wanted={"team": "sales"}) == []


async def test_a_run_is_listed_with_its_first_and_its_last_task(log: Log):
    await filled(log)
    await log.append(answer(6, 5, conversation="c1"), Head("completed", "billing", False))
    [row] = await log.lists.listed(RunRow, {"id": "c1@1"})
    assert (row.first_agent, row.agent, row.tasks, row.status) == ("front", "billing", 2, "completed")
    assert (row.input, row.output) == ("Wo ist mein ÄPFEL-Paket?", "Done.")
    assert await log.lists.one(RunRow, "c1@1") == row
    assert await log.lists.one(RunRow, "c1/6.0@1") is None
    assert await ids(log.lists, RunRow, wanted={"status": "completed"}) == ["c4@1", "c1@1"]


@pytest.mark.parametrize("sort", ["-said_at", "said_at", "-created_at", "created_at"])
async def test_pages_follow_one_another_without_gap_or_repetition(log: Log, sort: str):
    await filled(log)
    lists, whole = log.lists, await ids(log.lists, sort=sort)
    found, cursor = [], None
    for _ in range(5):
        page = await lists.listed(ConversationRow, sort=sort, limit=1, cursor=cursor)
        found += [row.id for row in page]
        cursor = page.next
    assert (found, cursor) == (whole, None)
    assert whole == (await ids(lists, sort=reverse(sort)))[::-1]


@pytest.mark.parametrize("kind", ORDERS)
async def test_each_kind_is_read_in_pages_in_both_directions(log: Log, kind: Any):
    await filled(log)
    for action in ("token.issue", "token.revoke"):
        await log.audit.note("ada", action, "t1", {"role": "viewer"})
    for sort in (*ORDERS[kind], *map(reverse, ORDERS[kind])):
        whole = await log.lists.listed(kind, sort=sort)
        assert len(whole) > (0 if kind in (HandoffRow, ApprovalRow) else 1)
        found: list[Any] = []
        page: Page[Any] = Page()
        while not found or page.next:
            page = await log.lists.listed(kind, sort=sort, limit=1, cursor=page.next)
            found += page
        assert found == list(whole)


async def test_a_conversation_that_moves_up_meanwhile_leaves_no_gap(log: Log):
    await filled(log)
    first = await log.lists.listed(ConversationRow, roots=True, limit=2)
    await log.append(more(4, conversation="c2", at=10.0), WORKING)
    rest = await log.lists.listed(ConversationRow, roots=True, cursor=first.next)
    assert ([row.id for row in first], [row.id for row in rest]) == (["c3", "c4"], ["c1"])
    assert (await ids(log.lists, roots=True))[0] == "c2"


def reverse(sort: str) -> str:
    return sort[1:] if sort[0] == "-" else f"-{sort}"


def cursors() -> Iterator[str]:
    order = order_of(ConversationRow)
    yield "no cursor"
    yield "ä"
    yield "AAAA"
    yield order_of(ConversationRow, "created_at").cursor([1])
    yield from (order.cursor(key) for key in ([1.0], ["x", 1], [1.0, 2**40], [1.0, True], [None, 1], [1.0, 1, 1]))


@pytest.mark.parametrize("cursor", list(cursors()))
async def test_a_cursor_of_another_list_is_refused(log: Log, cursor: str):
    with pytest.raises(MisconfiguredError, match="give `next` of the page before"):
        await log.lists.listed(ConversationRow, cursor=cursor)


async def test_an_unknown_filter_or_order_is_refused_with_those_that_there_are(log: Log):
    with pytest.raises(MisconfiguredError, match="no filter owner; it has: agent, id, parent"):
        await log.lists.listed(ConversationRow, {"owner": "x"})
    with pytest.raises(MisconfiguredError, match="there are: -said_at, said_at, -created_at, created_at"):
        await log.lists.listed(ConversationRow, sort="updated_at")


@pytest.mark.parametrize("kind", FILTERS)
async def test_every_filter_can_be_asked_for(log: Log, kind: Any):
    for name in FILTERS[kind]:
        assert list(await log.lists.listed(kind, {name: "nothing"})) == []
    assert list(await log.lists.listed(kind, dict.fromkeys(FILTERS[kind], "x"), roots=kind is ConversationRow)) == []


COUNT = 100_000
_SERIES = f"(WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {COUNT}) SELECT n FROM s)"

PAGES: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "conversations_said": (ConversationRow, {"roots": True}),
    "conversations_said, next": (ConversationRow, {"roots": True, "cursor": "…"}),
    "conversations_said, with delegates": (ConversationRow, {}),
    "conversations_user": (ConversationRow, {"wanted": {"user": "u7"}, "roots": True}),
    "conversations_user, next": (ConversationRow, {"wanted": {"user": "u7"}, "roots": True, "cursor": "…"}),
    "conversations_halted": (ConversationRow, {"wanted": {"status": "failed"}, "roots": True}),
    "tasks_created": (TaskRow, {}),
    "tasks_created, next": (TaskRow, {"cursor": "…"}),
    "tasks_created, runs": (RunRow, {}),
    "handoffs_offered": (HandoffRow, {}),
    "handoffs_offered, next": (HandoffRow, {"cursor": "…"}),
    "approvals_requested": (ApprovalRow, {}),
    "conversations_tree": (TaskRow, {"within": "c50"}),
    "conversations_tree, handoffs": (HandoffRow, {"within": "c50"}),
}
"""The index that each page has to go by."""
SCAN = re.compile(r"SCAN (?!processes|\(subquery|CONSTANT|tree)\w+( /|$)|Seq Scan on (?!processes)")
"""How a database says that it reads a whole table."""


@pytest.fixture
def full(bare_store: str, opened: Opened) -> tuple[SqlLists, str]:
    """A store with many conversations, each with a task and a handoff; one of a hundred is a delegate's."""
    log = opened(bare_store)
    series = f"generate_series(1, {COUNT})" if bare_store.startswith("postgres") else _SERIES
    root, status = "'c' || (n - n % 100)", "CASE WHEN n % 1000 = 3 THEN 'failed' ELSE 'completed' END"
    below = f"n % 100 = 1 AND n > 1 THEN {root}"
    id = f"CASE WHEN {below} || '/3.0' ELSE 'c' || n END"
    whose = "CASE WHEN n % 100 = 1 THEN '' ELSE 'u' || (n % 1000) END"
    rows = (
        f"SELECT n, {id}, CASE WHEN {below} ELSE 'c' || n END, CASE WHEN {below} END, {status}, 'a', NULL, NULL,"
        f" 1, 1, 0, 0, 0, 0, '', n, n, 'default', {whose}, 'title ' || n, n"
    )
    query(bare_store, f"INSERT INTO conversations {rows} FROM {series} AS n")
    task = f"{id}, 2, {id} || '#2', {id}, NULL, {id} || '@1', NULL, 'a', 'completed', n, n, '{{}}', 'x', 'y'"
    query(bare_store, f"INSERT INTO tasks SELECT {task} FROM {series} AS n")
    handed = (
        f"{id} || ':3.0', {id}, {id} || '@1', 't', NULL, 'a', 'b', 'TRANSFER', 'COMPLETE', 'h', 'full', 'merge', n, n,"
        " n, NULL, 1, NULL, '{}', 'm', NULL, 0, 0, NULL, NULL"
    )
    query(bare_store, f"INSERT INTO handoffs SELECT {handed} FROM {series} AS n")
    asked = f"{id} || ':3.0:x', 'approval', {id}, {id}, '3.0', 't', 'a', 'pay', '', 'm', '{{}}', 'approved', n, NULL"
    query(bare_store, f"INSERT INTO approvals SELECT {asked}, 'reject', NULL, NULL, NULL, '[]' FROM {series} AS n")
    query(bare_store, "ANALYZE")
    return log.lists, bare_store


async def test_a_page_of_a_hundred_thousand_conversations_is_found_by_an_index(
    full: tuple[SqlLists, str], monkeypatch: pytest.MonkeyPatch
):
    lists, store = full
    asked: list[Call] = []
    ask = lists._small

    async def noting(call: Call) -> list[Any]:
        asked.append(call)
        return await ask(call)

    monkeypatch.setattr(lists, "_small", noting)
    for index, (kind, options) in PAGES.items():
        cursor = (await lists.listed(kind, **{**options, "cursor": None}, limit=3)).next
        given = {**options, "cursor": cursor} if "cursor" in options else options
        asked.clear()
        async with asyncio.timeout(5):
            assert await lists.listed(kind, **given, limit=50)
        plan = explained(store, asked[0])
        assert index.partition(",")[0] in plan, f"{index}:\n{plan}"
        assert SCAN.search(plan) is None, f"{index}:\n{plan}"
        sorts = "TEMP B-TREE FOR ORDER" in plan or "Sort Key" in plan
        assert not sorts or "within" in options, f"{index}:\n{plan}"
