"""The command `serve`: what it refuses, its demo, and an app below a prefix."""

import asyncio
from pathlib import Path

import httpx2 as httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from typer.testing import CliRunner

from changeover.cli.commands import app
from changeover.cli.demo.seeds import SEEDS, demo_team, sow
from changeover.guards.approval import Approve
from changeover.relay.ports.lists import ApprovalRow, ConversationRow
from changeover.server import Settings
from tests.server.door import opened
from tests.server.process import ADMIN, Server, serving

DESK = "tests/server/desk.py:team"


def refused(*words: str) -> str:
    """What `serve` says when it does not start."""
    done = CliRunner().invoke(app, ["serve", *words], env={"CHANGEOVER_STORE": "", "CHANGEOVER_TOKEN": ""})
    assert done.exit_code == 1, done.output
    return " ".join(done.output.split())


def test_a_server_that_others_reach_needs_a_token(sqlite_file: Path):
    said = refused(DESK, "--host", "0.0.0.0", "--store", str(sqlite_file))
    assert "0.0.0.0 can be reached by others, so the server needs a token" in said


def test_a_token_that_could_be_guessed_is_refused(sqlite_file: Path):
    assert "20 characters or more" in refused(DESK, "--token", "secret", "--store", str(sqlite_file))


def test_without_a_team_the_store_has_to_declare_one(sqlite_file: Path):
    assert "the store declares no agents" in refused("--store", str(sqlite_file))


async def test_the_demo_tells_the_same_conversations_each_time_and_goes_on_with_them():
    async with demo_team(None) as team:
        await sow(team)
        await sow(team)
        rows = await team.log.lists.listed(ConversationRow, roots=True)
        assert [(each.id, each.status) for each in rows] == [
            ("refund-waits", "waiting"),
            ("second-thoughts", "cancelled"),
            ("outage", "failed"),
            ("incident-e42", "completed"),
            ("plans", "completed"),
            ("order-1042", "completed"),
        ]
        assert {each.id for each in rows} == {each.id for each in SEEDS}
        assert {each.status for each in await team.steps("incident-e42")} == {"done"}
        [request] = await team.log.lists.listed(ApprovalRow, {"status": "pending"})
        await team.decide(request.id, Approve(), by="ana")
        assert (await team.resume("refund-waits")).text.startswith("Done: 24.95 EUR")
        assert (await team.run("Compare the Basic plan with the Team plan", conversation="order-1042")).status


async def test_a_mounted_app_keeps_its_cookies_and_links_below_its_prefix():
    async with opened(Settings(open_access=True)) as door:
        mounted = Starlette(routes=[Mount("/desk", door.app)])
        transport = httpx.ASGITransport(mounted)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost/desk") as client:
            answer = await client.get("/api/v1/me")
            assert "path=/desk;" in answer.headers["set-cookie"].lower()
            assert (await client.get("/")).headers["location"] == "/desk/chat"
            assert (await client.get("/api/v1/version")).json()["team"] == "desk"


def test_a_server_behind_a_proxy_that_strips_a_prefix_keeps_links_and_cookies_below_it(sqlite_file: Path):
    passed_on = {"Host": "desk.example.org", "X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.7"}
    options = ("--token", ADMIN, "--prefix", "/desk/", "--allow-host", "desk.example.org")
    with serving(f"sqlite:///{sqlite_file}", *options) as server:
        base = server.url.removesuffix("/desk")
        assert server.url == f"{base}/desk"  # what people are told to open
        with httpx.Client(base_url=base, headers={**passed_on, "Authorization": f"Bearer {ADMIN}"}) as client:
            cookie = client.get("/api/v1/me").headers["set-cookie"].lower()
            assert "path=/desk;" in cookie
            assert "secure" in cookie
            assert client.get("/").headers["location"] == "/desk/chat"
            assert client.get("/api/v1/openapi.json").json()["servers"] == [{"url": "/desk"}]
            assert client.get("/api/v1/docs").status_code == 200
            begun = client.post("/api/v1/conversations?wait=true", json={"text": "hello"}).json()
            assert begun["text"] == "Hello."
            page = {"Origin": "https://desk.example.org", "Authorization": ""}
            assert client.get("/chat", headers=page).status_code in (200, 303, 307)
        elsewhere = {**passed_on, "Host": "elsewhere.example"}
        assert httpx.get(f"{base}/api/v1/version", headers=elsewhere).status_code == 421


async def test_a_tool_is_tried_out_as_an_agent_would_call_it():
    async with opened(Settings(open_access=True)) as door, door.client() as client:
        tools = (await client.get("/tools")).json()["items"]
        assert [(each["name"], each["agents"]) for each in tools][-1] == ("refund", ["billing"])
        tried = await client.post("/tools/refund/test", json={"arguments": {"amount": 3}})
        assert tried.json() == {"ok": True, "text": "3.00 EUR sent back"}
        assert (await client.post("/tools/refund/test", json={"arguments": {"amount": "much"}})).status_code == 422
        assert (await client.post("/tools/refund/test", json={"agent": "triage"})).status_code == 404
        missing = await client.post("/tools/repay/test", json={})
        assert (missing.status_code, "there are: close_account, refund" in missing.json()["detail"]) == (404, True)
        new = {"type": "http_api", "url": "http://127.0.0.1:9/orders"}
        assert (await client.put("/declarations/tool/orders", json=new)).status_code == 201
        tried = (await client.post("/tools/orders/test", json={})).json()  # before any agent has it
        assert (tried["ok"], "127.0.0.1" in tried["text"]) == (False, True)
        assert (await client.get("/audit")).json()["items"][0]["action"] == "tool.test"


async def test_a_list_is_read_page_by_page_and_a_key_says_a_message_once():
    async with opened(Settings(open_access=True)) as door, door.client() as client:
        for number in range(5):
            await client.post("/conversations", params={"wait": True}, json={"id": f"c{number}", "text": "hello"})
        seen, part = [], {"limit": "2"}
        while part:
            page = (await client.get("/conversations", params=part)).json()
            seen += [each["id"] for each in page["items"]]
            part = {"limit": "2", "cursor": page["next"]} if page["next"] else {}
        assert seen == ["c4", "c3", "c2", "c1", "c0"]
        assert (await client.get("/conversations", params={"cursor": "forged"})).status_code == 422
        assert (await client.get("/conversations", params={"sort": "colour"})).status_code == 422
        key = {"Idempotency-Key": "once"}
        said = [await client.post("/conversations/c0/messages", json={"text": "more"}, headers=key) for _ in "ab"]
        assert said[0].json() == said[1].json()
        other = await client.post("/conversations/c0/messages", json={"text": "other"}, headers=key)
        assert (other.status_code, other.json()["type"]) == (409, "urn:changeover:problem:key-conflict")
        assert (await client.patch("/conversations/c0", json={"title": "Mine"})).json()["title"] == "Mine"
        assert (await client.get("/conversations", params={"text": "mine"})).json()["items"][0]["id"] == "c0"


@pytest.mark.parametrize("header", ["X-Large", "Cookie"])
def test_headers_that_are_too_large_are_refused(server: Server, header: str):
    with server.client() as client:
        assert client.get("/version", headers={header: "x" * 100_000}).status_code in (400, 431)
        assert client.get("/version").status_code == 200


async def test_the_result_of_many_callers_at_once_is_right(server: Server):
    """Waiting callers do not hinder each other."""

    async def ask(client: httpx.AsyncClient, number: int) -> str:
        said = {"id": f"many-{number}", "text": f"hello {number}"}
        return str((await client.post("/conversations", params={"wait": True}, json=said)).json()["conversation"])

    headers = dict(server.client().headers)
    async with httpx.AsyncClient(base_url=f"{server.url}/api/v1", headers=headers, timeout=30) as client:
        found = await asyncio.gather(*(ask(client, number) for number in range(20)))
    assert found == [f"many-{number}" for number in range(20)]
