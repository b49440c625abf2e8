"""Typed variables that a model fills in when it hands off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pydantic import BaseModel

Type = Literal["string", "integer", "number", "boolean", "array", "object"]
TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list[Any],
    "object": dict[str, Any],
}

Check = Callable[[dict[str, Any]], dict[str, Any] | str]
"""Takes a model's arguments; gives the values, or says in words what is wrong with them."""


@dataclass(frozen=True)
class Variable:
    """One value that travels with a handoff."""

    name: str
    type: Type = "string"
    required: bool = True
    description: str = ""


Variables = Sequence[Variable] | type["BaseModel"]


def variable_faults(variables: Variables) -> list[str]:
    """What is wrong with these declarations."""
    if isinstance(variables, type):
        return []
    names = [variable.name for variable in variables]
    found = [f"declares the variable {name!r} twice" for name in sorted({n for n in names if names.count(n) > 1})]
    for variable in variables:
        if not variable.name.isidentifier():
            found.append(f"has a variable called {variable.name!r}; use letters, digits and underscores")
        if variable.name.startswith("_"):
            found.append(f"has a variable called {variable.name!r}; names that begin with an underscore are reserved")
        if variable.type not in TYPES:
            found.append(f"has a variable of type {variable.type!r}; use one of {', '.join(TYPES)}")
    return found


def compile_variables(variables: Variables) -> tuple[dict[str, Any], Check]:
    """The JSON schema a model is shown, and the check of what it wrote."""
    if not isinstance(variables, type) and not variables:
        return {"type": "object", "properties": {}, "additionalProperties": False}, _nothing
    if isinstance(variables, type):
        return _schema(variables), _checker(variables, unset=True)
    model = _model(variables)
    return _schema(model), _checker(model, unset=False)


def _nothing(args: dict[str, Any]) -> dict[str, Any] | str:
    return f"it takes no arguments, not {', '.join(sorted(args))}" if args else {}


def _model(variables: Sequence[Variable]) -> type[BaseModel]:
    from pydantic import ConfigDict, Field, create_model

    fields: dict[str, Any] = {}
    for variable in variables:
        kind = TYPES[variable.type]
        about = (
            Field(description=variable.description or None)
            if variable.required
            else Field(default=None, description=variable.description or None)
        )
        fields[variable.name] = (kind if variable.required else kind | None, about)
    return create_model("Variables", __config__=ConfigDict(extra="forbid"), **fields)


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema()
    schema.pop("title", None)
    for about in schema.get("properties", {}).values():
        about.pop("title", None)
    return schema


def _checker(model: type[BaseModel], unset: bool) -> Check:
    """`unset`: whether what the model left out travels with its default."""
    from pydantic import ValidationError

    def check(args: dict[str, Any]) -> dict[str, Any] | str:
        try:
            return model.model_validate(args).model_dump(mode="json", exclude_unset=not unset)
        except ValidationError as error:
            return "; ".join(
                f"{'.'.join(map(str, fault['loc'])) or 'arguments'}: {fault['msg']}" for fault in error.errors()
            )

    return check
