"""Tools in documents: the five types, with their options."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from changeover.agent.handoff import Delegate, Handoff
from changeover.documents.handoff_document import APPROVAL, VARIABLES, WAY, read_way, write_way
from changeover.documents.record import Field, Record, one_of
from changeover.documents.shape import (
    COUNT,
    FLAG,
    FUNCTION,
    JSON,
    TEXT,
    TEXT_MAP,
    TEXTS,
    TIMEOUT,
    WHOLE,
    Inexpressible,
    Scope,
    choice,
    map_of,
    optional,
    split_path,
)
from changeover.documents.yaml_value import YamlValue
from changeover.tools.http_tool import METHODS, ApiKey, Basic, Bearer, HttpTool
from changeover.tools.mcp_server import McpServer
from changeover.tools.sql_function import SqlFunction
from changeover.tools.tool import Tool, as_tool

NAME = Field(TEXT, "The name by which the model calls it; the prefix of the tools of an MCP server.")
OPTIONS: dict[str, Field] = {
    "timeout": Field(optional(TIMEOUT), "Seconds for each try; null for no limit."),
    "retries": Field(optional(WHOLE), "How often a call that failed is tried again; null takes `tool_retries`."),
    "read_only": Field(optional(FLAG), "It changes nothing, so calls may run in parallel; null: as its type says."),
    "at_most_once": Field(FLAG, "Never call it twice for one call of the model, also not after a crash."),
    "max_result": Field(COUNT, "How many characters of the result the model reads."),
    "approval": Field(optional(APPROVAL), "Which calls a person has to approve first."),
    "when": Field(FUNCTION, "The model may call it only while this function of the context is true."),
}
DESCRIPTION = Field(TEXT, "What the model reads of it.")
AUTH = one_of(
    "one kind of authentication",
    {
        "bearer": Record("a token", {"token": Field(TEXT)}, ("token",)).shape(Bearer),
        "basic": Record(
            "a user name and a password", {"username": Field(TEXT), "password": Field(TEXT)}, ("username", "password")
        ).shape(Basic),
        "api_key": Record(
            "a key with name and value",
            {"name": Field(TEXT), "value": Field(TEXT), "place": Field(choice("header", "query"))},
            ("name", "value"),
        ).shape(ApiKey),
    },
    lambda auth: {Bearer: "bearer", Basic: "basic", ApiKey: "api_key"}.get(type(auth), ""),
)
HOST_FIELDS: dict[str, Field] = {
    "auth": Field(optional(AUTH), "bearer, basic or api_key; each secret is a reference such as ${TOKEN}."),
    "headers": Field(TEXT_MAP, "Secrets by reference."),
    "hosts": Field(TEXTS, "The hosts that may be reached; by default the host of the URL."),
    "allow_private": Field(FLAG, "True if private and loopback addresses may be reached."),
}
PARAMETERS = Field(VARIABLES, "What the model fills in.")


@dataclass(frozen=True)
class ToolType:
    """A type of tool: its mapping, and the class that it declares."""

    record: Record
    declare: Callable[..., Any]

    def read(self, name: str, value: YamlValue, scope: Scope) -> Any:
        """The declaration of a tool with this name."""

        def faults(declared: Any) -> Iterator[str]:
            yield from (f"tool {name!r} {fault}" for fault in declared.faults())

        return self.record.made(value.without("type"), scope, lambda given: self.declare(name, **given), faults)

    def write(self, declared: Any, scope: Scope) -> dict[str, Any]:
        """The mapping of a declaration, without its name."""
        needed = {key: getattr(declared, self.record.parameter(key)) for key in self.record.needed}
        return self.record.document(declared, self.declare(declared.name, **needed), scope)


class InternalType(ToolType):
    """A Python function of a listed module."""

    def read(self, name: str, value: YamlValue, scope: Scope) -> Tool:

        def make(given: dict[str, Any]) -> Tool:
            return replace(as_tool(given.pop("function")), name=name, **given)

        def faults(declared: Tool) -> Iterator[str]:
            yield from (f"tool {name!r} {fault}" for fault in declared.option_faults())

        return self.record.made(value.without("type"), scope, make, faults)

    def write(self, declared: Tool, scope: Scope) -> dict[str, Any]:
        path = FUNCTION.write(declared.function, scope)
        blank = replace(as_tool(scope.importer(*split_path(path))), name=declared.name)
        written = self.record.without("function").document(declared, blank, scope)
        return {"function": path, **written}


class HandoffType(ToolType):
    """A handoff to one agent, as a tool."""

    def read(self, name: str, value: YamlValue, scope: Scope) -> Handoff | Delegate:
        return read_way(value.without("type"), scope, name)

    def write(self, declared: Handoff | Delegate, scope: Scope) -> dict[str, Any]:
        return {key: each for key, each in write_way(declared, scope).items() if key != "name"}


TYPES: dict[str, ToolType] = {
    "internal": InternalType(
        Record(
            "a function",
            {
                "function": Field(FUNCTION, "package.module:name of a listed module."),
                "description": Field(optional(TEXT), DESCRIPTION.about),
                **OPTIONS,
            },
            ("function",),
        ),
        Tool,
    ),
    "http_api": ToolType(
        Record(
            "a request with a url",
            {
                "url": Field(TEXT, "{name} in its path stands for a parameter."),
                "method": Field(choice(*METHODS), "GET and HEAD are read-only."),
                "description": DESCRIPTION,
                "parameters": PARAMETERS,
                "query": Field(
                    map_of(JSON, "a mapping of names to values"), "The query; {name} stands for a parameter."
                ),
                "body": Field(JSON, "JSON or a text."),
                "select": Field(TEXT, "A JMESPath expression: what the model reads of a JSON answer."),
                "idempotency_header": Field(
                    optional(TEXT), "The header that carries the idempotency key; null for none."
                ),
                "max_bytes": Field(COUNT, "The largest answer that is read."),
                **HOST_FIELDS,
                **OPTIONS,
            },
            ("url",),
        ),
        HttpTool,
    ),
    "mcp_server": ToolType(
        Record(
            "a server with 'command' or 'url'",
            {
                "command": Field(TEXTS, "The program and its arguments."),
                "env": Field(TEXT_MAP, "Its environment, with secrets by reference."),
                "cwd": Field(TEXT, "The folder in which it is started."),
                "url": Field(TEXT, "The address of a server that is reached by streamable HTTP."),
                "headers": HOST_FIELDS["headers"],
                "prefix": Field(optional(TEXT), "What the names of its tools begin with; by default its name."),
                "include": Field(TEXTS, 'The tools that agents get, by name or pattern, such as "list_*".'),
                "exclude": Field(TEXTS, "The tools that agents do not get."),
                "connect_timeout": Field(TIMEOUT, "Seconds until the server has started and listed its tools."),
                **OPTIONS,
            },
        ),
        McpServer,
    ),
    "sql_function": ToolType(
        Record(
            "an SQL function",
            {
                "database": Field(TEXT, "A reference such as ${DATABASE_URL}."),
                "rest": Field(TEXT, "The address of a PostgREST server."),
                "function": Field(TEXT, 'The function, such as "shop.find_orders"; by default the name of the tool.'),
                "description": DESCRIPTION,
                "parameters": PARAMETERS,
                "max_rows": Field(COUNT, "How many rows the model reads."),
                **HOST_FIELDS,
                **OPTIONS,
            },
        ),
        SqlFunction,
    ),
    "handoff": HandoffType(Record("a handoff with 'to'", {}), Handoff),
}
CLASSES: dict[type, str] = {
    Tool: "internal",
    HttpTool: "http_api",
    McpServer: "mcp_server",
    SqlFunction: "sql_function",
}
TYPE = Field(choice(*TYPES), "The type of the tool.")


def read_tool(name: str, value: YamlValue, scope: Scope) -> Any:
    """The tool or handoff that stands under this name."""
    kind = value.entry("type", "a tool with a type").one_of(*TYPES)
    return TYPES[kind].read(name, value, scope)


def write_tool(declared: Any, scope: Scope) -> dict[str, Any]:
    """The document of a tool, without its name."""
    if (kind := CLASSES.get(type(declared))) is None:
        raise Inexpressible(f"a document cannot hold a value of type {type(declared).__name__} here")
    return {"type": kind, **TYPES[kind].write(declared, scope)}


def tool_schema(name: bool = False) -> dict[str, Any]:
    """The JSON schema of a tool; with `name`, of one in an agent's list, which has its name in it."""
    return {"oneOf": [_typed(kind, name) for kind in TYPES if not (name and kind == "handoff")]}


def _typed(kind: str, name: bool) -> dict[str, Any]:
    own: Mapping[str, Any] = {"type": {"const": kind}, **({"name": NAME.schema} if name else {})}
    if kind == "handoff":
        return {"allOf": [{"properties": own, "required": ["type"]}, {"anyOf": _handoffs(own)}]}
    schema = TYPES[kind].record.schema
    required = [*own, *schema.get("required", ())]
    return {**schema, "properties": {**own, **schema["properties"]}, "required": required}


def _handoffs(own: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The schemas of a handoff, a delegate and a specialist under a name."""
    found = []
    for schema in WAY.schema["anyOf"]:
        properties = {key: each for key, each in schema["properties"].items() if key != "name"}
        found.append({**schema, "properties": {**own, **properties}})
    return found
