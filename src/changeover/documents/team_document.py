"""TeamDocument: agents, tools, skills, workflows and settings of a team as one document, in YAML or JSON."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from changeover.agent.agent import Agent, Member
from changeover.documents.agent_document import ABSENT, read_member, read_skill, tool_name
from changeover.documents.settings_document import SETTINGS, STORE
from changeover.documents.shape import Importer, Scope, no_imports
from changeover.documents.tool_document import read_tool
from changeover.documents.workflow_document import read_workflow
from changeover.documents.yaml_value import DocumentError, YamlValue, as_yaml, joined, parse_yaml
from changeover.handoffs.json_value import json_copy
from changeover.ids import DEFAULT_TEAM
from changeover.tools.skill import Skill
from changeover.workflows.workflow import Workflow

Kind = Literal["agents", "tools", "skills", "workflows"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""The parts of a team that stand under names of their own."""
READERS: dict[str, Any] = {
    "agents": read_member,
    "tools": read_tool,
    "skills": read_skill,
    "workflows": read_workflow,
}
"""The reader of one declaration, by section."""
Named = Member | Workflow
"""A declaration in code that a document may name by its id."""


@dataclass(frozen=True)
class TeamDocument:
    """The declarations of one document: `Team(document.members, **document.options)` builds the team."""

    members: list[Member]
    options: Mapping[str, Any]
    """Keyword arguments of Team; only those that the document gives."""


def read_team(
    text: str,
    source: str,
    importer: Importer = no_imports,
    folder: Path | None = None,
    beside: Sequence[Named] | None = None,
) -> TeamDocument:
    """Read a team from YAML or JSON.

    `source` names the document in errors. `importer` loads the Python objects that it names, such as tools; without
    one, naming an object is an error. `folder` is where the paths of skills begin; without one, a path is an error.
    A document `beside` members and workflows of code may name them, and need not have agents. Raises one
    DocumentError with all faults, each with its line and column.
    """
    scope = Scope(importer, folder=folder)
    return _read(parse_yaml(text, source), scope, beside or (), None if beside is None else {})


def team_of(
    data: Mapping[str, Any],
    source: str,
    importer: Importer = no_imports,
    beside: Sequence[Named] = (),
    absent: Mapping[str, Collection[str]] | None = None,
) -> TeamDocument:
    """The team that a JSON document describes, such as the rows of a store.

    It may name the members and workflows `beside` it. The tools and skills of members win over those of the same name
    in the document. Tools and skills that are `absent` may be named too, and agents do not get them. It need not have
    agents. Raises one DocumentError with all faults, each with its path.
    """
    return _read(as_yaml(json_copy(data), source), Scope(importer), beside, absent or {})


def read_one(section: str, name: str, text: str, source: str, scope: Scope) -> dict[str, Any]:
    """The document of one agent, tool, skill or workflow, or of a team's settings, from YAML or JSON.

    `scope` is that of the other declarations, by `scope_of`. Raises one DocumentError with all faults, each with its
    line and column.
    """
    value = parse_yaml(text, source)
    if section == "settings":
        SETTINGS.without("name").values(value, scope)
    else:
        READERS[section](name, value, scope)
    document: dict[str, Any] = json_copy(value.raw())
    return document


def scope_of(
    data: Mapping[str, Any],
    importer: Importer = no_imports,
    beside: Sequence[Named] = (),
    absent: Mapping[str, Collection[str]] | None = None,
) -> Scope:
    """What a further declaration beside these may name, including declarations that cannot be read."""
    scope = Scope(importer)
    _members_of(as_yaml(json_copy(data), ""), scope, [], beside, absent or {})
    return scope


def split_team(text: str, source: str) -> list[tuple[str, str, dict[str, Any]]]:
    """The parts of a team's document that has no faults: section ("agents", "tools", "skills", "workflows" or
    "settings"), name and document of each."""
    data = json_copy(parse_yaml(text, source).raw())
    found: list[tuple[str, str, dict[str, Any]]] = []
    for section in KINDS:
        entries = data.pop(section, {})
        if isinstance(entries, list):
            entries = {each.pop("id"): each for each in entries}
        found += [(section, name, document) for name, document in entries.items()]
    name = data.pop("name", DEFAULT_TEAM)
    settings = {key: value for key, value in data.items() if key not in STORE.fields}
    return [*found, ("settings", name, settings)] if settings else found


def _read(
    document: YamlValue, scope: Scope, beside: Sequence[Named], absent: Mapping[str, Collection[str]] | None
) -> TeamDocument:
    """The team of a document, which need not have agents if `absent` is given."""
    faults: list[DocumentError] = []
    settings = {**SETTINGS.fields, **STORE.fields}
    sections, members = _members_of(document, scope, faults, beside, absent)
    reading = _Reading(scope, faults)
    workflows = reading.named(sections.pop("workflows", None), "workflows", read_workflow)
    found = [reading.attempt(partial(read_member, id, value, scope)) for id, value in members]
    options = {key: reading.attempt(partial(settings[key].shape.read, value, scope)) for key, value in sections.items()}
    if faults:
        raise joined(faults)
    return TeamDocument(found, {**options, "workflows": tuple(workflows.values())} if workflows else options)


def _members_of(
    document: YamlValue,
    scope: Scope,
    faults: list[DocumentError],
    beside: Sequence[Named],
    absent: Mapping[str, Collection[str]] | None,
) -> tuple[dict[str, YamlValue], list[tuple[str, YamlValue]]]:
    """The settings and members of a document, both unread; its ids, tools, skills and workflows go into the scope."""
    known: dict[str, Any] = {**SETTINGS.fields, **STORE.fields, **dict.fromkeys(KINDS)}
    needed = ("agents",) if absent is None else ()
    sections, wrong = document.look("a mapping with agents", known, needed)
    faults += wrong
    reading = _Reading(scope, faults)
    members = reading.members(sections.pop("agents", None), beside, bool(needed))
    gone = {kind: dict.fromkeys((absent or {}).get(kind, ()), ABSENT) for kind in KINDS}
    skills = reading.named(sections.pop("skills", None), "skills", read_skill)
    scope.skills = {**skills, **gone["skills"], **_skills(beside)}
    flows = [each.id for each in beside if isinstance(each, Workflow)]
    scope.workflows = [*flows, *reading.names(sections.get("workflows")), *gone["workflows"]]
    tools = reading.named(sections.pop("tools", None), "tools", read_tool)
    scope.tools = {**tools, **gone["tools"], **_tools(beside)}
    return sections, members


class _Reading:
    """The faults of a document that is being read: they are reported together."""

    def __init__(self, scope: Scope, faults: list[DocumentError]) -> None:
        self._scope, self._faults = scope, faults

    def attempt(self, read: Any) -> Any:
        """What a reader returns; its faults are kept for later."""
        try:
            return read()
        except DocumentError as error:
            self._faults.append(error)
            return ABSENT

    def members(self, section: YamlValue | None, beside: Sequence[Named], needed: bool) -> list[tuple[str, YamlValue]]:
        """The members by id, which is empty in a list. The ids come first: references to them are checked."""
        listed = [] if section is None else self.attempt(partial(_listed, section, needed))
        members: list[tuple[str, YamlValue]] = [] if listed is ABSENT else listed
        own = [id or self.attempt(partial(value.peek, "id")) for id, value in members]
        known = [each.id for each in beside if not isinstance(each, Workflow)]
        self._scope.ids = list(dict.fromkeys([*known, *(id for id in own if isinstance(id, str))]))
        return members

    def names(self, section: YamlValue | None) -> list[str]:
        """The names in a section that is read later, with its faults."""
        return [*section.raw()] if section is not None and section.is_mapping() else []

    def named(self, section: YamlValue | None, what: str, read: Any) -> dict[str, Any]:
        """The declarations of a section by name; ABSENT in place of those that cannot be read."""
        entries = {} if section is None else self.attempt(partial(section.by_name, f"a mapping of names to {what}"))
        found = {} if entries is ABSENT else entries
        return {name: self.attempt(partial(read, name, value, self._scope)) for name, value in found.items()}


def _listed(section: YamlValue, needed: bool) -> list[tuple[str, YamlValue]]:
    if section.is_mapping():
        members = [*section.by_name("agents by their ids").items()]
    else:
        members = [("", value) for value in section.items("a list of agents")]
    if needed and not members:
        raise section.error("expected at least one agent, found none")
    return members


def _tools(members: Sequence[Named]) -> dict[str, Any]:
    """The tools of these members, by name."""
    return {tool_name(tool): tool for member in members if isinstance(member, Agent) for tool in member.tools}


def _skills(members: Sequence[Named]) -> dict[str, Skill]:
    """The skills of these members that are no folders, by name."""
    agents = [member for member in members if isinstance(member, Agent)]
    return {skill.name: skill for agent in agents for skill in agent.skills if isinstance(skill, Skill)}
