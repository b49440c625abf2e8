"""TeamExport: the declarations of a team in code as one document, and what of them only code can express."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from changeover.agent.agent import Agent, Member
from changeover.bus.delivery import KEPT
from changeover.documents.agent_document import write_member, write_skill
from changeover.documents.settings_document import SETTINGS
from changeover.documents.shape import OMITTED, Inexpressible, Scope, Shape
from changeover.documents.tool_document import write_tool
from changeover.documents.tool_modules import ToolModules
from changeover.documents.workflow_document import write_workflow
from changeover.ids import DEFAULT_TEAM
from changeover.tools.skill import Skill

DEFAULTS: Mapping[str, Any] = {
    "name": DEFAULT_TEAM,
    "handoffs_enabled": True,
    "fallback": False,
    "model_retries": 2,
    "tool_retries": 0,
    "rules": (),
    "subscriptions": (),
    "schedules": (),
    "keep_events": KEPT,
}
"""The settings that are left out if they have these values; any other is left out if it is None."""
IN_CODE = ("guards", "hooks", "engine", "ask", "clock", "experiments")
"""Settings that only code can express."""


@dataclass(frozen=True)
class TeamExport:
    """A team as a document."""

    document: dict[str, Any]
    """Settings, agents, tools, skills and workflows, as `read_team` reads them."""
    left_out: tuple[str, ...]
    """What only code can express, each with its place and the reason."""


def export_team(members: Sequence[Member], options: Mapping[str, Any], modules: ToolModules) -> TeamExport:
    """The document of a team with these members and options, which may name functions of these modules."""
    scope = Scope(modules, modules.path_of)
    agents = [member for member in members if isinstance(member, Agent)]
    # A tool or skill of several agents is written once, under its name. Another one of the same name is written in the
    # list of its agent.
    scope.tools = _first(tool for agent in agents for tool in agent.tools if _stands_alone(tool, scope))
    scope.skills = _first(skill for agent in agents for skill in agent.skills if _is_text(skill))
    # Always with a start: rows of a store have no order.
    start = options.get("start") or (members[0].id if members else None)
    document = {
        **_settings({**options, "start": start}, scope),
        "agents": _written("agents", {member.id: member for member in members}, write_member, scope),
        "tools": _written("tools", scope.tools, write_tool, scope),
        "skills": _written("skills", scope.skills, write_skill, scope),
        "workflows": _written("workflows", _by_id(options.get("workflows", ())), write_workflow, scope),
    }
    return TeamExport({key: value for key, value in document.items() if value != {}}, tuple(scope.left_out))


def _settings(options: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
    found = {}
    for key, field in SETTINGS.fields.items():
        value = options.get(key)
        if value is not None and (key not in DEFAULTS or value != DEFAULTS[key]):
            found[key] = scope.written(key, field.shape, value)
    scope.left_out += [f"{key}: it is Python code" for key in IN_CODE if options.get(key)]
    return {key: value for key, value in found.items() if value is not OMITTED}


def _written(
    section: str, declared: Mapping[str, Any], write: Callable[[Any, Scope], dict[str, Any]], scope: Scope
) -> dict[str, Any]:
    shape = Shape(lambda value, scope: value, write, {})
    with scope.at(section):
        found = {name: scope.written(f".{name}", shape, each) for name, each in declared.items()}
    return {name: each for name, each in found.items() if each is not OMITTED}


def _by_id(workflows: Sequence[Any]) -> dict[str, Any]:
    return {each.id: each for each in workflows}


def _stands_alone(tool: Any, scope: Scope) -> bool:
    """True if a tool has a document of its own; a function that a module defines is named by its path."""
    if not hasattr(tool, "name") or scope.path_of(tool):
        return False
    try:
        write_tool(tool, Scope(scope.importer, scope.path_of))
    except Inexpressible:
        return False
    return True


def _is_text(skill: Any) -> bool:
    return isinstance(skill, Skill) and not skill.folder


def _first(declared: Any) -> dict[str, Any]:
    """The first declaration of each name."""
    found: dict[str, Any] = {}
    for each in declared:
        found.setdefault(each.name, each)
    return found
