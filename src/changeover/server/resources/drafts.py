"""Drafts: declarations before they are written: their faults, and what models would get of them. Nothing is run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from msgspec import Struct

from changeover.agent.roster import Seat
from changeover.documents.agent_document import MEMBER, SKILL
from changeover.documents.handoff_document import WAYS
from changeover.documents.tool_document import TYPES
from changeover.documents.yaml_value import DocumentError
from changeover.errors import MisconfiguredError
from changeover.relay.ports.declarations import Declaration, Edit, Kind, after, edited
from changeover.relay.ports.world import World
from changeover.server.problems import Problem
from changeover.server.resource import Id, Resource, Served, Who, audited
from changeover.server.resources.prompts import NextPrompt, SentTool, has_model, prompt_of, sent
from changeover.server.wire import Json, Page, body
from changeover.team import Team
from changeover.toolkits.connections import discovered
from changeover.toolkits.result_text import CallFailed
from changeover.tools.mcp_server import McpServer
from changeover.union import SECTIONS

resource = Resource("drafts")

PROBE = "changeover-preview"
"""The id of an agent that has only the tool of a draft: its model would get the tool as all models do."""
SECTION = {kind: section for section, kind in SECTIONS.items()}
MISSING = re.compile(r"and '(\w+)' is missing")
UNKNOWN, UNUSABLE = "is not known here", "has an unusable name"
"""Texts by which faults are recognized: a key is missing, a key is unknown, the name itself cannot be used."""
LITERAL = re.compile(r"has a literal (token|password|key)\b")
"""A fault of a secret in `auth`."""
SUBJECT = re.compile(r"^(tool|handoff|delegate|agent|skill) '[^']*':? ")
"""The beginning of a fault: the declaration itself, which is no key of its document."""
PLACE = re.compile(r"\bin its (\w+)")
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
ALIASES = {"url": "rest", "variable": "requires"}
"""Words in faults for keys that have another name in a document: SQL functions over HTTP, and what agents require."""


class Draft(Struct, frozen=True, forbid_unknown_fields=True):
    """The document of a declaration that is being edited."""

    document: dict[str, Any]


class DraftFault(Struct, frozen=True):
    """A fault of a draft."""

    path: str
    """Where in the document, such as "variables[0].name"; empty if it concerns the whole."""
    text: str


class Drafted(Struct, frozen=True, kw_only=True):
    """The faults of a draft, or what models would get of it."""

    faults: list[DraftFault] = []
    tools: list[SentTool] = []
    """The draft of a tool as models get it; empty for an MCP server, which has to be asked."""
    prompt: NextPrompt | None = None
    """What the model of an agent gets with its next task; null if there are faults, or it has no model."""


@resource.route("POST /drafts/{kind}/{name}", Drafted, body=Draft)
async def check_draft(kind: Kind, name: Id, team: Served, who: Who, draft: Annotated[Draft, body(Draft)]) -> Json:
    """Check a declaration together with the whole team, and show what models would get of it. Nothing is written."""
    try:
        world = await _world(team, kind, name, draft.document)
    except MisconfiguredError as error:
        return Json(Drafted(faults=list(_faults(error, kind, name, draft.document))))
    if kind == "tool":
        return Json(Drafted(tools=_of_probe(world)))
    shown = kind == "agent" and has_model(world, name)
    return Json(Drafted(prompt=await prompt_of(team, who, world, name) if shown else None))


@resource.route("POST /drafts/tool/{name}/discover", Page[SentTool], body=Draft, refusals={502: "It does not answer"})
async def discover_tools(name: Id, team: Served, who: Who, draft: Annotated[Draft, body(Draft)]) -> Json:
    """Connect to the MCP server of a draft and list its tools. A server with a command is started, and ended again."""
    world = await _world(team, "tool", name, draft.document)
    probe = world.roster.seats[PROBE]
    servers = [each for each in probe.agent.tools if isinstance(each, McpServer)] if isinstance(probe, Seat) else []
    if not servers:
        raise Problem(422, f"tool {name!r} is no MCP server, and offers no tools", kind="no-mcp-server")
    await audited(team, who, "tool.discover", name)
    try:
        return Json(Page([sent(each.definition) for each in await discovered(servers[0])]))
    except CallFailed as error:
        raise Problem(502, str(error), kind="mcp-server-silent") from None


async def _world(team: Team, kind: Kind, name: str, document: dict[str, Any]) -> World:
    """The team as it would be with this document; raises MisconfiguredError."""
    rows = await team.log.declarations.listed(include_removed=True)
    new = after(rows, edited(rows, [Edit(kind, name, document, "enabled")], 0, ""))
    return _probed(team, new, [name]) if kind == "tool" else team.draft(new)


def _probed(team: Team, rows: Sequence[Declaration], tools: Sequence[str]) -> World:
    """The team of these rows, and an agent that has these tools; raises MisconfiguredError."""
    alone = {"tools": list(tools), "handoffs": [], "pull": True}
    return team.draft([*rows, Declaration("agent", PROBE, 1, 0, "enabled", alone)])


def _of_probe(world: World) -> list[SentTool]:
    probe = world.roster.seats[PROBE]
    assert isinstance(probe, Seat)
    return [sent(each) for each in probe.definitions]


async def sent_tools(team: Team, names: Sequence[str]) -> dict[str, SentTool]:
    """Tools of the store as models would get them, by name; none if the team of the store has faults."""
    rows = await team.log.declarations.listed(include_removed=True)
    try:
        return {each.name: each for each in _of_probe(_probed(team, rows, names))} if names else {}
    except MisconfiguredError:
        return {}


def _faults(error: MisconfiguredError, kind: Kind, name: str, document: dict[str, Any]) -> Iterator[DraftFault]:
    """The faults by their places in the document."""
    places: Sequence[tuple[str, str]] = [("", each) for each in error.faults]
    if isinstance(error, DocumentError):
        places = error.places
    own, probe = f"{SECTION.get(kind, '')}.{name}", f"agents.{PROBE}"
    known, told = _keys(kind, document), set()
    for place, words in places:
        text = re.sub(rf"agent '{PROBE}':? |, {PROBE}", "", words)
        if place and place not in (own, probe) and not place.startswith((f"{own}.", f"{own}[")):
            text, path = f"{place}: {text}", ""
        else:
            path = place.removeprefix(own).removeprefix(probe).lstrip(".") or _named(text, name, known)
        if text not in told:
            told.add(text)
            yield DraftFault(path, text)


def _named(text: str, name: str, keys: Sequence[str]) -> str:
    """The key that a fault of the whole document names first, in the plural or not; empty if it names none."""
    if missing := MISSING.search(text):
        return missing[1]
    if UNKNOWN in text:
        return ""
    if UNUSABLE in text or f"tool called {name!r}" in text:
        return keys[0]
    if LITERAL.search(text) and "auth" in keys:
        return "auth"
    if (place := PLACE.search(text)) and place[1] in keys:
        return place[1]
    plain = QUOTED.sub(" ", SUBJECT.sub("", text))
    found = {key: match.start() for key in keys[1:] if (match := re.search(rf"\b{key}\b|\b{key.rstrip('s')}\b", plain))}
    others = (key for word, key in ALIASES.items() if key in keys and re.search(rf"\b{word}\b", plain))
    return min(found, key=lambda key: found[key], default=next(others, ""))


def _keys(kind: Kind, document: dict[str, Any]) -> list[str]:
    """The keys of a document of this kind, after that of its name."""
    if kind == "agent":
        return ["id", *MEMBER.fields]
    if kind == "skill":
        return ["name", *SKILL.fields]
    if kind != "tool":
        return ["name"]
    if document.get("type") != "handoff":
        found = TYPES.get(str(document.get("type")))
        return ["name", *(found.record.fields if found else ())]
    way = next((each for each in ("specialist", "delegate") if document.get(each) is True), "transfer")
    return ["name", *WAYS[way][0].fields]
