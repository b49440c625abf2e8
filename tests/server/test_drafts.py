"""Drafts and prompts over HTTP: what the page shows is what models get, and the documents of a team."""

import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from changeover import Agent, Team
from changeover.relay.ports.world import Request
from changeover.server import Settings, create_app
from changeover.testing import ScriptedModel, calls, says
from tests.server.door import Door, opened

TOOL = {
    "type": "handoff",
    "to": "billing",
    "description": "For money.",
    "variables": [{"name": "order_id"}, {"name": "urgent", "type": "boolean", "required": False}],
    "instructions": "Check the order first.",
}

SERVER = """
from mcp.server import MCPServer

server = MCPServer("pings")


@server.tool()
def ping(word: str) -> str:
    return word


server.run()
"""


@pytest_asyncio.fixture
async def door() -> AsyncIterator[Door]:
    async with opened(Settings(open_access=True)) as found:
        yield found


async def drafted(door: Door, kind: str, name: str, **document: Any) -> dict[str, Any]:
    async with door.client() as client:
        answer = await client.post(f"/drafts/{kind}/{name}", json={"document": document})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found


async def test_a_draft_shows_exactly_what_models_are_sent():
    seen: list[Request] = []

    def reply(request: Request) -> Any:
        seen.append(request)
        return calls(("to_money", {"order_id": "1042"})) if request.agent == "desk" else says("Done.")

    async with Team([Agent("billing", instructions="Be exact.")], model=ScriptedModel(reply)) as team:
        door = Door(create_app(team, Settings(open_access=True)), team)
        shown = await drafted(door, "tool", "to_money", **TOOL)
        async with door.client() as client:
            await client.put("/declarations/tool/to_money", json=TOOL)
            front = {"instructions": "Find out what is needed.", "tools": ["to_money"]}
            prompt = (await drafted(door, "agent", "desk", **front))["prompt"]
            await client.put("/declarations/agent/desk", json=front)
            said = {"text": "Twice charged", "agent": "desk", "id": "c1"}
            await client.post("/conversations", params={"wait": True}, json=said)
            after = (await client.get("/agents/billing/prompt")).json()
            changed = (await drafted(door, "agent", "desk", **{**front, "instructions": "Else."}))["prompt"]
    first, second = seen
    [sent] = [each for each in first.tools if each.name == "to_money"]
    assert shown["tools"] == [{"name": sent.name, "description": sent.description, "parameters": dict(sent.parameters)}]
    assert (prompt["instructions"], prompt["tools"]) == (first.instructions, shown["tools"])
    assert after["instructions"] == second.instructions
    assert "Check the order first." in after["instructions"]
    assert '"order_id": "1042"' in after["instructions"]
    assert after["handoff"] == "c1:3.0"
    assert [each["text"] for each in after["messages"]] == [each.text for each in second.messages]
    assert changed["instructions"] == "Else."


@pytest.mark.parametrize(
    ("kind", "name", "document", "path"),
    [
        ("tool", "9x", TOOL, "name"),
        ("tool", "two words", TOOL, "name"),
        ("tool", "x", {"type": "handoff"}, "to"),
        ("tool", "x", {**TOOL, "to": "nobody"}, "to"),
        ("tool", "x", {**TOOL, "variables": [{"name": "a"}, {"name": "b", "type": "text"}]}, "variables[1].type"),
        ("tool", "x", {**TOOL, "variables": [{"name": "a b"}]}, "variables"),
        ("tool", "x", {**TOOL, "retunr_to": "billing"}, ""),
        ("tool", "x", {"type": "http_api", "url": "orders"}, "url"),
        ("tool", "x", {"type": "mcp_server"}, "command"),
        ("tool", "x", {"type": "http_api", "url": "https://a.org", "auth": {"bearer": {"token": "abc"}}}, "auth"),
        ("agent", "a b", {}, "id"),
        ("agent", "x", {"tools": ["nothing"]}, "tools[0]"),
        ("agent", "x", {"handoffs": ["nobody"]}, "handoffs[0]"),
        ("agent", "x", {"max_concurrency": 0}, "max_concurrency"),
        ("agent", "x", {"model": "nothing"}, "model"),
    ],
)
async def test_a_fault_has_the_path_of_its_field(door: Door, kind: str, name: str, document: Any, path: str):
    found = await drafted(door, kind, name, **document)
    assert [each["path"] for each in found["faults"]] == [path], found
    assert "changeover-preview" not in str(found)
    assert (found["tools"], found["prompt"]) == ([], None)


async def test_a_draft_that_breaks_another_agent_says_which(door: Door):
    async with door.client() as client:
        await client.put("/declarations/tool/pay", json=TOOL)
        await client.put("/declarations/agent/desk", json={"tools": ["pay"], "handoffs": []})
    found = await drafted(door, "agent", "desk", tools=["pay"], handoffs="auto")
    assert "'handoffs: auto' does not go with handoffs among the tools" in found["faults"][0]["text"]


async def test_the_list_of_tools_says_type_origin_and_users(door: Door):
    async with door.client() as client:
        await client.put("/declarations/tool/pay", json=TOOL)
        found = {each["name"]: each for each in (await client.get("/tools")).json()["items"]}
    told = {name: (each["type"], each["origin"], each["agents"]) for name, each in found.items()}
    assert told["refund"] == ("internal", "code", ["billing"])
    assert told["handoff_to_manager"] == ("handoff", "code", ["triage"])
    assert told["pay"] == ("handoff", "store", [])
    assert found["refund"]["source"] == "tests.server.desk:refund"
    assert (found["refund"]["approval"], found["pay"]["receivers"]) == (True, ["billing"])
    assert found["pay"]["parameters"]["required"] == ["order_id"]


async def test_the_tools_of_an_mcp_server_are_discovered_and_audited(door: Door):
    document = {"type": "mcp_server", "command": [sys.executable, "-c", SERVER]}
    async with door.client() as client:
        answer = await client.post("/drafts/tool/tests/discover", json={"document": document})
        assert [each["name"] for each in answer.json()["items"]] == ["tests_ping"], answer.text
        gone = {"type": "mcp_server", "command": ["no-such-program"]}
        silent = await client.post("/drafts/tool/tests/discover", json={"document": gone})
        assert (silent.status_code, "no-such-program" in silent.json()["detail"]) == (502, True)
        other = await client.post("/drafts/tool/tests/discover", json={"document": TOOL})
        assert other.status_code == 422
        noted = (await client.get("/audit", params={"action": "tool.discover"})).json()["items"]
    assert len(noted) == 2


async def test_a_document_is_imported_whole_or_not_at_all(door: Door):
    text = "tools:\n  pay: {type: handoff, to: billing}\nagents:\n  desk: {tools: [pay], handoffs: []}\n"
    async with door.client() as client:
        shown = (await client.post("/import", json={"text": text})).json()
        assert [(each["kind"], each["name"], each["new"]) for each in shown["changes"]] == [
            ("agent", "desk", True),
            ("tool", "pay", True),
        ]
        assert (shown["written"], (await client.get("/declarations")).json()["items"]) == (False, [])
        wrong = await client.post("/import", json={"text": text.replace("to: billing", "to: nobody"), "write": True})
        assert (wrong.status_code, "line 2" in wrong.json()["detail"]) == (422, True)
        assert (await client.post("/import", json={"text": text, "write": True})).json()["written"] is True
        again = (await client.post("/import", json={"text": text, "write": True})).json()
        assert again == {"changes": [], "written": False}
        exported = (await client.get("/export")).text
        assert "pay:\n    type: handoff\n    to: billing\n" in exported
        whole = (await client.get("/export", params={"code": True})).text
        assert "# only code can express" in whole
        assert "  triage:" in whole


async def test_agents_say_who_declares_them_and_what_they_have(door: Door):
    async with door.client() as client:
        await client.put("/declarations/agent/desk", json={"handoffs": [], "tools": ["refund"]})
        found = {each["id"]: each for each in (await client.get("/agents")).json()["items"]}
    assert (found["desk"]["origin"], found["desk"]["version"], found["desk"]["tools"]) == ("store", 1, ["refund"])
    assert (found["billing"]["origin"], found["billing"]["version"]) == ("code", 0)
