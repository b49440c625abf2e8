"""ToolView: a tool as the API lists it: its type, where it is declared, its agents, and what models get of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec import Struct

from changeover.agent.agent import Agent
from changeover.agent.moves import DECLARED, Move, TransferToAny, UseTool
from changeover.agent.roster import Seat
from changeover.documents.agent_document import tool_name
from changeover.documents.tool_document import CLASSES
from changeover.relay.ports.declarations import Declaration, Standing
from changeover.server.resources.drafts import sent_tools
from changeover.server.resources.prompts import SentTool
from changeover.team import Team
from changeover.tools.mcp_server import McpServer
from changeover.tools.tool import ToolDefinition, as_tool

Origin = Literal["code", "store", "agent"]


class ToolView(Struct, frozen=True, kw_only=True):
    """A tool, and the agents that have it."""

    name: str
    type: str
    """handoff, internal, http_api, mcp_server, sql_function, or skill for what reads skills."""
    description: str = ""
    """What models read of it."""
    parameters: dict[str, Any] = {}
    """The JSON schema of its arguments."""
    agents: list[str]
    origin: Origin
    """Where it is declared: in code, in a row of the store, or in the document of an agent."""
    source: str = ""
    """Where in code, as module:name, if that is known."""
    server: str = ""
    """The MCP server that offers it."""
    receivers: tuple[str, ...] = ()
    """The receivers of a handoff."""
    approval: bool = False
    """True if a person may have to approve a call."""
    state: Standing = "enabled"
    version: int = 0
    """Of the row of the store; 0 for others."""


async def tool_views(team: Team) -> list[ToolView]:
    """All tools by name: those that agents have now, those of MCP servers included, and the rows of the store.

    A name appears twice if two agents have different tools of this name.
    """
    rows = {each.name: each for each in await team.declarations.listed("tool", include_removed=True)}
    found: dict[tuple[str, bytes], ToolView] = {}
    for agent, declared, definition, move in _used(await team.engine.world()):
        view = _view(team, agent, declared, definition, move, rows.get(_name_of(declared, definition)))
        found.setdefault((view.name, msgspec.json.encode(definition)), view).agents.append(agent)
    named = {name for name, _ in found}
    others = [row for row in rows.values() if row.name not in named]
    drafts = await sent_tools(team, [row.name for row in others if row.state == "enabled"])
    unused = [_unused(row, drafts.get(row.name)) for row in others]
    return sorted([*found.values(), *unused], key=lambda view: view.name)


def _used(world: Any) -> Iterator[tuple[str, Any, ToolDefinition, Move | None]]:
    """The tools that agents have: the agent, the declaration if there is one, and what its model gets."""
    for id, seat in world.roster.seats.items():
        if not isinstance(seat, Seat):
            continue
        declared = {tool_name(each): each for each in seat.agent.tools}
        for server in (each for each in declared.values() if isinstance(each, McpServer)):
            yield id, server, ToolDefinition(server.name, "", {}), None
        for name, move in seat.moves.items():
            if isinstance(move, UseTool):
                own = move.declared if isinstance(move.declared, McpServer) else declared.get(name)
                yield id, own, move.definition, move
            elif not isinstance(move, TransferToAny):
                yield id, move.declared, move.definition, move


def _name_of(declared: Any, definition: ToolDefinition) -> str:
    """The name under which a tool is declared: that of its server, if it has one."""
    return declared.name if isinstance(declared, McpServer) else definition.name


def _view(
    team: Team, agent: str, declared: Any, definition: ToolDefinition, move: Move | None, row: Declaration | None
) -> ToolView:
    origin = _origin(team, agent, _name_of(declared, definition), row)
    offered = isinstance(declared, McpServer) and move is not None
    return ToolView(
        name=definition.name,
        type=_type(declared, move),
        description=definition.description,
        parameters=dict(definition.parameters),
        agents=[],
        origin=origin,
        source=_source(declared) if origin != "store" else "",
        server=declared.name if offered else "",
        receivers=definition.receivers,
        approval=move is not None and move.approval is not None,
        state=row.state if row and origin == "store" else "enabled",
        version=row.version if row and origin == "store" else 0,
    )


def _type(declared: Any, move: Move | None) -> str:
    if isinstance(move, DECLARED):
        return "handoff"
    if declared is None:
        return "skill"
    return CLASSES.get(type(declared), "internal")


def _origin(team: Team, agent: str, name: str, row: Declaration | None) -> Origin:
    """Code wins over the store, as in the team itself."""
    members = [each for each in team.declared.members if isinstance(each, Agent)]
    if any(each.id == agent for each in members):
        return "code"
    if any(name == tool_name(tool) for each in members for tool in each.tools):
        return "code"
    return "store" if row and row.state == "enabled" else "agent"


def _source(declared: Any) -> str:
    if not callable(declared):
        return ""
    function = as_tool(declared).function
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    return f"{module}:{name}" if module and name else ""


def _unused(row: Declaration, sent: SentTool | None) -> ToolView:
    """A tool of the store that no agent has."""
    document = row.document
    receiver = document.get("to")
    return ToolView(
        name=row.name,
        type=str(document.get("type", "")),
        description=sent.description if sent else str(document.get("description") or ""),
        parameters=sent.parameters if sent else {},
        agents=[],
        origin="store",
        receivers=(receiver,) if isinstance(receiver, str) else (),
        approval=bool(document.get("approval")),
        state=row.state,
        version=row.version,
    )
