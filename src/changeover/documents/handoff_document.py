"""Handoffs in documents: transfers, delegates and specialists, with their variables, strategies and approvals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, get_args

from msgspec.structs import fields

from changeover.agent.handoff import Delegate, Handoff, OnEnd, delegate, handoff
from changeover.agent.specialist import Specialist, specialist
from changeover.documents.record import Field, Record, one_of
from changeover.documents.shape import (
    COUNT,
    FLAG,
    FUNCTION,
    ID,
    IDS,
    JSON,
    SECONDS,
    TEXT,
    TEXT_OR_FUNCTION,
    TEXTS,
    TIMEOUT,
    WHOLE,
    Inexpressible,
    Scope,
    Shape,
    choice,
    list_of,
    optional,
)
from changeover.documents.yaml_value import YamlValue
from changeover.guards.approval import Approval
from changeover.handoffs.expectations import Expects
from changeover.handoffs.reference import Reference
from changeover.handoffs.strategies import ContextStrategy, Full, MessageOnly, Recent
from changeover.handoffs.summary import Summary
from changeover.tools.variable import TYPES, Variable

VARIABLE_RECORD = Record(
    "a variable with a name",
    {
        "name": Field(TEXT, "Letters, digits and underscores; it must not begin with an underscore."),
        "type": Field(choice(*TYPES), "The type of its values."),
        "required": Field(FLAG, "False if the model may leave it out."),
        "description": Field(TEXT, "What the model reads of it."),
    },
    ("name",),
)
VARIABLE = VARIABLE_RECORD.shape(Variable)


def _read_variable(value: YamlValue, scope: Scope) -> Variable:
    found: Variable = VARIABLE.read(value, scope) if value.is_mapping() else Variable(value.text())
    return found


VARIABLES = list_of(
    Shape(_read_variable, VARIABLE.write, {"anyOf": [{"type": "string"}, VARIABLE.schema]}), "a list of variables"
)


def _or_function(shape: Shape, is_own: Callable[[YamlValue], bool], is_function: Callable[[Any], bool]) -> Shape:
    """Values of a shape, or functions and classes by their import paths."""
    return Shape(
        lambda value, scope: (shape if is_own(value) else FUNCTION).read(value, scope),
        lambda value, scope: (FUNCTION if is_function(value) else shape).write(value, scope),
        {"anyOf": [shape.schema, FUNCTION.schema]},
    )


def _read_variables(value: YamlValue, scope: Scope) -> Any:
    if value.is_list():
        return VARIABLES.read(value, scope)
    if not isinstance(found := FUNCTION.read(value, scope), type):
        raise value.error(f"expected a pydantic model, and {value.text()} is of type {type(found).__name__}")
    return found


MODEL_OR_VARIABLES = Shape(
    _read_variables,
    lambda value, scope: (FUNCTION if isinstance(value, type) else VARIABLES).write(value, scope),
    {"anyOf": [VARIABLES.schema, FUNCTION.schema]},
)
"""A list of variables, or the import path of a pydantic model."""

APPROVAL_RECORD = Record(
    "true, false, a function or a mapping",
    {
        "expires": Field(SECONDS, "Seconds after which `on_expiry` is decided."),
        "on_expiry": Field(choice("reject", "approve"), "What is decided then."),
        "when": Field(FUNCTION, "A function of context and arguments that says which calls need approval."),
        "roles": Field(TEXTS, "The person who decides must have one of these roles."),
        "summary": Field(TEXT_OR_FUNCTION, "The sentence that the person reads first, with arguments in braces."),
    },
)
DETAILED = APPROVAL_RECORD.shape(Approval)


def _read_approval(value: YamlValue, scope: Scope) -> Any:
    if value.is_mapping():
        return DETAILED.read(value, scope)
    return FUNCTION.read(value, scope) if isinstance(value.raw(), str) else value.boolean()


def _write_approval(value: Any, scope: Scope) -> Any:
    if isinstance(value, bool):
        return value
    return (DETAILED if isinstance(value, Approval) else FUNCTION).write(value, scope)


APPROVAL = Shape(_read_approval, _write_approval, {"anyOf": [{"type": "boolean"}, DETAILED.schema, FUNCTION.schema]})

STRATEGIES: dict[str, type[ContextStrategy]] = {
    kind.name: kind for kind in (Full, MessageOnly, Recent, Summary, Reference)
}
OPTIONS: dict[Any, Shape] = {Sequence[str]: TEXTS, int: WHOLE, float: SECONDS, float | None: optional(SECONDS)}
"""The shapes of the options of strategies, by the type that a strategy declares."""


@cache
def _configured(kind: type[ContextStrategy]) -> Shape:
    options = {option.name: Field(OPTIONS[option.type]) for option in fields(kind)}
    shape = Record(f"options of {kind.name}", options).shape(kind, lambda strategy: strategy.faults()[:1])
    return Shape(
        lambda value, scope: kind() if value.is_null() else shape.read(value, scope), shape.write, shape.schema
    )


CONFIGURED = one_of(
    "one strategy with its options",
    {name: _configured(kind) for name, kind in STRATEGIES.items()},
    lambda strategy: strategy.name if type(strategy) in STRATEGIES.values() else "",
)


def _read_strategy(value: YamlValue, scope: Scope) -> Any:
    """`summary`, `{recent: {messages: 3}}`, or `package.module:function`."""
    if value.is_mapping():
        return CONFIGURED.read(value, scope)
    name = value.text()
    if name in STRATEGIES:
        return STRATEGIES[name]()
    if ":" not in name and "." not in name:
        raise value.error(f"expected {', '.join(STRATEGIES)}, or a function by its import path, found {name!r}")
    return FUNCTION.read(value, scope)


def _write_strategy(value: Any, scope: Scope) -> Any:
    if not isinstance(value, ContextStrategy):
        return FUNCTION.write(value, scope)
    written = CONFIGURED.write(value, scope)
    return value.name if written == {value.name: {}} else written


STRATEGY = Shape(
    _read_strategy,
    _write_strategy,
    {"anyOf": [{"enum": list(STRATEGIES)}, CONFIGURED.schema, FUNCTION.schema]},
)

OUTPUT = _or_function(JSON, YamlValue.is_mapping, lambda value: not isinstance(value, Mapping))
"""A JSON schema, or a type by its import path."""
CRITERION = Shape(
    lambda value, scope: FUNCTION.read(value, scope) if _is_path(value.text()) else value.text(),
    lambda value, scope: (TEXT if isinstance(value, str) else FUNCTION).write(value, scope),
    {"type": "string"},
)
EXPECTS = Record(
    "what is expected of the result",
    {
        "output": Field(OUTPUT, "A JSON schema, or the import path of a type."),
        "criteria": Field(list_of(CRITERION, "a list of sentences and functions"), "Sentences, and functions by path."),
        "timeout": Field(TIMEOUT, "Seconds."),
    },
)


def _is_path(text: str) -> bool:
    return ":" in text and not any(letter.isspace() for letter in text)


def _read_expects(value: YamlValue, scope: Scope) -> Any:
    if value.is_mapping() and not any(value.peek(key) is not None for key in EXPECTS.fields):
        return JSON.read(value, scope)
    return Expects(**EXPECTS.values(value, scope)) if value.is_mapping() else FUNCTION.read(value, scope)


def _write_expects(value: Any, scope: Scope) -> Any:
    if isinstance(value, Expects):
        return EXPECTS.document(value, Expects(), scope)
    return OUTPUT.write(value, scope)


EITHER: dict[str, Field] = {
    "name": Field(TEXT, "The name by which the model calls it."),
    "description": Field(TEXT, "What the model reads of it."),
    "instructions": Field(TEXT, "Instructions for the receiver."),
    "variables": Field(
        MODEL_OR_VARIABLES, "What the model fills in: variables, or the import path of a pydantic model."
    ),
    "strategy": Field(STRATEGY, "How much of the conversation the receiver sees."),
    "when": Field(FUNCTION, "While this function of the context is false, the model does not see it."),
    "approval": Field(APPROVAL, "Whether a person has to approve it first."),
    "timeout": Field(optional(TIMEOUT), "Seconds; null for no limit."),
    "alternatives": Field(IDS, "Agents that get the offer, in this order, if the receiver declines."),
    "expects": Field(
        Shape(_read_expects, _write_expects, {"anyOf": [EXPECTS.schema, {"type": "object"}, FUNCTION.schema]}),
        "What the result must be: output, criteria and timeout, a JSON schema, or a type by its import path.",
    ),
    "on_accepted": Field(FUNCTION, "A function of the acceptance, called once it is recorded."),
    "on_rollback": Field(FUNCTION, "A function that cleans up if it is rolled back."),
    "on_timeout": Field(choice(*get_args(OnEnd)), "Tell the sender, or roll it back, if there is no answer in time."),
    "on_failure": Field(choice(*get_args(OnEnd)), "Tell the sender, or roll it back, if the receiver fails."),
}
TO = {"to": Field(ID, "The receiver.", "receiver")}
RESULT = {
    "final": Field(FLAG, "True if the receiver's answer is the answer of the run."),
    "max_iterations": Field(COUNT, "How many replies of its model the receiver may take."),
}
WAYS: dict[str, tuple[Record, Callable[..., Handoff | Delegate]]] = {
    "transfer": (
        Record(
            "a handoff with 'to'",
            {
                **TO,
                **EITHER,
                "return_to": Field(ID, "The agent that gets the user's next message."),
                "merge": Field(choice("merge", "replace"), "How the receiver's context variables are updated."),
            },
            ("to",),
        ),
        handoff,
    ),
    "delegate": (
        Record(
            "a handoff with 'to'",
            {
                **TO,
                "delegate": Field(FLAG, "True: the receiver gets a task, and its result comes back."),
                **EITHER,
                **RESULT,
            },
            ("to",),
        ),
        delegate,
    ),
    "specialist": (
        Record(
            "a specialist",
            {
                "specialist": Field(FLAG, "True: the router finds the receiver, and its result comes back."),
                "among": Field(IDS, "The agents to choose from; all if empty."),
                **{key: field for key, field in EITHER.items() if key not in ("variables", "alternatives")},
                **RESULT,
            },
        ),
        specialist,
    ),
}
"""The three ways in which an agent hands over work, and the functions that declare them."""


def _kind_of(value: YamlValue) -> str:
    return next((kind for kind in ("specialist", "delegate") if value.peek(kind) is True), "transfer")


def read_way(value: YamlValue, scope: Scope, name: str = "") -> Handoff | Delegate:
    """A handoff, a delegate or a specialist; `name` is given if the mapping stands under it."""
    record, declare = WAYS[_kind_of(value)]
    found = (record.without("name") if name else record).values(value, scope)
    for flag in ("delegate", "specialist"):
        found.pop(flag, None)
    made = declare(**found, **({"name": name} if name else {}))
    return made


def write_way(way: Any, scope: Scope) -> dict[str, Any]:
    """A declared handoff as a mapping."""
    kind = "specialist" if isinstance(way, Specialist) else "delegate" if isinstance(way, Delegate) else "transfer"
    if not isinstance(way, Handoff | Delegate):
        raise Inexpressible(f"a document cannot hold a value of type {type(way).__name__} here")
    record, declare = WAYS[kind]
    blank = declare() if kind == "specialist" else declare(way.receiver)
    written = record.without(kind).document(way, blank, scope)
    if way.guards:
        scope.left_out.append(f"{scope.place.lstrip('.')}.guards: guards are Python code")
    return written if kind == "transfer" else {**written, kind: True}


def _flagged(kind: str) -> dict[str, Any]:
    schema = WAYS[kind][0].schema
    if kind == "transfer":
        return schema
    properties = {**schema["properties"], kind: {"const": True}}
    return {**schema, "properties": properties, "required": [*schema.get("required", ()), kind]}


WAY = Shape(read_way, write_way, {"anyOf": [_flagged(kind) for kind in WAYS]})
