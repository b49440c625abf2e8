"""Documents, rows and exports hold secrets as references only; a literal key is refused, and not repeated."""

import logging
from pathlib import Path
from typing import Any

import pytest

from changeover import Agent, Basic, HttpTool, McpServer, SqlFunction, Team
from changeover.documents.team_document import read_team, team_of
from changeover.documents.team_export import export_team
from changeover.documents.tool_modules import ToolModules
from changeover.documents.yaml_value import DocumentError, to_yaml
from changeover.errors import MisconfiguredError
from changeover.relay.declarations import Edit
from changeover.testing import ScriptedModel, calls, says
from tests.databases import empty_file
from tests.toolkits.http_server import serving

PLANTED = "sk-planted-4711-AbCdEf"
ENVIRONMENT = {"PLANTED_TOKEN": PLANTED, "PLANTED_PASSWORD": f"{PLANTED}+p"}


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


async def test_no_planted_secret_is_in_rows_database_events_logs_or_exports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    store = f"sqlite:///{empty_file(tmp_path / 'store.db')}"
    script = {"solo": [calls(("bearer", {}), ("basic", {})), says("Done.")]}
    with serving() as server:
        async with Team([Agent("desk")], model=ScriptedModel(script), store=store) as team:
            tools = rows(server.url)
            edits = [Edit("tool", name, document) for name, document in tools.items()]
            await team.declarations.write([*edits, Edit("agent", "solo", {"tools": list(tools)})], by="ana")
            await team.run("use all", agent="solo", conversation="c")
            history = await team.history("c")
            listed = await team.declarations.listed()
        sent = str(server.seen)
    own = team_of({"agents": {"solo": {"tools": list(tools)}}, "tools": tools}, "t").members
    traces = {
        "database": contents(tmp_path),
        "events": repr(history),
        "rows": repr(listed),
        "logs": "\n".join([caplog.text, *(str(record.__dict__) for record in caplog.records)]),
        "export": to_yaml(export_team(own, {}, ToolModules([])).document),
    }
    assert PLANTED in sent  # it was used: it could have been found
    assert [where for where, trace in traces.items() if "planted-4711" in trace] == []
    assert all("${PLANTED_TOKEN}" in traces[where] for where in ("database", "events", "rows", "export"))


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
    text = to_yaml(export_team(team.declared.members, vars(team.declared), ToolModules([])).document)
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
