"""Who may call what: every route, every role, and every state of a token; and whose conversations a caller sees."""

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from changeover.server.access import ROUTES, Role
from changeover.server.resource import Resource
from tests.server.door import ROLES, Door, issue_all, opened

FILLED = {"id:path": "nothing", "id": "nothing", "seq": "1", "index": "0", "context": "x", "file": "start.js"}
ALLOWED: dict[Role, set[str]] = {
    Role.ANYONE: {"worker", "viewer", "operator", "approver", "admin"},
    Role.WORKER: {"worker", "operator", "approver", "admin"},
    Role.VIEWER: {"viewer", "operator", "approver", "admin"},
    Role.OPERATOR: {"operator", "approver", "admin"},
    Role.APPROVER: {"approver", "admin"},
    Role.ADMIN: {"admin"},
}
"""Who may call the routes of a role."""


HTTP: list[tuple[str, str, Role]] = [
    (method, path, role) for route, role in ROUTES.items() for method, path in [route.split(" ")] if method != "WS"
]


def filled(path: str) -> str:
    return re.sub(r"\{([^}]+)\}", lambda found: FILLED.get(found[1], "nothing"), path)


@pytest_asyncio.fixture
async def door() -> AsyncIterator[Door]:
    async with opened() as found:
        await issue_all(found)
        yield found


async def test_every_route_asks_every_caller_for_its_role(door: Door):
    wrong = []
    for name in (*ROLES, "none", "wrong", "expired", "revoked"):
        async with door.client(None if name in ("none", "wrong") else name) as client:
            if name == "wrong":
                client.headers["Authorization"] = "Bearer chg_nobody_0123456789"
            for method, path, role in HTTP:
                answer = await client.request(method, filled(path), json={})
                if role is Role.PUBLIC:
                    fits = answer.status_code not in (401, 403) or path == "/session"
                elif name not in ROLES:
                    fits = answer.status_code == 401 and "Bearer" in answer.headers["www-authenticate"]
                else:
                    fits = (answer.status_code == 403) is (name not in ALLOWED[role]) and answer.status_code != 401
                if not fits:
                    wrong.append((name, method, path, answer.status_code, answer.text))
    assert wrong == []


async def test_the_socket_asks_every_caller_for_its_role_too(door: Door):
    allowed, wrong = ALLOWED[ROUTES["WS /live"]], []
    for name in (*ROLES, None, "chg_nobody_0123456789", "expired", "revoked"):
        [frame], code = await door.told(name, {"subscribe": "nothing"})
        refused = "forbidden" if name in ROLES else "unauthorized"
        if (frame["code"], code) != (("not-found", 1000) if name in allowed else (refused, 1008)):
            wrong.append((name, frame, code))
    assert wrong == []


def test_the_table_and_the_app_have_the_same_routes():
    from changeover.server.resources import RESOURCES

    routes = [each for found in RESOURCES for each in found.router.routes]
    declared = [f"{method} {each.path}" for each in routes for method in getattr(each, "methods", ["WS"])]
    assert len(declared) == len(set(declared))
    assert sorted(declared) == sorted(ROUTES)


def test_a_route_that_the_table_does_not_have_cannot_be_declared():
    with pytest.raises(KeyError, match="GET /nowhere"):
        Resource("nothing").route("GET /nowhere", None)


async def test_a_caller_sees_only_its_own_conversations_unless_its_token_says_all(door: Door):
    for user in ("ana", "ben"):
        await door.issue(user, "operator")
    await door.issue("observer", "viewer", everything=True)
    async with door.client("ana") as ana, door.client("ben") as ben, door.client("observer") as observer:
        said = {"id": "private", "text": "refund for SECRET-OF-ANA"}
        assert (await ana.post("/conversations", params={"wait": True}, json=said)).json()["status"] == "waiting"
        await ana.post("/conversations", params={"wait": True}, json={"id": "asked", "text": "research SECRET-OF-ANA"})
        parts = await parts_of(ana)
        for path in await read_paths(parts):
            assert (await ana.get(path)).status_code in (200, 504), path
            answer = await ben.get(path)
            assert answer.status_code in (200, 404), path
            assert "SECRET-OF-ANA" not in answer.text, path
            assert "private" not in answer.text.replace(f"'{path}'", "") or answer.status_code == 404, path
        assert (await ben.get("/conversations/private/stream")).status_code == 404
        for wish in ({"subscribe": "private"}, *({"watch": name} for name in ("conversations", "approvals", "queue"))):
            [mine, *_], [others] = (await door.told("ana", wish))[0], (await door.told("ben", wish))[0]
            assert "private" in str(mine) or "asked" in str(mine), wish
            assert others.get("code") == "not-found" or others["items"] == [], wish
        assert (await ben.get("/conversations")).json()["items"] == []
        assert {each["id"] for each in (await observer.get("/conversations")).json()["items"]} == {"private", "asked"}
        assert (await observer.post("/conversations", json=said)).status_code == 403


async def parts_of(client) -> dict[str, str]:
    """The ids of what the conversation of a user is made of."""
    return {
        "runs": (await client.get("/conversations/private/runs")).json()["items"][0]["run"],
        "tasks": (await client.get("/tasks")).json()["items"][0]["id"],
        "handoffs": (await client.get("/handoffs")).json()["items"][0]["id"],
        "approvals": (await client.get("/approvals")).json()["items"][0]["id"],
        "tickets": (await client.get("/tickets")).json()["items"][0]["ticket"]["id"],
    }


async def read_paths(parts: dict[str, str]) -> list[str]:
    """Everything that a viewer can read about a conversation, its parts, and lists of them."""
    paths = []
    for route, role in ROUTES.items():
        method, path = route.split(" ")
        if method != "GET" or role is not Role.VIEWER or "stream" in path:
            continue
        kind = path.split("/")[1]
        ids = {"conversations": "private", **parts}
        if kind in ids and "{seq}" not in path and "{context}" not in path:
            paths.append(path.replace("{id:path}", ids[kind].replace("#", "%23")))
    assert len(paths) > 15
    return paths


async def test_nobody_changes_what_belongs_to_another_user(door: Door):
    for user in ("ana", "ben"):
        await door.issue(user, "operator")
    async with door.client("ana") as ana, door.client("ben") as ben:
        await ana.post("/conversations", params={"wait": True}, json={"id": "private", "text": "refund"})
        before = await door.team.history("private")
        [handoff] = (await ana.get("/handoffs")).json()["items"]
        package = {
            "protocol": "1.0",
            "task": {"description": "Mine now."},
            "metadata": {"sender": "ben", "receiver": "research", "conversation": "private"},
        }
        tries = [
            await ben.post("/conversations", json={"id": "private", "text": "hello"}),
            await ben.post("/conversations/private/messages", json={"text": "hello"}),
            await ben.post("/conversations/private/cancel", json={}),
            await ben.post("/conversations/private/resume"),
            await ben.patch("/conversations/private", json={"title": "mine"}),
            await ben.post(f"/handoffs/{handoff['id']}/rollback", json={}),
            await ben.post("/tickets", json=package),
            await ben.post("/handoffs", json=package),
        ]
        assert [each.status_code for each in tries] == [404] * len(tries)
        keyed = [
            (await each.post("/conversations", json={"text": text}, headers={"Idempotency-Key": "1"})).json()
            for each, text in ((ana, "hello"), (ben, "hello, too"), (ana, "hello"))
        ]
        assert keyed[0] == keyed[2]
        assert keyed[0]["conversation"] != keyed[1]["conversation"]
        assert await door.team.history("private") == before


async def test_an_approval_needs_the_role_that_the_token_has(door: Door):
    await door.issue("boss", "approver", approval_roles=("manager",))
    async with door.client("admin") as admin, door.client("boss") as boss:
        outcome = (await admin.post("/conversations", params={"wait": True}, json={"text": "close it"})).json()
        [request] = outcome["pending"]
        decision = {"decision": {"type": "approve"}}
        refused = await admin.post(f"/approvals/{request['id']}/decision", json=decision)
        assert (refused.status_code, "manager" in refused.json()["detail"]) == (409, True)
        assert (await boss.post(f"/approvals/{request['id']}/decision", json=decision)).status_code == 204
        [row] = (await boss.get("/approvals", params={"status": "approved"})).json()["items"]
        assert row["decided_by"] == "boss"


async def test_a_worker_claims_only_for_its_agents(door: Door):
    async with door.client("worker") as worker, door.client("operator") as operator:
        await operator.post("/conversations", params={"wait": True}, json={"text": "research it"})
        assert (await worker.post("/claims", json={"agent": "billing"})).status_code == 403
        [claimed] = (await worker.post("/claims", json={"agent": "research"})).json()
        id = claimed["ticket"]["id"]
        done = await worker.post(f"/tickets/{id}/complete", json={"claim": claimed["claim"], "result": "So it is."})
        assert done.status_code == 204
        assert (await worker.get(f"/tickets/{id}")).status_code == 403


async def test_a_token_is_shown_once_and_can_be_revoked_at_once(door: Door):
    async with door.client("admin") as admin:
        issued = (await admin.post("/tokens", json={"user": "eve", "role": "viewer"})).json()
        async with door.client(None, Authorization=f"Bearer {issued['secret']}") as eve:
            assert (await eve.get("/me")).json()["user"] == "eve"
            listed = (await admin.get("/tokens")).text
            assert "eve" in listed
            assert issued["secret"] not in listed
            assert "digest" not in listed
            assert (await admin.delete(f"/tokens/{issued['token']['id']}")).status_code == 204
            assert (await eve.get("/me")).status_code == 401
        actions = [each["action"] for each in (await admin.get("/audit")).json()["items"]]
        assert actions[:2] == ["token.revoke", "token.issue"]


async def test_what_a_caller_does_to_the_team_is_audited(door: Door):
    async with door.client("admin") as admin:
        await admin.post("/conversations", params={"wait": True}, json={"id": "gone", "text": "hello"})
        for method, path in (
            ("POST", "/agents/billing/disable"),
            ("POST", "/agents/billing/enable"),
            ("POST", "/breakers/billing/force"),
            ("POST", "/breakers/billing/reset"),
            ("DELETE", "/router/learned?agent=billing"),
            ("DELETE", "/conversations/gone"),
        ):
            assert (await admin.request(method, path)).is_success, path
        noted = (await admin.get("/audit", params={"actor": "admin", "sort": "at"})).json()["items"]
    assert [(each["action"], each["subject"]) for each in noted] == [
        ("agents.switch", "billing"),
        ("agents.switch", "billing"),
        ("breakers.force", "billing"),
        ("breakers.reset", "billing"),
        ("experience.reset", "billing"),
        ("conversation.forget", "gone"),
    ]
    assert all(each["token"] for each in noted)
