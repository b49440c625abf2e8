"""Tools: what the agents of the team can call now, and a call to try one out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from itertools import chain
from typing import Annotated, Any

from msgspec import Struct

from changeover.agent.handoff import Delegate, Handoff
from changeover.documents.agent_document import ABSENT
from changeover.documents.tool_modules import ToolModules
from changeover.relay.ports.world import Toolkit
from changeover.server.access import Caller
from changeover.server.problems import Problem
from changeover.server.resource import Id, Resource, Served, Who, audited
from changeover.server.resources.tool_view import ToolView, tool_views
from changeover.server.wire import Json, Page, body
from changeover.stores.calls import ToolAnswer
from changeover.team import Team
from changeover.toolkits.toolkit import lone_toolkit
from changeover.tools.mcp_server import McpServer
from changeover.tools.run_context import RunContext
from changeover.union import in_code, scope_over

resource = Resource("tools")

NOT_CALLED = (Handoff, Delegate, McpServer)
"""A handoff needs a conversation; an MCP server offers tools under other names, and agents have those."""
TEST = "tools-test"
"""The conversation of a test, which has no log."""


class ToolTest(Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of a call."""

    arguments: dict[str, Any] = {}
    agent: str | None = None
    """The agent that calls it; by default the first that has it."""


@resource.route("GET /tools", Page[ToolView])
async def list_tools(team: Served) -> Json:
    """All tools by name: those that agents have now, those of MCP servers included, and the rows of the store.

    A name appears twice if two agents have different tools of this name.
    """
    return Json(Page(await tool_views(team)))


@resource.route("POST /tools/{id}/test", ToolAnswer, body=ToolTest, refusals={404: "No agent has such a tool"})
async def test_tool(id: Id, team: Served, who: Who, given: Annotated[ToolTest, body(ToolTest)]) -> Json:
    """Call a tool as an agent would, without an approval. The call is real, with all its effects."""
    return Json(await ToolBench(team, who).test(id, given.arguments, given.agent))


def _missing(tool: str, agent: str | None, names: Collection[str]) -> Problem:
    who, there = f"the agent {agent!r}" if agent else "the team", ", ".join(sorted(names)) or "none"
    return Problem(404, f"{who} has no tool {tool!r}; there are: {there}", kind="tool-not-found")


class ToolBench:
    """Calls tools of a team for one caller, outside of any conversation."""

    def __init__(self, team: Team, who: Caller) -> None:
        self._team, self._who = team, who

    async def test(self, name: str, arguments: dict[str, Any], agent: str | None = None) -> ToolAnswer:
        """Call a tool, and note the call in the audit; raises Problem if there is none, or the arguments do not fit."""
        async with self._toolkit(name, agent) as (toolkit, calling):
            context = RunContext(TEST, TEST, calling, TEST, user=self._who.user)
            if wrong := toolkit.misfit(name, arguments, context):
                raise Problem(422, wrong, kind="bad-arguments")
            outcome = await toolkit.call(name, arguments, context)
        await audited(self._team, self._who, "tool.test", name, {"ok": outcome.ok})
        return ToolAnswer(outcome.ok, outcome.text)

    @asynccontextmanager
    async def _toolkit(self, tool: str, agent: str | None) -> AsyncIterator[tuple[Toolkit, str]]:
        """A toolkit that has this tool, and its agent; TEST for a tool of the store that no agent has."""
        toolkits = (await self._team.engine.world()).toolkits
        had = {id: {each.definition.name for each in toolkit.tools()} for id, toolkit in toolkits.items()}
        if (owner := next((id for id in had if agent in (None, id) and tool in had[id]), None)) is not None:
            yield toolkits[owner], owner
            return
        declared = {} if agent else await self._declared()
        if tool not in declared:
            names = had.get(agent, set()) if agent else {*declared, *chain.from_iterable(had.values())}
            raise _missing(tool, agent, names)
        async with lone_toolkit([declared[tool]]) as alone:
            yield alone, TEST

    async def _declared(self) -> dict[str, Any]:
        """The tools that the store declares and that can be called by their names."""
        team = self._team.declared
        rows = await self._team.declarations.listed(include_removed=True)
        scope = scope_over(rows, team.name, ToolModules(team.tool_modules), in_code(team))
        return {
            name: each for name, each in scope.tools.items() if each is not ABSENT and not isinstance(each, NOT_CALLED)
        }
