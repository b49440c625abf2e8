"""Lists over HTTP: page by page, in an order, and by filters."""

from collections.abc import AsyncIterator
from typing import Any

import httpx2 as httpx
import pytest
import pytest_asyncio

from changeover.server import Settings
from tests.server.door import Door, opened

ADVISER = {"description": "Gives advice", "handoffs": []}


@pytest_asyncio.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with opened(Settings(open_access=True)) as door, door.client() as found:
        await fill(door, found)
        yield found


async def fill(door: Door, client: httpx.AsyncClient) -> None:
    """Several of everything that is listed."""
    for id, text in (("c1", "research"), ("c2", "research"), ("c3", "a refund"), ("c4", "close it"), ("c5", "hello")):
        file = {"name": f"{id}.txt", "data": "YQ=="}
        said = {"id": id, "text": text, "files": [file, file]}
        assert (await client.post("/conversations", params={"wait": True}, json=said)).status_code == 200
    for id in ("c5", "c5", "c3", "c4"):
        assert (await client.post(f"/conversations/{id}/messages", json={"text": "hello"})).status_code == 202
    for name in ("ana", "ben", "eve"):
        await door.issue(name, "viewer")
        assert (await client.put(f"/declarations/agent/{name}", json=ADVISER)).status_code == 201


async def pages(client: httpx.AsyncClient, path: str, limit: int, **wanted: Any) -> list[list[Any]]:
    """All pages of a list, each of so many items."""
    found, part = [], {"limit": limit, **wanted}
    while part:
        answer = await client.get(path, params=part)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found.append(page["items"])
        following = {"after" if path.endswith("/events") else "cursor": page["next"]}
        part = {"limit": limit, **wanted, **following} if page["next"] else {}
    return found


@pytest.mark.parametrize(
    "path",
    [
        "/conversations",
        "/runs",
        "/tasks",
        "/handoffs",
        "/tickets",
        "/approvals",
        "/tokens",
        "/audit",
        "/declarations",
        "/conversations/c3/events",
        "/conversations/c3/messages",
        "/conversations/c5/runs",
        "/conversations/c5/tasks",
        "/conversations/c5/files",
    ],
)
async def test_the_pages_of_a_list_are_the_list(client: httpx.AsyncClient, path: str):
    [whole] = await pages(client, path, 1_000)
    assert len(whole) >= 2, "nothing to turn over"
    single = await pages(client, path, 1)
    assert [len(page) for page in single] == [1] * len(whole)
    assert [item for [item] in single] == whole
    assert await pages(client, path, len(whole)) == [whole]


@pytest.mark.parametrize("path", ["/tickets", "/tokens", "/conversations", "/conversations/c5/runs"])
@pytest.mark.parametrize("cursor", ["forged", "e30=", "bnVsbA==", "WyJ4Il0=", "\N{SNOWMAN}"])
async def test_a_forged_cursor_is_refused(client: httpx.AsyncClient, path: str, cursor: str):
    answer = await client.get(path, params={"cursor": cursor})
    assert (answer.status_code, "`next` of the page before" in answer.json()["detail"]) == (422, True)


@pytest.mark.parametrize(
    ("path", "wanted", "value"),
    [
        ("/conversations", {"status": "completed"}, ("status", "completed")),
        ("/conversations", {"text": "CLOSE"}, ("id", "c4")),
        ("/runs", {"conversation": "c5"}, ("conversation", "c5")),
        ("/runs", {"status": "waiting", "agent": "manager"}, ("agent", "manager")),
        ("/tasks", {"conversation": "c3", "agent": "billing"}, ("agent", "billing")),
        ("/handoffs", {"receiver": "research", "mode": "delegate"}, ("receiver", "research")),
        ("/handoffs", {"state": "PENDING", "conversation": "c1"}, ("conversation", "c1")),
        ("/approvals", {"agent": "billing", "kind": "approval"}, ("agent", "billing")),
        ("/tokens", {"user": "ben"}, ("user", "ben")),
        ("/declarations", {"kind": "agent"}, ("kind", "agent")),
        ("/conversations/c3/events", {"type": "handoff_offered"}, ("type", "handoff_offered")),
        ("/conversations/c3/messages", {"kind": "tool_call"}, ("kind", "tool_call")),
    ],
)
async def test_a_filter_keeps_what_fits_and_leaves_out_the_rest(
    client: httpx.AsyncClient, path: str, wanted: dict[str, str], value: tuple[str, str]
):
    [found], [whole] = await pages(client, path, 1_000, **wanted), await pages(client, path, 1_000)
    name, expected = value
    assert {each[name] for each in found} == {expected}
    assert found == [each for each in whole if each in found]
    assert len(found) < len(whole) or path == "/declarations"


async def test_tickets_are_filtered_by_agent_worker_and_conversation(client: httpx.AsyncClient):
    [claimed] = (await client.post("/claims", json={"agent": "research", "by": "node-1"})).json()
    root = claimed["ticket"]["root"]
    for wanted in ({"worker": "node-1"}, {"conversation": root}, {"agent": "research", "worker": "node-1"}):
        [found] = await pages(client, "/tickets", 10, **wanted)
        assert [each["ticket"]["id"] for each in found] == [claimed["ticket"]["id"]]
    assert await pages(client, "/tickets", 10, agent="billing") == [[]]


@pytest.mark.parametrize(
    ("path", "sort"),
    [
        ("/conversations", "created_at"),
        ("/conversations", "said_at"),
        ("/runs", "created_at"),
        ("/tasks", "created_at"),
        ("/handoffs", "offered_at"),
        ("/approvals", "requested_at"),
        ("/audit", "at"),
    ],
)
async def test_a_list_is_sorted_either_way(client: httpx.AsyncClient, path: str, sort: str):
    [up], [down] = await pages(client, path, 1_000, sort=sort), await pages(client, path, 1_000, sort=f"-{sort}")
    assert up == down[::-1]
    assert [each[sort] for each in up] == sorted(each[sort] for each in up)
    refused = await client.get(path, params={"sort": "colour"})
    assert (refused.status_code, sort in refused.json()["detail"]) == (422, True)
