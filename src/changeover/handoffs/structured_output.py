"""Structured output: the JSON in an agent's answer, and its check against a JSON schema or a Python type."""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from changeover.errors import PackageError
from changeover.handoffs.json_value import json_copy
from changeover.handoffs.package import Moment

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import ValidationError

SHOWN = 10
"""How many faults of one value are reported."""
LONGEST = 300
"""How many characters of one fault are reported."""
LITERAL = frozenset({"const", "default", "enum", "examples"})
"""Keywords that hold values, not schemas."""
REMARKS = frozenset({"$comment", "$id", "$schema", "default", "deprecated", "description", "examples", "title"})
"""Keywords that do not constrain a value."""


class Form(Protocol):
    """The expected form of a value."""

    def fault(self) -> str:
        """What is wrong with the form itself; empty if it is valid."""

    def schema(self) -> dict[str, Any]:
        """The form as a JSON schema."""

    def fit(self, value: Any) -> tuple[Any, str]:
        """The value in this form, and what is wrong with it; the text is empty if it fits."""


def form_of(output: Any) -> Form:
    """The form that a JSON schema (a mapping) or a Python type declares."""
    return SchemaForm(dict(output)) if isinstance(output, Mapping) else TypeForm(output)


def takes_text(schema: dict[str, Any]) -> bool:
    """True if a plain text can fit the schema. A schema without a type counts only if it constrains nothing."""
    if "type" in schema:
        return schema["type"] == "string" or "string" in schema["type"]
    literals = [*schema.get("enum", ()), schema.get("const")]
    choices = [each for key in ("anyOf", "oneOf") for each in schema.get(key, ()) if isinstance(each, dict)]
    return any(isinstance(each, str) for each in literals) or any(map(takes_text, choices)) or schema.keys() <= REMARKS


@dataclass(frozen=True)
class SchemaForm:
    """A form declared by a JSON schema."""

    given: dict[str, Any]

    def fault(self) -> str:
        from jsonschema import SchemaError

        try:
            json_copy(self.given)
            _validator(self.given).check_schema(self.given)
        except SchemaError as error:
            return f"expects a JSON schema that is not valid: {_shown(error)}"
        except PackageError as error:
            return f"expects a JSON schema that is not valid: {error}"
        return next(_dangling(self.given), "") or self._endless()

    def schema(self) -> dict[str, Any]:
        return self.given

    def fit(self, value: Any) -> tuple[Any, str]:
        try:
            errors = list(islice(_validator(self.given).iter_errors(value), SHOWN))
        except Exception as error:  # a reference that cannot be resolved, or refers to itself
            return value, f"it cannot be checked against the schema ({_short(error)})"
        return value, "; ".join(_shown(_nearest(error)) for error in errors)

    def _endless(self) -> str:
        samples: list[Any] = [None, True, 0, "", [], {}]
        for sample in samples:
            try:
                list(_validator(self.given).iter_errors(sample))
            except RecursionError:
                return "expects a JSON schema that refers to itself without end"
        return ""


@dataclass(frozen=True)
class TypeForm:
    """A form declared by a Python type."""

    given: Any

    def fault(self) -> str:
        if inspect.isroutine(self.given) or isinstance(self.given, functools.partial):
            return f"expects the function {self.given!r}; a function that judges goes into Expects(criteria=[…])"
        if isinstance(self.given, str):
            return f"expects the text {self.given!r}; a sentence goes into Expects(criteria=[…])"
        try:
            self.schema()
        except Exception as error:  # of pydantic, or of the user's type
            reason = _short(error)
            return f"expects {self.given!r}, which is neither a JSON schema nor a type that pydantic knows ({reason})"
        return ""

    def schema(self) -> dict[str, Any]:
        return self._adapter.json_schema()

    def fit(self, value: Any) -> tuple[Any, str]:
        from pydantic import ValidationError

        try:
            # From JSON: a strict type then still accepts a date that is written as a string.
            return self._adapter.validate_json(json.dumps(value)), ""
        except ValidationError as error:
            return value, "; ".join(validation_faults(error, "the whole"))
        except Exception as error:  # of the user's validator
            return value, f"{type(error).__name__}: {_short(error)}"

    def read(self, text: str) -> Any:
        """A JSON text as a value of this type; the text itself if it does not fit."""
        try:
            return self._adapter.validate_json(text)
        except Exception:  # of pydantic, or of the user's validator
            return text

    @functools.cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        from pydantic import TypeAdapter

        return TypeAdapter(self.given)


def validation_faults(error: ValidationError, whole: str = "arguments") -> list[str]:
    """What pydantic found wrong, each fault with its place; a fault of the whole value is named `whole`."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    shown = [f"{_place(fault['loc'], whole)}: {fault['msg']}"[:LONGEST] for fault in found[:SHOWN]]
    return [*shown, f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else shown


def _validator(schema: dict[str, Any]) -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from jsonschema_specifications import REGISTRY

    spoken = isinstance(schema.get("$schema"), str)
    kind = validator_for(schema, default=Draft202012Validator) if spoken else Draft202012Validator
    # With this registry: jsonschema would fetch other references from the network.
    return kind(schema, registry=REGISTRY, format_checker=_formats())


@functools.cache
def _formats() -> Any:
    from jsonschema import FormatChecker

    formats = FormatChecker(tuple(FormatChecker.checkers))
    formats.checks("date-time", msgspec.ValidationError)(_is_moment)
    return formats


def _is_moment(value: object) -> bool:
    return not isinstance(value, str) or bool(msgspec.convert(value, Moment))


def _dangling(schema: dict[str, Any]) -> Iterator[str]:
    """A fault for each reference in the schema that cannot be resolved."""
    from jsonschema_specifications import REGISTRY
    from referencing import Resource
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    if any("$id" in below for below in list(_schemas(schema))[1:]):
        return  # the target of a reference depends on the nested $id around it
    resolver = REGISTRY.resolver_with_root(Resource.from_contents(schema, default_specification=DRAFT202012))
    for reference in [below["$ref"] for below in _schemas(schema) if isinstance(below.get("$ref"), str)]:
        try:
            resolver.lookup(reference)
        except Unresolvable:
            yield f"expects a JSON schema that refers to {reference!r}, which is not in it; nothing is fetched"


def _schemas(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        value = [below for key, below in value.items() if key not in LITERAL]
    if isinstance(value, list):
        for below in value:
            yield from _schemas(below)


def _nearest(error: Any) -> Any:
    """The error of the alternative (anyOf, oneOf) that comes closest to fitting."""
    from jsonschema.exceptions import best_match

    return best_match(iter([error]))


def _shown(error: Any) -> str:
    return f"{_place(error.absolute_path)}: {error.message}"[:LONGEST]


def _place(path: Any, whole: str = "the whole") -> str:
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in path]
    return "".join(steps).removeprefix(".") or whole


def _short(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[0][:LONGEST] if lines else type(error).__name__


FENCE = re.compile(
    r"^[ \t]*(?P<ticks>`{3,}|~{3,})[^\n]*\n(?P<body>.*?)(?:^[ \t]*(?P=ticks)[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
OPENING = re.compile(r"^[ \t]*(?=[\[{])", re.MULTILINE)
TRIES = 20
"""How many places in a text are tried."""


def found(text: str) -> list[Any]:
    """The JSON values in a text, the most likely answer first: the whole text, fenced blocks, or blocks of lines."""
    whole = list(_values([text]))
    fenced = whole or list(_values(match["body"] for match in FENCE.finditer(text)))
    # The last value first: models write drafts above their answer.
    return (fenced or list(_blocks(text)))[::-1]


def unfenced(text: str) -> str:
    """The content of the fenced block that is the whole text; the text itself if it is not such a block."""
    block = FENCE.fullmatch(text.strip())
    return block["body"].rstrip().removesuffix(block["ticks"]).rstrip() if block else text


def trouble(text: str) -> str:
    """Why the text, or its last fenced block, is not JSON."""
    bodies = [match["body"] for match in FENCE.finditer(text)]
    try:
        DECODER.decode(bodies[-1] if bodies else text)
    except (ValueError, RecursionError) as error:
        return str(error)
    return ""


def _values(texts: Iterator[str] | list[str]) -> Iterator[Any]:
    for text in texts:
        try:
            yield DECODER.decode(text)
        except (ValueError, RecursionError):
            continue


def _blocks(text: str) -> Iterator[Any]:
    """The objects and arrays that begin at the start of a line."""
    end = 0
    for _, opening in zip(range(TRIES), OPENING.finditer(text), strict=False):
        if opening.end() < end:
            continue
        try:
            value, end = DECODER.raw_decode(text, opening.end())
        except (ValueError, RecursionError):
            continue
        yield value


def _finite(figure: str) -> float:
    value = float(figure)
    if value - value != 0:
        raise ValueError(f"{figure} is not a number that JSON can hold")
    return value


DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)
