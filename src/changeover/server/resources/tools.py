"""Tools: what the agents of the team can call now, and a call to try one out."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Struct

from changeover.relay.ports import Toolkit
from changeover.server.problems import Problem
from changeover.server.resource import Id, Resource, Served, Who
from changeover.server.wire import Json, Page, body
from changeover.team import Team
from changeover.tools.run_context import RunContext

resource = Resource("tools")

TEST = "tools-test"
"""The conversation of a test, which has no log."""


class ToolView(Struct, frozen=True, kw_only=True):
    """A tool as models see it, and the agents that have it."""

    name: str
    description: str
    parameters: dict[str, Any]
    """The JSON schema of its arguments."""
    agents: list[str]


class ToolTest(Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of a call."""

    arguments: dict[str, Any] = {}
    agent: str | None = None
    """The agent that calls it; by default the first that has it."""


class ToolAnswer(Struct, frozen=True):
    """What the model would read."""

    ok: bool
    text: str


@resource.route("GET /tools", Page[ToolView])
async def list_tools(team: Served) -> Json:
    """The tools that the agents have now, those of MCP servers included."""
    found: dict[str, ToolView] = {}
    for agent, toolkit in (await team.engine.world()).toolkits.items():
        for each in toolkit.tools():
            definition = each.definition
            view = ToolView(
                name=definition.name,
                description=definition.description,
                parameters=dict(definition.parameters),
                agents=[],
            )
            found.setdefault(view.name, view).agents.append(agent)
    return Json(Page([found[name] for name in sorted(found)]))


@resource.route("POST /tools/{id}/test", ToolAnswer, body=ToolTest, refusals={404: "No agent has such a tool"})
async def test_tool(id: Id, team: Served, who: Who, given: Annotated[ToolTest, body(ToolTest)]) -> Json:
    """Call a tool as an agent would, without an approval. The call is real: what it does outside is done."""
    toolkit, agent = await _toolkit(team, id, given.agent)
    context = RunContext(TEST, TEST, agent, TEST, user=who.user)
    if wrong := toolkit.misfit(id, given.arguments, context):
        raise Problem(422, wrong, kind="bad-arguments")
    outcome = await toolkit.call(id, given.arguments, context)
    await team.log.audit.note(who.user, "tool.test", id, {"ok": outcome.ok}, token=who.token)
    return Json(ToolAnswer(outcome.ok, outcome.text))


async def _toolkit(team: Team, tool: str, agent: str | None) -> tuple[Toolkit, str]:
    for id, toolkit in (await team.engine.world()).toolkits.items():
        if agent in (None, id) and tool in {each.definition.name for each in toolkit.tools()}:
            return toolkit, id
    whose = f"the agent {agent!r} has" if agent else "no agent has"
    raise Problem(404, f"{whose} {'no' if agent else 'a'} tool {tool!r}; see GET /tools", kind="tool-not-found")
