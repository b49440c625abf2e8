"""Secrets that are planted in the environment are searched for wherever a call leaves a trace: none is found."""

import logging
from pathlib import Path

import psycopg
import pytest

from changeover import Agent, Team
from changeover.errors import ChangeoverError
from changeover.testing import ScriptedModel, calls, says
from changeover.tools import ApiKey, Basic, Bearer, HttpTool, McpServer, SqlFunction
from tests.databases import drop_schema, empty_file, fresh_schema
from tests.toolkits.http_server import serving
from tests.toolkits.mcp_process import ROOT, SHOP

SECRETS = {
    "PLANTED_TOKEN": "bearer-planted-4711",
    "PLANTED_PASSWORD": "basic planted+4711",
    "PLANTED_KEY": "query/planted=4711",
    "PLANTED_HEADER": "header-planted-4711",
    "PLANTED_MCP": "mcp-planted-4711",
}
LEAK = "CREATE FUNCTION leak() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'login with %', '{0}'; END $$"


def contents(folder: Path) -> str:
    """Everything that the files of a folder hold."""
    return b"".join(path.read_bytes() for path in folder.iterdir()).decode(errors="replace")


async def test_no_planted_secret_is_in_database_events_logs_or_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    database, file = fresh_schema(), empty_file(tmp_path / "store.db")
    monkeypatch.setenv("PLANTED_DATABASE", database)
    with psycopg.connect(database) as connection:
        connection.execute(LEAK.format(database).encode())
    with serving() as server:
        tools: list[HttpTool | SqlFunction | McpServer] = [
            *(
                HttpTool(
                    f"{name}_{page}",
                    url=f"{server.url}/{path}",
                    method="POST",
                    auth=auth,
                    headers={"X-Secret": "${PLANTED_HEADER}"},
                    allow_private=True,
                )
                for page, path in (("echo", "echo"), ("down", "fails/503/99"), ("lost", "broken"))
                for name, auth in (
                    ("bearer", Bearer("${PLANTED_TOKEN}")),
                    ("basic", Basic("ana", "${PLANTED_PASSWORD}")),
                    ("key", ApiKey("k", "${PLANTED_KEY}", "query")),
                )
            ),
            SqlFunction("leak", database="${PLANTED_DATABASE}"),
            McpServer(
                "shop",
                command=SHOP,
                cwd=str(ROOT),
                env={"PYTHONPATH": str(ROOT), "SHOP_TOKEN": "${PLANTED_MCP}"},
                connect_timeout=60,
            ),
            SqlFunction("away", database="postgresql://ana:${PLANTED_TOKEN}@127.0.0.1:9/shop"),
        ]
        names = [tool.name if not isinstance(tool, McpServer) else "shop_whoami" for tool in tools]
        script = [calls(*((name, {}) for name in names)), says("Done.")]
        async with Team(
            [Agent("solo", tools=tools)], model=ScriptedModel({"solo": script}), store=f"sqlite:///{file}"
        ) as team:
            await team.run("use all", conversation="c")
            history = await team.history("c")
            with pytest.raises(ChangeoverError) as raised:
                await Team([Agent("solo", tools=tools, model=ScriptedModel({}))]).run("fails")
        sent = str(server.seen)
    drop_schema(database)
    traces = {
        "database": contents(tmp_path),
        "events": repr(history),
        "logs": "\n".join([caplog.text, *(str(record.__dict__) for record in caplog.records)]),
        "errors": repr(raised.value),
        "declarations": repr(tools),
    }
    for name, value in SECRETS.items():
        assert value in sent or name in ("PLANTED_PASSWORD", "PLANTED_MCP")  # it was used: it could have been found
        assert [where for where, trace in traces.items() if value in trace] == []
    assert [where for where, trace in traces.items() if database in trace] == []
    assert "${PLANTED_TOKEN}" in traces["events"]
    assert "${PLANTED_MCP}" in traces["events"]
    assert "asked for ${PLANTED_MCP}" in traces["logs"]
