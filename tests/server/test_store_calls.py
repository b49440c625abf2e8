"""Calls of the store over HTTP: each has a role, callers see their own conversations, and bad calls are refused."""

from collections.abc import AsyncIterator
from typing import Any

import httpx2 as httpx
import msgspec
import pytest

from changeover import Agent, Team
from changeover.relay.ports.lists import ORDERS, ConversationRow
from changeover.relay.ports.tokens import Audited, NewToken
from changeover.server import Settings, create_app
from changeover.server.access import Caller, Role
from changeover.server.resources.store import CALLS
from changeover.stores.calls import PORTS, Listed, call_of
from changeover.testing import ScriptedModel, says

MODEL = ScriptedModel(lambda agent, messages, tools: says("Hello."))


class Door:
    """Lets this caller in."""

    def __init__(self, caller: Caller) -> None:
        self.who = caller

    async def caller(self, request: object) -> Caller:
        return self.who


class Client:
    """Calls a server in this process as somebody."""

    def __init__(self, team: Team) -> None:
        self.team = team
        self.app = create_app(team, Settings(open_access=True, rate=0))

    async def call(self, name: str, who: Caller, body: bytes | None = None, **named: Any) -> httpx.Response:
        self.app.state.doorkeeper = Door(who)
        content = msgspec.msgpack.encode(named) if body is None else body
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app), base_url="http://localhost/api/v1/store"
        ) as client:
            return await client.post(f"/{name}", content=content)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with Team([Agent("front")], model=MODEL) as team:
        for user in ("ada", "bob"):
            await team.run(f"I am {user}", conversation=user, user=user)
        yield Client(team)


def caller(role: Role, user: str = "ada", everything: bool = False) -> Caller:
    return Caller(user=user, role=role, everything=everything, token="t1")


async def listed(client: Client, who: Caller, kind: str = "ConversationRow", **wanted: str) -> list[Any]:
    answer = await client.call("lists.listed", who, of=Listed(kind, wanted, limit=50))
    assert answer.status_code == 200, answer.text
    page = call_of("lists", "listed").read_answer(answer.content)
    return page.read({each.__name__: each for each in ORDERS}[kind])  # type: ignore[no-any-return]


def test_every_call_exists_and_no_method_of_a_port_is_open_by_accident():
    assert {name for name in CALLS if call_of(*name.split("."))} == set(CALLS)
    left_out = {
        f"{port}.{name}" for port, kind in PORTS.items() for name in vars(kind) if not name.startswith("_")
    } - CALLS.keys()
    editions = {"declarations.edition", "declarations.at_edition", "declarations.checked_by"}
    assert left_out == {"agents.version", "breakers.calm", "tokens.holder", *editions}


@pytest.mark.parametrize("role", [role for role in Role if role > Role.PUBLIC])
async def test_a_call_needs_its_role(client: Client, role: Role):
    wrong = []
    for name, needed in CALLS.items():
        answer = await client.call(name, caller(role, everything=True), body=b"\xc1")
        allowed = role >= needed and role is not Role.WORKER
        if answer.status_code != (422 if allowed else 403):
            wrong.append((name, answer.text))
    assert wrong == []


@pytest.mark.parametrize("kind", [each.__name__ for each in ORDERS if each is not Audited])
async def test_viewers_see_their_own_conversations_only(client: Client, kind: str):
    own, everybody = caller(Role.VIEWER), caller(Role.VIEWER, everything=True)
    assert "bob" not in str(await listed(client, own, kind))
    assert "bob" not in str(await listed(client, own, kind, user="bob"))
    if kind not in ("HandoffRow", "ApprovalRow"):
        assert "ada" in str(await listed(client, own, kind))
        assert "bob" in str(await listed(client, everybody, kind))


async def test_figures_of_all_users_are_not_for_the_token_of_one(client: Client):
    answer = await client.call("work.unfinished", caller(Role.OPERATOR))
    assert (answer.status_code, answer.json()["detail"][:39]) == (403, "this shows the work of all users, and t")
    for about_the_team in ("agents.all", "breakers.listed", "declarations.listed"):
        assert (await client.call(about_the_team, caller(Role.VIEWER))).status_code == 200
    auditor = caller(Role.APPROVER, everything=True)
    assert (await client.call("lists.listed", auditor, of=Listed("Audited"))).status_code == 403
    for name in ("lists.handoffs", "lists.context_flow"):
        others = await client.call(name, caller(Role.VIEWER), conversation="bob")
        nobodys = await client.call(name, caller(Role.VIEWER), conversation="nobody")
        assert (others.status_code, nobodys.status_code) == (404, 404), others.text
        assert others.json()["detail"] == nobodys.json()["detail"].replace("nobody", "bob")


@pytest.mark.parametrize("name", ["agents.version", "log.close", "agents.__init__", "x", "tokens.holder"])
async def test_what_is_no_call_is_refused(client: Client, name: str):
    assert (await client.call(name, caller(Role.ADMIN))).status_code in (404, 422)


@pytest.mark.parametrize(
    "body", [b"", b"\xc1", b"{}", b"\x81\xa1x\x01", msgspec.msgpack.encode([]), b"\x91" * 5_000, b"\xa2\xff\xff"]
)
async def test_a_bad_body_is_refused(client: Client, body: bytes):
    answer = await client.call("agents.switch", caller(Role.ADMIN), body=body)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")


async def test_changes_are_audited_with_the_caller_and_not_with_what_it_says_of_itself(client: Client):
    admin = caller(Role.ADMIN, "root")
    wanted = NewToken(user="eve", role="viewer")
    assert (await client.call("tokens.issue", admin, wanted=wanted, by="ada")).status_code == 200
    assert (await client.call("agents.switch", admin, id="front", enabled=False)).status_code == 200
    assert (await client.call("breakers.reset", admin, receiver="front", at=1.0)).status_code == 200
    agent = {"kind": "agent", "name": "clerk", "document": {"description": "Files"}, "by": "ada"}
    assert (await client.call("declarations.put", admin, msgspec.msgpack.encode(agent))).status_code == 200
    rows = await client.team.log.lists.listed(Audited, sort="at")
    assert [(row.actor, row.token, row.action) for row in rows] == [
        ("root", "t1", "token.issue"),
        ("root", "t1", "agents.switch"),
        ("root", "t1", "breakers.reset"),
        ("root", "t1", "declaration.put"),
    ]
    assert rows[2].subject == "front"
    assert (rows[1].subject, rows[1].detail) == ("front", {"id": "front", "enabled": False})
    answer = await client.call("tokens.all", admin)
    assert b"eve" in answer.content
    [token] = call_of("tokens", "all").read_answer(answer.content)
    assert token.digest == ""


async def test_one_conversation_is_found_by_its_id(client: Client):
    [row] = await listed(client, caller(Role.APPROVER), id="bob")
    assert isinstance(row, ConversationRow)
    assert (row.user, row.title, row.status) == ("bob", "I am bob", "completed")
