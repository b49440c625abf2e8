"""Agents, functions, people and skills in documents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from changeover.agent.agent import AUTO, Agent, Function, Member, Person
from changeover.agent.handoff import Delegate, Handoff
from changeover.agent.team_faults import member_faults
from changeover.documents.handoff_document import STRATEGY, VARIABLES, WAY
from changeover.documents.record import Field, Record
from changeover.documents.shape import (
    COUNT,
    FLAG,
    FUNCTION,
    ID,
    JSON,
    TEXT,
    TEXT_MAP,
    TEXT_OR_FUNCTION,
    TEXTS,
    Inexpressible,
    Scope,
    Shape,
    list_of,
    optional,
)
from changeover.documents.tool_document import read_tool, tool_schema, write_tool
from changeover.documents.yaml_value import YamlValue
from changeover.tools.secret import literal_faults
from changeover.tools.skill import Skill
from changeover.tools.tool import name_of

ABSENT = object()
"""Stands for a tool or a skill that agents may name but do not get: it is disabled, or it has a fault that is
reported."""


def _read_model(value: YamlValue, scope: Scope) -> str | list[str]:
    """The name of a model; or several, each the fallback of the one before."""
    return list(value.texts("the name of a model, or a list of names")) if value.is_list() else value.text()


def _write_model(value: Any, scope: Scope) -> str | list[str]:
    names = list(value) if isinstance(value, list | tuple) else [value]
    if not names or not all(isinstance(name, str) for name in names):
        raise Inexpressible(f"a model of type {type(value).__name__} is Python code; a document names models by texts")
    return names if isinstance(value, list | tuple) else value


MODEL = Shape(
    _read_model, _write_model, {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
)

SKILL = Record(
    "a skill with description and instructions",
    {
        "description": Field(TEXT, "What the skill does and when to use it, at most 1,024 characters."),
        "instructions": Field(TEXT, "What the model reads when it loads the skill."),
        "files": Field(TEXT_MAP, "Further texts by their paths, which the model can read one by one."),
    },
    ("description", "instructions"),
)


def read_skill(name: str, value: YamlValue, scope: Scope) -> Skill:
    """The skill that stands under this name."""

    def faults(skill: Skill) -> Iterator[str]:
        yield from (f"skill {name!r} {fault}" for fault in skill.faults())

    return SKILL.made(value, scope, lambda given: Skill(name, **given), faults)


def write_skill(skill: Any, scope: Scope) -> dict[str, Any]:
    """The document of a skill, without its name."""
    if not isinstance(skill, Skill) or skill.folder:
        raise Inexpressible("a skill in a folder is not part of a document; give it as Skill(…)")
    return SKILL.document(skill, Skill(skill.name, description="", instructions=""), scope)


def _read_agent_skill(value: YamlValue, scope: Scope) -> Any:
    if value.is_mapping():
        name = value.entry("name", "a skill with a name").text()
        return read_skill(name, value.without("name"), scope)
    if (name := value.text()) in scope.skills:
        return scope.skills[name]
    if scope.folder is None:
        raise value.error(
            f"expected the name of a skill ({', '.join(scope.skills) or 'there are none'}), found {name!r}"
        )
    return str(scope.folder / name)


def _write_agent_skill(skill: Any, scope: Scope) -> Any:
    if isinstance(skill, Skill) and scope.skills.get(skill.name) == skill:
        return skill.name
    written = write_skill(skill, scope)
    return {"name": skill.name, **written}


AGENT_SKILL = Shape(
    _read_agent_skill,
    _write_agent_skill,
    {"anyOf": [{"type": "string"}, SKILL.named("name", Field(TEXT, "Its name.")).schema]},
)


def tool_name(declared: Any) -> str:
    """The name of a declared tool or a bare function."""
    return str(declared.name if hasattr(declared, "name") else name_of(declared))


def _read_agent_tool(value: YamlValue, scope: Scope) -> Any:
    if value.is_mapping():
        if value.peek("type") == "handoff":
            raise value.error("a handoff belongs into 'handoffs', or stands under its name in the team's 'tools'")
        return read_tool(value.entry("name", "a tool with a name").text(), value.without("name"), scope)
    if (name := value.text()) in scope.tools:
        return scope.tools[name]
    if scope.tools and ":" not in name and "." not in name:
        known = ", ".join(scope.tools)
        raise value.error(f"expected the name of a tool ({known}) or a function by its import path, found {name!r}")
    return scope.imported(value)


def _write_agent_tool(declared: Any, scope: Scope) -> Any:
    if path := scope.path_of(declared):
        return path
    if not hasattr(declared, "name"):
        return FUNCTION.write(declared, scope)
    if scope.tools.get(declared.name) == declared:
        return declared.name
    written = write_tool(declared, scope)
    return {"name": declared.name, **written}


AGENT_TOOL = Shape(_read_agent_tool, _write_agent_tool, {"anyOf": [{"type": "string"}, tool_schema(name=True)]})


def _read_handoffs(value: YamlValue, scope: Scope) -> Any:
    if not value.is_list() and value.raw() == "auto":
        return AUTO
    return tuple(
        value.each(lambda item: _read_handoff(item, scope), "auto, or a list of ids and of mappings with 'to'")
    )


def _read_handoff(value: YamlValue, scope: Scope) -> str | Handoff | Delegate:
    found: str | Handoff | Delegate = (WAY if value.is_mapping() else ID).read(value, scope)
    return found


def _write_handoffs(value: Any, scope: Scope) -> Any:
    return "auto" if value is AUTO else WAYS.write(value, scope)


WAYS = list_of(
    Shape(
        _read_handoff,
        lambda way, scope: (TEXT if isinstance(way, str) else WAY).write(way, scope),
        {"anyOf": [ID.schema, WAY.schema]},
    ),
    "a list of ids and of mappings with 'to'",
)
HANDOFFS = Shape(_read_handoffs, _write_handoffs, {"anyOf": [{"const": "auto"}, WAYS.schema]})


def _read_settings(value: YamlValue, scope: Scope) -> Any:
    settings = JSON.read(value, scope)
    if not isinstance(settings, dict):
        raise value.error(f"expected a mapping of settings, found {settings!r}")
    if any(literal_faults("settings", settings)):
        raise value.error("the settings hold what looks like a key; providers take keys from the environment")
    return settings


def _write_settings(value: Any, scope: Scope) -> Any:
    if any(literal_faults("settings", value)):
        raise Inexpressible("the settings hold what looks like a key, which no document may hold")
    return JSON.write(value, scope)


MODEL_SETTINGS = Shape(_read_settings, _write_settings, {"type": "object"})
OWN_ID = Field(TEXT, "Letters, digits, '-' and '_', at most 64.")
MEMBER = Record(
    "an agent with an id",
    {
        "name": Field(TEXT, "The name for display."),
        "description": Field(TEXT, "What it is for; the models of other agents read it."),
        "person": Field(FLAG, "True for a human being, whose tasks wait in an inbox."),
        "function": Field(FUNCTION, "The Python function that this member is."),
        "goto": Field(TEXTS, "With a function: the ids of the members to which its Commands may lead."),
        "instructions": Field(TEXT_OR_FUNCTION, "The system prompt."),
        "model": Field(MODEL, "The name of a model, or a list of names, each the fallback of the one before."),
        "tools": Field(
            list_of(AGENT_TOOL, "a list of tools by name or import path"),
            "Names of the team's tools, import paths of functions, or tools with their names in them.",
        ),
        "handoffs": Field(HANDOFFS, "To whom it may hand off: auto for all members, or a list."),
        "skills": Field(
            list_of(AGENT_SKILL, "a list of skills"), "Names of the team's skills; in a file also folders."
        ),
        "specialization": Field(TEXT, "Its field of work."),
        "capabilities": Field(TEXTS, "What it can do, by name; the router and the models of other agents read it."),
        "examples": Field(TEXTS, "Tasks for it, as a user would write them."),
        "accepts_handoffs": Field(FLAG, "False if it gets no handoffs."),
        "accepts": Field(FUNCTION, "A function of the package that answers an offer."),
        "requires": Field(VARIABLES, "Context variables without which it accepts no handoff."),
        "pull": Field(FLAG, "True if workers claim its tasks from a queue."),
        "max_concurrency": Field(optional(COUNT), "How many tasks it works on at a time."),
        "output": Field(FUNCTION, "The type of its answers, by its import path."),
        "strategy": Field(STRATEGY, "How much of the conversation it sees after a handoff."),
        "briefing": Field(TEXT_OR_FUNCTION, "The template with which a handoff to it is introduced."),
        "parallel_tools": Field(FLAG, "True if all tool calls of one reply may run in parallel."),
        "checks": Field(list_of(FUNCTION, "a list of functions"), "Functions that judge messages and answers."),
        "settings": Field(MODEL_SETTINGS, "Settings of the model, such as {temperature: 0}."),
    },
)
LISTED = MEMBER.named("id", OWN_ID)
"""A member in a list, as older documents have it."""
AGENT = MEMBER.without("person", "function", "goto")
PLAIN = Record("a person or a function", {key: MEMBER.fields[key] for key in ("name", "description")})


def read_member(id: str, value: YamlValue, scope: Scope) -> Member:
    """The Agent, Function or Person that stands under this id; `id` is empty in a list, where the value holds it."""

    def faults(member: Member) -> Iterator[str]:
        yield from (f"agent {member.id!r} {fault}" for fault in member_faults(member, scope.ids, True))

    return (MEMBER if id else LISTED).made(value, scope, lambda given: _member(id, given, value), faults)


def _member(id: str, found: dict[str, Any], value: YamlValue) -> Member:
    id = found.pop("id", id)
    is_person = found.pop("person", False)
    if not is_person and "function" not in found:
        if "goto" in found:
            raise value.error("only a member with a function has 'goto'; an agent has 'handoffs'")
        return Agent(id, **_agent_options(found, value))
    if is_person and "function" in found:
        raise value.error("a member is a person or has a function, and not both")
    if extra := found.keys() - {"function", "name", "description"} - (set() if is_person else {"goto"}):
        known = "a person takes id, name and description"
        known = known if is_person else "a member with a function takes id, name, description and goto"
        raise value.error(f"{known}, not {min(extra)!r}")
    return Person(id, **found) if is_person else Function(id, found.pop("function"), **found)


def _agent_options(found: dict[str, Any], value: YamlValue) -> dict[str, Any]:
    """The options of an agent, with the handoffs among its `tools` moved to `handoffs`."""
    for key in ("tools", "skills"):
        if key in found:
            found[key] = tuple(each for each in found[key] if each is not ABSENT)
    ways = [each for each in found.get("tools", ()) if isinstance(each, Handoff | Delegate)]
    if not ways:
        return found
    if found.get("handoffs") is AUTO:
        raise value.error("'handoffs: auto' does not go with handoffs among the tools; list the ids of the agents")
    tools = tuple(each for each in found["tools"] if not isinstance(each, Handoff | Delegate))
    return {**found, "tools": tools, "handoffs": (*found.get("handoffs", ()), *ways)}


def write_member(member: Member, scope: Scope) -> dict[str, Any]:
    """The document of a member, without its id."""
    if isinstance(member, Agent):
        return AGENT.document(member, Agent(member.id), scope)
    plain = PLAIN.document(member, Person(""), scope)
    if isinstance(member, Person):
        return {"person": True, **plain}
    leads = {"goto": TEXTS.write(member.goto, scope)} if member.goto else {}
    return {"function": FUNCTION.write(member.fn, scope), **plain, **leads}
