"""The page docs/reference/yaml.md: every key of a team's document, from the tables by which documents are read."""

from collections.abc import Iterator, Mapping
from typing import Any

from changeover.documents import (
    agent_document,
    handoff_document,
    settings_document,
    tool_document,
    workflow_document,
)
from changeover.documents.record import Record

YAML = """# YAML

One format serves as a file, as a row of a store and as the body of an API request. `changeover schema` prints its JSON
schema; [Declarations](../declarations.md) shows how it is used. A file has settings, and `agents`, `tools`, `skills`
and `workflows` under their names; a row has what stands under one name. JSON is read too. Paths of functions name
modules that `Team(tool_modules=[…])` or `CHANGEOVER_TOOL_MODULES` lists.
"""


def sections() -> dict[str, tuple[str, Record]]:
    """The tables of the page by their titles, each with a sentence."""
    ways, types = handoff_document.WAYS, tool_document.TYPES
    settings = settings_document
    return {
        "Settings": ("At the top of a file, and the row of a team.", settings.SETTINGS),
        "Limits": ("Under `limits`.", settings.TIERED),
        "Rules": ("In the list `rules`. A rule has one of `goto`, `deny`, `end` and `approval`.", settings.RULE_RECORD),
        "Routing": ("Under `routing`.", settings.ROUTING_RECORD),
        "Learning": ("Under `learning` of `routing`.", settings.LEARNING_RECORD),
        "Agents": ("Under `agents` and the id; older files have a list of members with `id`.", agent_document.MEMBER),
        "Skills": ("Under `skills` and the name.", agent_document.SKILL),
        "Workflows": ("Under `workflows` and the id.", workflow_document.WORKFLOW),
        "Steps": ("In the list `steps` of a workflow.", workflow_document.STEP),
        "Retries": ("Under `retry` of a step, where it is no number.", workflow_document.RETRY_RECORD),
        "Handoffs": ("In the list `handoffs` of an agent, and tools of the type `handoff`.", ways["transfer"][0]),
        "Delegates": ("A handoff with `delegate: true`.", ways["delegate"][0]),
        "Specialists": ("A handoff with `specialist: true`.", ways["specialist"][0]),
        "Variables": (
            "In `variables`, `parameters` and `requires`; a text is the name.",
            handoff_document.VARIABLE_RECORD,
        ),
        "Approvals": ("Under `approval`, where it is not true, false or a function.", handoff_document.APPROVAL_RECORD),
        "Expectations": ("Under `expects` of a handoff.", handoff_document.EXPECTS),
        "internal": ("A tool with `type: internal`: a Python function.", types["internal"].record),
        "http_api": ("A tool with `type: http_api`: a request.", types["http_api"].record),
        "mcp_server": ("Tools of an MCP server, with `type: mcp_server`.", types["mcp_server"].record),
        "sql_function": ("A tool with `type: sql_function`.", types["sql_function"].record),
    }


def yaml_page(table: Any) -> Iterator[str]:
    """All keys; `table` writes a table of Markdown."""
    yield YAML
    for title, (about, record) in sections().items():
        yield f"## {title}\n"
        yield f"{about}\n"
        rows = [
            (
                f"`{key}`",
                _kind(field.shape.schema),
                "yes" if key in record.needed else "no",
                field.about.replace("|", "\\|"),
            )
            for key, field in record.fields.items()
        ]
        yield from table(("key", "value", "needed", "meaning"), rows)


def _kind(schema: Mapping[str, Any]) -> str:
    """The value of a key in words."""
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(each) for each in schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'])}"
    names = {"string": "text", "object": "mapping", "integer": "whole number", "boolean": "true or false"}
    kind = str(schema.get("type", "any value"))
    return names.get(kind, kind)
