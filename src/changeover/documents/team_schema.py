"""The JSON schema of a team's document, so that editors complete and check it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from changeover.documents.agent_document import LISTED, MEMBER, MODEL, SKILL
from changeover.documents.handoff_document import APPROVAL, EXPECTS, STRATEGY, VARIABLE, WAY
from changeover.documents.settings_document import RULE, SETTINGS, STORE
from changeover.documents.shape import closed
from changeover.documents.tool_document import AUTH, tool_schema
from changeover.documents.workflow_document import WORKFLOW

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def definitions() -> dict[str, Mapping[str, Any]]:
    """The parts of a document that have names in its schema; the inner ones come first."""
    return {
        "model": MODEL.schema,
        "variable": VARIABLE.schema,
        "approval": APPROVAL.schema,
        "strategy": STRATEGY.schema,
        "expectations": EXPECTS.schema,
        "auth": AUTH.schema,
        "handoff": WAY.schema,
        "rule": RULE.schema,
        "skill": SKILL.schema,
        "tool": tool_schema(),
        "agent": MEMBER.schema,
        "workflow": WORKFLOW.schema,
    }


def team_schema() -> dict[str, Any]:
    """The JSON schema of a document that declares a team."""
    found = definitions()
    reference = {name: {"$ref": f"#/$defs/{name}"} for name in found}
    by_id = {"type": "object", "additionalProperties": reference["agent"], "minProperties": 1}
    listed = {"type": "array", "items": LISTED.schema, "minItems": 1}
    properties = {
        **{key: field.schema for key, field in {**SETTINGS.fields, **STORE.fields}.items()},
        "agents": {
            "description": "The members, under their ids; or a list of members with ids.",
            "anyOf": [by_id, listed],
        },
        "tools": _section("Tools and handoffs that agents name.", reference["tool"]),
        "skills": _section("Skills that agents name.", reference["skill"]),
        "workflows": _section("Workflows, under their ids.", reference["workflow"]),
    }
    schema = _referenced(closed(properties, ("agents",)), found)
    return {
        "$schema": DIALECT,
        "title": "A team of Changeover",
        **schema,
        "$defs": {name: _referenced(each, found, but=name) for name, each in found.items()},
    }


def _section(about: str, item: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "description": about, "additionalProperties": item}


def _referenced(schema: Any, found: Mapping[str, Mapping[str, Any]], but: str = "") -> Any:
    """The schema with references in the place of parts that have names; `but` is the name of the schema itself."""
    if isinstance(schema, list):
        return [_referenced(each, found) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    plain = {key: value for key, value in schema.items() if key != "description"}
    for name, definition in found.items():
        if name != but and plain and plain == {key: value for key, value in definition.items() if key != "description"}:
            about = {key: value for key, value in schema.items() if key == "description"}
            return {"$ref": f"#/$defs/{name}", **about}
    return {key: _referenced(value, found) for key, value in schema.items()}
