"""Variable: a typed value that a model fills in when it hands off, with its schema and its check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired

from changeover.tools.tool import without_titles

if TYPE_CHECKING:
    from pydantic import BaseModel, TypeAdapter

Type = Literal["string", "integer", "number", "boolean", "array", "object"]
TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list[Any],
    "object": dict[str, Any],
}

SHOWN = 80
"""How many characters of a value are quoted in a text that says what is wrong with it."""

Check = Callable[[dict[str, Any]], dict[str, Any] | str]
"""Takes the arguments of a model's call; returns the values, or a text that says what is wrong."""


@dataclass(frozen=True)
class Variable:
    """A value that a model fills in when it hands off; it becomes a context variable."""

    name: str
    """An identifier that does not begin with an underscore."""
    type: Type = "string"
    """"string", "integer", "number", "boolean", "array" or "object"."""
    required: bool = True
    """False if the model may leave it out."""
    description: str = ""
    """What the model reads of it."""


Variables = Sequence[Variable] | type["BaseModel"]


def variable_faults(variables: Variables) -> list[str]:
    """The faults of these declarations, one text each."""
    if isinstance(variables, Sequence):
        others = [each for each in variables if not isinstance(each, Variable)]
        if others:
            return [f"has the variable {others[0]!r}; give Variable(…)s or a pydantic model"]
        return list(_declared_faults(variables))
    try:
        compile_variables(variables)
    except Exception as error:
        return [f"has variables that cannot be shown to a model ({error}); give Variable(…)s or a pydantic model"]
    return []


def _declared_faults(variables: Sequence[Variable]) -> Iterator[str]:
    names = [variable.name for variable in variables]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"declares the variable {name!r} twice"
    for variable in variables:
        if not variable.name.isidentifier():
            yield f"has a variable called {variable.name!r}; use letters, digits and underscores"
        if variable.name.startswith("_"):
            yield f"has a variable called {variable.name!r}; names that begin with an underscore are reserved"
        if variable.type not in TYPES:
            yield f"has a variable of type {variable.type!r}; use one of {', '.join(TYPES)}"


def misfit(variable: Variable, value: object) -> str:
    """A text that says that a value is not of the variable's type."""
    article = "an" if variable.type[0] in "aio" else "a"
    shown = repr(value)
    shown = shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}…"
    return f"{variable.name} must be {article} {variable.type}, not {shown}"


def compile_variables(variables: Variables) -> tuple[dict[str, Any], Check]:
    """The JSON schema of these variables for a model, and the check of the arguments it writes.

    Raises TypeError for a class that is not a pydantic model, and what pydantic raises for types it does not know.
    """
    if not variables:
        return {"type": "object", "properties": {}, "additionalProperties": False}, _nothing
    from pydantic import BaseModel, TypeAdapter

    if isinstance(variables, type):
        if not issubclass(variables, BaseModel):
            raise TypeError(f"{variables.__name__} is not a pydantic model")
        adapter: TypeAdapter[Any] = TypeAdapter(variables)
    else:
        adapter = TypeAdapter(_typed_dict(variables))
    schema = adapter.json_schema()
    if not _is_object(schema, schema.get("$defs", {})):
        raise TypeError("a model writes its arguments as an object, and this is none")
    return without_titles(schema), _checker(adapter)


def _is_object(schema: dict[str, Any], definitions: dict[str, Any]) -> bool:
    """True if every value that fits this schema is a JSON object."""
    if "$ref" in schema:
        return _is_object(definitions.get(schema["$ref"].rpartition("/")[2], {}), definitions)
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return all(_is_object(each, definitions) for each in schema[union])
    return any(_is_object(each, definitions) for each in schema.get("allOf", ())) or schema.get("type") == "object"


def _nothing(args: dict[str, Any]) -> dict[str, Any] | str:
    return f"it takes no arguments, not {', '.join(sorted(args))}" if args else {}


def _typed_dict(variables: Sequence[Variable]) -> Any:
    # Not a pydantic model: a variable may have any name, also that of a model's attribute.
    from pydantic import ConfigDict, Field, with_config
    from typing_extensions import TypedDict  # pydantic takes no other before Python 3.12

    kinds: dict[str, Any] = {}
    for variable in variables:
        kind = TYPES[variable.type] if variable.required else TYPES[variable.type] | None
        described = Annotated[kind, Field(description=variable.description)] if variable.description else kind
        kinds[variable.name] = described if variable.required else NotRequired[described]
    declared = TypedDict("Variables", kinds)  # type: ignore[misc]
    return with_config(ConfigDict(extra="forbid", allow_inf_nan=False))(declared)


def _checker(adapter: TypeAdapter[Any]) -> Check:
    from pydantic import ValidationError
    from pydantic_core import to_json

    from changeover.handoffs.structured_output import validation_faults

    def check(args: dict[str, Any]) -> dict[str, Any] | str:
        try:
            # From JSON: a strict pydantic model then still accepts a date that is written as a string.
            values: dict[str, Any] = adapter.dump_python(adapter.validate_json(to_json(args)), mode="json")
        except ValidationError as error:
            return "; ".join(validation_faults(error))
        except Exception as error:  # of the user's validator
            return f"{type(error).__name__}: {error}"
        return values

    return check
