"""Documents, rows and exports hold secrets as references only; a literal key is refused, and not repeated."""

import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from msgspec.structs import asdict

from changeover import Agent, Team, Telemetry
from changeover.documents.team_document import read_team, team_of
from changeover.documents.team_export import export_team
from changeover.documents.tool_modules import ToolModules
from changeover.documents.yaml_value import DocumentError, to_yaml
from changeover.errors import MisconfiguredError
from changeover.exchange import code_export, rows_document
from changeover.messages import Message, ToolResult
from changeover.relay.events import ModelReplied
from changeover.relay.ports.declarations import Edit
from changeover.server import Settings, create_app
from changeover.testing import Reply, ScriptedModel, calls, says
from changeover.tools import Basic, HttpTool, McpServer, SqlFunction
from changeover.tools.tool import ToolDefinition
from tests.databases import empty_file
from tests.observe.test_telemetry import Seen
from tests.public_api import soon
from tests.server.door import calling
from tests.toolkits.http_server import serving

PLANTED = "sk-planted-4711-AbCdEf"
ENVIRONMENT = {"PLANTED_TOKEN": PLANTED, "PLANTED_PASSWORD": f"{PLANTED}+p", "PLANTED_HOOK": f"whsec-{PLANTED}"}


def contents(folder: Path) -> str:
    """Everything that the files of a folder hold."""
    return b"".join(path.read_bytes() for path in folder.iterdir()).decode(errors="replace")


def rows(url: str) -> dict[str, dict[str, Any]]:
    """Tools whose answers repeat the secrets that they were called with."""
    return {
        "bearer": {
            "type": "http_api",
            "url": f"{url}/echo",
            "method": "POST",
            "allow_private": True,
            "auth": {"bearer": {"token": "${PLANTED_TOKEN}"}},
        },
        "basic": {
            "type": "http_api",
            "url": f"{url}/echo",
            "method": "POST",
            "allow_private": True,
            "auth": {"basic": {"username": "ana", "password": "${PLANTED_PASSWORD}"}},
            "headers": {"X-Secret": "${PLANTED_TOKEN}"},
        },
    }


def settings(url: str) -> dict[str, Any]:
    """Events that reach the agent with the tools, and a webhook whose server refuses them."""
    webhook = {"webhook": f"{url}/fails/503/9", "secret": "${PLANTED_HOOK}", "allow_private": True}
    return {"subscriptions": [{"types": "order.*", "to": "solo"}, {"types": "tick", "to": webhook, "tries": 1}]}


def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
    if isinstance(messages[-1], ToolResult):
        return says("Done.")
    return calls(("bearer", {}), ("basic", {}))


NOTHING = {
    *("conversations/files", "conversations/contexts", "approvals", "tickets/result", "tickets", "experiments"),
    *("handoffs", "schedules", "docs"),
}
"""Parts of the API of which this team has none, or which are files of the package."""


async def answers_of(team: Team) -> str:
    """All that the API tells: the answer of every GET, by ids that its lists give, and of a tool that is tried."""
    app = create_app(team, Settings(open_access=True, rate=0))
    ids = {"conversations": "c", "workflows": "flow", "agents": "solo", "declarations": "tool/basic"}
    texts, refused = [], set()
    async with calling(app) as client:
        for part in ("runs", "tasks", "bus/events"):
            ids[part] = (await client.get(f"/{part}")).json()["items"][0]["id"]
        seq = next(each.seq for each in await team.history("c") if isinstance(each.event, ModelReplied))
        tried = await client.post("/tools/basic/test", json={"arguments": {}})
        texts.append(tried.raise_for_status().text)
        for path in [path for path, does in app.openapi()["paths"].items() if "get" in does and "stream" not in path]:
            part = path.removeprefix("/api/v1/")
            for section, id in ids.items():
                part = re.sub(rf"^{section}/({{kind}}/)?{{\w+}}", f"{section}/{quote(id)}", part)
            part = part.replace("{seq}", str(seq)).replace("{id}", "none")
            asked = {"figure": "latency", "format": "prometheus"} if "metrics" in part else {}
            answer = await client.get(f"/{part}", params=asked)
            texts.append(answer.text)
            if answer.status_code != 200:
                refused.add(re.sub(r"/(c|none|[\d{}a-z]*[\d{}][\d{}a-z]*)(?=/|$)", "", part))
    assert refused <= NOTHING, refused
    return "\n".join(texts)


async def test_no_planted_secret_is_in_rows_database_events_logs_spans_answers_or_exports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    store = f"sqlite:///{empty_file(tmp_path / 'store.db')}"
    seen = Seen()
    telemetry = Telemetry(tracer_provider=seen.provider, content=True, redact=lambda text: text)
    with serving() as server:
        async with Team([Agent("desk")], model=ScriptedModel(play), store=store, telemetry=telemetry) as team:
            tools = rows(server.url)
            edits = [
                *(Edit("tool", name, document) for name, document in tools.items()),
                Edit("agent", "solo", {"tools": list(tools)}),
                Edit("workflow", "flow", {"steps": [{"id": "ask", "agent": "solo"}]}),
                Edit("team", "default", settings(server.url)),
            ]
            await team.declarations.write(edits, by="ana")
            await team.run("use all", agent="solo", conversation="c")
            await team.run_workflow("flow", {"a": 1})
            events = [await team.bus.publish(type) for type in ("order.paid", "tick")]

            async def over() -> bool:
                found = [await team.bus.event(id) for id in events]
                return [each.state for event in found if event for each in event.deliveries] == ["done", "dead"]

            assert await soon(over, 20.0)
            delivered = [repr(await team.bus.event(id)) for id in events]
            history = await team.history("c")
            listed = await team.declarations.listed()
            answers = await answers_of(team)
            export = to_yaml({**rows_document(listed, "default"), **code_export(team.declared).document})
        sent = str(server.seen)
    traces = {
        "database": contents(tmp_path),
        "events": repr(history),
        "rows": repr(listed),
        "bus": "\n".join(delivered),
        "logs": "\n".join([caplog.text, *(str(record.__dict__) for record in caplog.records)]),
        "spans": "\n".join(span.to_json() for span in seen.spans),
        "answers": answers,
        "export": export,
    }
    assert PLANTED in sent  # it was used: it could have been found
    assert "webhook-signature" in sent
    assert [where for where, trace in traces.items() if "planted-4711" in trace] == []
    used = ("database", "events", "rows", "spans", "answers", "export")
    assert [where for where in used if "${PLANTED_TOKEN}" not in traces[where]] == []


LITERALS: list[dict[str, Any]] = [
    {"type": "http_api", "url": "https://x.org", "auth": {"bearer": {"token": PLANTED}}},
    {"type": "http_api", "url": "https://x.org", "auth": {"basic": {"username": "a", "password": PLANTED}}},
    {"type": "http_api", "url": "https://x.org", "auth": {"api_key": {"name": "k", "value": PLANTED}}},
    {"type": "http_api", "url": "https://x.org", "headers": {"Authorization": f"Bearer {PLANTED}"}},
    {"type": "http_api", "url": "https://x.org", "query": {"q": {"deep": [PLANTED]}}},
    {"type": "http_api", "url": "https://x.org", "method": "POST", "body": {"api_key": PLANTED}},
    {"type": "http_api", "url": f"https://ana:{PLANTED}@x.org"},
    {"type": "mcp_server", "command": ["shop"], "env": {"TOKEN": PLANTED}},
    {"type": "mcp_server", "command": ["shop", PLANTED]},
    {"type": "mcp_server", "url": "https://x.org", "headers": {"X-Key": PLANTED}},
    {"type": "sql_function", "database": f"postgresql://ana:{PLANTED}@db/shop"},
    {"type": "sql_function", "rest": "https://x.org", "headers": {"apikey": PLANTED}},
]


@pytest.mark.parametrize("tool", LITERALS, ids=range(len(LITERALS)))
def test_a_literal_where_a_reference_belongs_is_refused_and_not_repeated(tool: dict[str, Any]):
    with pytest.raises(DocumentError) as raised:
        team_of({"agents": {"a": {}}, "tools": {"get": tool}}, "the store")
    assert "tool 'get' has " in str(raised.value)
    assert PLANTED not in str(raised.value)


def test_a_key_in_the_settings_of_a_model_is_neither_read_nor_written():
    settings = {"extra_headers": {"Authorization": f"Bearer {PLANTED}"}}
    with pytest.raises(DocumentError, match="the settings hold what looks like a key") as raised:
        team_of({"agents": {"a": {"settings": settings}}}, "the store")
    assert PLANTED not in str(raised.value)
    export = export_team([Agent("a", settings=settings)], {}, ToolModules([]))
    assert (export.document["agents"], len(export.left_out)) == ({"a": {}}, 1)
    assert PLANTED not in repr(export)


def test_no_secret_of_the_environment_is_in_the_export_of_a_team_in_code(monkeypatch: pytest.MonkeyPatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    tools: list[HttpTool | McpServer | SqlFunction] = [
        HttpTool("get", url="https://x.org", auth=Basic("ana", "${PLANTED_PASSWORD}")),
        McpServer("shop", command=["shop"], env={"TOKEN": "${PLANTED_TOKEN}"}),
        SqlFunction("find", database="postgresql://ana:${PLANTED_TOKEN}@db/shop"),
    ]
    team = Team([Agent("a", tools=tools)], model="offline", store=f"postgresql://ana:{PLANTED}@db/shop")
    text = to_yaml(export_team(team.declared.members, asdict(team.declared), ToolModules([])).document)
    assert "${PLANTED_TOKEN}" in text
    assert "planted-4711" not in text
    assert read_team(text, "team.yaml").members == list(team.declared.members)


async def test_a_row_with_a_literal_is_not_stored(tmp_path: Path):
    store = f"sqlite:///{empty_file(tmp_path / 'store.db')}"
    async with Team([Agent("desk")], model="offline", store=store) as team:
        with pytest.raises(MisconfiguredError) as raised:
            await team.declarations.put("tool", "get", LITERALS[0], by="ana")
        assert await team.declarations.listed() == []
    assert PLANTED not in str(raised.value)
    assert PLANTED not in contents(tmp_path)
