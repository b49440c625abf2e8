"""MCP servers written with the official SDK, over stdio and streamable HTTP: tools, changes, files and mishaps."""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from changeover import Agent, Approve, Team
from changeover.agent.roster import Seat
from changeover.errors import MisconfiguredError
from changeover.messages import File, Message, ToolResult
from changeover.models.files import attached
from changeover.relay.events import CallRefused, ToolFinished
from changeover.relay.ports.declarations import Edit
from changeover.relay.ports.world import ToolOutcome
from changeover.stream import Recorded
from changeover.testing import Reply, ScriptedModel, calls, says
from changeover.toolkits.connections import Connections
from changeover.toolkits.toolkit import AgentToolkit
from changeover.tools import McpServer
from changeover.tools.run_context import current_trace
from changeover.tools.tool import ToolDefinition
from tests.databases import empty_file
from tests.toolkits.function_call import CONTEXT
from tests.toolkits.mcp_process import ROOT, SHOP, end, is_alive, serve_http, shared_shop
from tests.toolkits.mcp_shop import PNG

SECRET = "planted-in-mcp-4711"
pytestmark = pytest.mark.timeout(120)


async def until(true: Any, seconds: float = 20.0) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come about"
        await asyncio.sleep(0.01)


class Shop:
    """A toolkit whose tools are those of the shop."""

    def __init__(self, **options: Any) -> None:
        if "url" not in options:
            env = {"PYTHONPATH": str(ROOT), "SHOP_TOKEN": "${PLANTED_MCP}"}
            options = {"command": SHOP, "env": env, "cwd": str(ROOT), **options}
        self.connections = Connections(attached)
        self.changes: list[int] = []
        self.declared = McpServer("shop", connect_timeout=60, **options)
        self.toolkit = AgentToolkit([self.declared], backoff=0.001, connections=self.connections)
        assert self.toolkit.faults == []

    async def open(self) -> None:
        await self.connections.open(lambda: self.changes.append(self.connections.version))

    async def call(self, name: str, args: dict[str, Any] | None = None) -> ToolOutcome:
        assert not (wrong := self.toolkit.misfit(name, args or {}, CONTEXT)), wrong
        return await self.toolkit.call(name, args or {}, CONTEXT)

    async def pid(self) -> int:
        return int(json.loads((await self.call("shop_whoami")).text)["pid"])

    @property
    def names(self) -> set[str]:
        return {tool.definition.name for tool in self.toolkit.tools()}


@pytest.fixture(scope="module", params=["stdio", "http"])
def shop(request: pytest.FixtureRequest) -> Iterator[Shop]:
    """One server for all tests of this module that leave it as it was: to start one takes a second."""
    os.environ["PLANTED_MCP"] = SECRET
    process, url = serve_http() if request.param == "http" else (None, "")
    shop = Shop(url=url, headers={"X-Token": "${PLANTED_MCP}"}) if url else Shop()
    asyncio.run(shop.open())
    yield shop
    asyncio.run(shop.connections.close())
    if process is not None:
        end(process)


async def test_tools_are_listed_with_a_prefix_and_names_that_providers_take(shop: Shop):
    assert {"shop_find_order", "shop_refund", "shop_key_of-call", "shop_picture"} <= shop.names
    [find] = [tool for tool in shop.toolkit.tools() if tool.definition.name == "shop_find_order"]
    assert find.definition.description == "Find an order by its number."
    assert find.definition.parameters["required"] == ["number"]
    reading = {tool.definition.name for tool in shop.toolkit.tools() if tool.declared.read_only}
    assert reading == {"shop_find_order"}


async def test_a_tool_is_called_with_checked_arguments(shop: Shop):
    outcome = await shop.call("shop_find_order", {"number": 7, "note": "x"})
    assert (json.loads(outcome.text), outcome.ok) == ({"number": 7, "note": "x"}, True)
    wrong = shop.toolkit.misfit("shop_find_order", {"number": "seven"}, CONTEXT)
    assert wrong.startswith("the arguments of shop_find_order do not fit: ")


async def test_the_idempotency_key_goes_with_the_call(shop: Shop):
    assert (await shop.call("shop_key_of-call")).text == CONTEXT.idempotency_key


async def test_the_span_of_the_call_goes_with_it(shop: Shop):
    assert (await shop.call("shop_trace_of_call")).text == "none"
    before = current_trace.set("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    told = await shop.call("shop_trace_of_call")
    current_trace.reset(before)
    assert told.text == "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def test_an_error_of_a_tool_is_told_and_leaves_the_server_as_it_is(shop: Shop):
    before = await shop.pid()
    assert (await shop.call("shop_complain")).text.startswith("shop_complain failed: Error executing tool complain")
    assert await shop.pid() == before


async def test_images_in_results_are_files(shop: Shop):
    outcome = await shop.call("shop_picture")
    assert outcome == ToolOutcome("the parcel\n[a file (image/png)]", files=(File(PNG, "image/png"),))


async def test_a_flood_is_cut(shop: Shop):
    outcome = await shop.call("shop_flood")
    assert len(outcome.text) < 50_200
    assert outcome.text.endswith("of 2400000 characters are shown]")


async def test_calls_at_once_get_their_own_answers(shop: Shop):
    outcomes = await asyncio.gather(*(shop.call("shop_find_order", {"number": n}) for n in range(20)))
    assert [json.loads(outcome.text)["number"] for outcome in outcomes] == list(range(20))


async def test_agents_share_the_process_of_their_server(shop: Shop):
    others = AgentToolkit([replace(shop.declared)], connections=shop.connections)
    outcome = await others.call("shop_whoami", {}, CONTEXT)
    assert int(json.loads(outcome.text)["pid"]) == await shop.pid()


async def test_changed_tools_are_listed_again_and_a_withdrawn_one_is_told(shop: Shop):
    before = len(shop.changes)
    await shop.call("shop_change_tools", {"add": True})
    await until(lambda: "shop_extra" in shop.names)
    assert (await shop.call("shop_extra")).text == "extra"
    await shop.call("shop_change_tools", {"add": False})
    await until(lambda: "shop_extra" not in shop.names)
    assert len(shop.changes) == before + 2
    outcome = await shop.toolkit.call("shop_extra", {}, CONTEXT)
    assert outcome.text == "shop_extra is not available any more: the server that offered it has withdrawn it"


async def test_no_secret_of_the_server_comes_back(shop: Shop):
    assert SECRET not in (await shop.call("shop_whoami")).text


async def test_a_server_that_crashes_hangs_or_garbles_is_there_again_for_the_next_call(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("PLANTED_MCP", SECRET)
    monkeypatch.setattr("changeover.toolkits.mcp.PROBE", 0.2)
    shop = Shop(timeout=30.0, include=["whoami", "garble", "die", "ha*"], exclude=["extra"])
    await shop.open()
    [server] = shop.toolkit._servers
    assert shop.names == {"shop_whoami", "shop_garble", "shop_die", "shop_hang"}
    first = await shop.pid()
    assert (await shop.call("shop_garble")).text == "garbled"
    assert await shop.pid() == first
    died = await shop.call("shop_die")
    assert died.text == "shop_die failed: the MCP server 'shop' broke off during the call, which may have taken effect"
    second = await shop.pid()
    assert not is_alive(first)
    os.kill(second, signal.SIGKILL)  # between two calls: nothing was under way, and nothing fails
    await until(lambda: server._toolset is None)
    third = await shop.pid()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await shop.call("shop_hang")
    await until(lambda: server._toolset is None)
    assert len({first, second, third, await shop.pid()}) == 4
    last = await shop.pid()
    await shop.connections.close()
    assert not any(map(is_alive, (first, second, third, last)))
    assert SECRET not in caplog.text


HELD = """
import asyncio, os, sys
from tests.toolkits.test_mcp import Shop
os.environ["PLANTED_MCP"] = "planted-in-mcp-4711"

async def hold():
    shop = Shop()
    await shop.open()
    print(await shop.pid(), flush=True)
    await asyncio.sleep(600)

asyncio.run(hold())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no parent-death signal")
async def test_no_server_is_left_when_our_process_is_killed():
    holder = await asyncio.create_subprocess_exec(sys.executable, "-c", HELD, cwd=ROOT, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    pid = int(await holder.stdout.readline())
    assert is_alive(pid)
    holder.kill()
    await holder.wait()
    await until(lambda: not is_alive(pid))


async def test_a_server_that_is_not_there_is_logged_and_its_tools_are_left_out(caplog: pytest.LogCaptureFixture):
    shop = Shop(command=["no-such-program-anywhere"], env={})
    await shop.open()
    assert shop.names == set()
    assert (
        "MCP server 'shop' offers no tools yet: it cannot be started: there is no program 'no-such-program-anywhere'"
        in caplog.text
    )
    await shop.connections.close()


def texts_of(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages if isinstance(message, ToolResult)]


async def test_a_model_is_offered_what_the_server_has_now_and_told_what_is_gone():
    process, url = serve_http()
    offered: list[bool] = []

    async def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        done = texts_of(messages)
        offered.append("shop_extra" in {tool.name for tool in tools})
        script = [
            *(calls(("shop_change_tools", {"add": True})), calls(("shop_extra", {}))),
            *(calls(("shop_change_tools", {"add": False})), calls(("shop_extra", {}))),
        ]
        return script[len(done)] if len(done) < len(script) else says("Done.")

    async def heard(record: Recorded) -> None:
        """The server tells of a change a moment after the call that made it."""
        if isinstance(record.event, ToolFinished) and record.event.text == "changed":
            await asyncio.sleep(0.5)

    team = Team(
        [Agent("solo", tools=[McpServer("shop", url=url, connect_timeout=60)]), Agent("other")],
        model=ScriptedModel(play),
        hooks={"tool_finished": heard},
    )
    async with team:
        seat = (await team.engine.world()).roster.seats["solo"]
        assert isinstance(seat, Seat)
        assert "shop_find_order" in seat.tools
        await team.run("go", conversation="c")
        history = await team.history("c")
    assert [record.event.text for record in history if isinstance(record.event, ToolFinished)] == [
        *("changed", "extra", "changed"),
    ]
    [refused] = [record.event for record in history if isinstance(record.event, CallRefused)]
    assert refused.reason.startswith("there is no tool called 'shop_extra'; your tools: shop_find_order, ")
    assert offered == [False, True, True, False, False]
    # Over HTTP nobody but its owner starts a server again.
    shop = Shop(url=url)
    await shop.open()
    died = await shop.call("shop_die")
    assert died.text == "shop_die failed: the MCP server 'shop' broke off during the call, which may have taken effect"
    process.wait()
    assert (await shop.call("shop_find_order", {"number": 1})).text.startswith(
        "shop_find_order failed: MCP server 'shop' is not available: "
    )
    await shop.connections.close()


async def test_a_tool_that_appears_while_the_model_replies_is_called_under_the_options_of_its_server():
    process, url = serve_http()
    offered: list[bool] = []

    async def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        offered.append("shop_extra" in {tool.name for tool in tools})
        if len(offered) == 1:
            toolkit = (await team.engine.world()).toolkits["solo"]
            await toolkit.call("shop_change_tools", {"add": True}, CONTEXT)
            await until(lambda: "shop_extra" in {tool.definition.name for tool in toolkit.tools()})
            return calls(("shop_extra", {"guessed": [1]}))
        return calls(("shop_extra", {})) if len(offered) == 2 else says("Done.")

    server = McpServer("shop", url=url, connect_timeout=60, approval=lambda context, arguments: "guessed" in arguments)
    team = Team([Agent("solo", tools=[server])], model=ScriptedModel(play))
    async with team:
        waiting = await team.run("go", conversation="c")
        assert waiting.status == "waiting"  # the approval of its server holds for it at once
        await team.decide(waiting.pending[0].id, Approve(), by="ana")
        await team.resume("c")
        results = [record.event for record in await team.history("c") if isinstance(record.event, ToolFinished)]
    end(process)
    assert [event.text for event in results] == ["extra", "extra"]
    assert offered == [False, True, True]


async def test_a_server_that_only_an_old_edition_declares_serves_its_runs_and_ends_with_them(tmp_path: Path):
    store = f"sqlite:///{empty_file(tmp_path / 'store.db')}"
    shop = {"type": "mcp_server", "command": SHOP, "cwd": str(ROOT), "approval": True, "connect_timeout": 60}

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        return says("Done.") if agent == "desk" or texts_of(messages) else calls(("shop_whoami", {}))

    def opened() -> Team:
        return Team([Agent("desk")], model=ScriptedModel(play), store=store)

    async with opened() as first:
        await first.declarations.write([Edit("tool", "shop", shop), Edit("agent", "solo", {"tools": ["shop"]})])
        waiting = await first.run("who?", agent="solo", conversation="c")
        await first.declarations.set_state("tool", "shop", "removed")
    async with opened() as team:
        await team.run("hello", agent="desk")
        await team.decide(waiting.pending[0].id, Approve(), by="ana")
        await team.resume("c")
        [done] = [each.event for each in await team.history("c") if isinstance(each.event, ToolFinished)]
        assert done.ok, done.text
        pid = int(json.loads(done.text)["pid"])
        assert is_alive(pid)
        await team.declarations.put("agent", "solo", {"instructions": "Other ones."})
        await team.run("hello", agent="desk")
        assert not is_alive(pid)


async def test_a_member_that_joins_later_brings_its_server():
    url, _ = shared_shop()
    script = {"late": [calls(("shop_find_order", {"number": 7})), says("Found.")]}
    async with Team([Agent("first")], model=ScriptedModel(script)) as team:
        team.register(Agent("late", tools=[McpServer("shop", url=url, include=["find_order"], connect_timeout=60)]))
        assert (await team.run("order 7?", agent="late", conversation="c")).output == "Found."
        texts = [each.event.text for each in await team.history("c") if isinstance(each.event, ToolFinished)]
    assert texts == ['{"number":7,"note":""}']


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({}, "needs command=[…], the program and its arguments, or url=, the address of the server"),
        ({"command": ["a"], "url": "https://example.org"}, "needs command=[…]"),
        ({"url": "stdio://x"}, "has url='stdio://x'; give one that begins with https:// or http://"),
        ({"url": "https://example.org/${KEY}"}, "has a secret in its url; put it into headers="),
        ({"command": "npx server"}, "has command='npx server'; give a list of texts"),
        ({"command": ["a"], "env": {"API_TOKEN": "abc"}}, "has what looks like a key in its env 'API_TOKEN'"),
        ({"url": "https://example.org", "headers": {"Authorization": "Bearer abcdefgh"}}, "has what looks like a key"),
        ({"command": ["a", "--key", "ghp_" + "a1" * 18]}, "has what looks like a key in its command"),
        ({"command": ["a"], "prefix": "my shop"}, "has the prefix 'my shop'; use letters, digits, '_' and '-'"),
    ],
)
def test_faults_are_reported_when_the_team_is_built(options: dict[str, Any], fault: str):
    with pytest.raises(MisconfiguredError) as caught:
        Team([Agent("solo", tools=[McpServer("shop", **options)])], model=ScriptedModel({}))
    assert any(each.startswith(f"agent 'solo': MCP server 'shop' {fault}") for each in caught.value.faults)
