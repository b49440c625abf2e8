"""What a model is shown of a function, and whether what it wrote fits."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Struct

from changeover.agent.team_faults import parameter_faults
from changeover.toolkits.result_text import cut
from changeover.toolkits.signature import Signature, read
from changeover.tools.definition import ToolDefinition
from changeover.tools.run_context import RunContext
from changeover.tools.tool import Tool

if TYPE_CHECKING:
    from pydantic_ai.tools import Tool as Described
    from pydantic_core import SchemaValidator, ValidationError

SHOWN_FAULTS = 10
"""A model that got a thousand values wrong learns as much from the first few."""


class Schema(Struct, frozen=True):
    """A function as a model sees it, and the check of its arguments."""

    tool: Tool
    signature: Signature
    definition: ToolDefinition
    validator: SchemaValidator

    def fit(self, args: dict[str, Any], context: RunContext) -> Callable[[], Any] | str:
        """The function, ready to be called; or, in words, why these arguments do not fit."""
        from pydantic_core import PydanticSerializationError, ValidationError, to_json

        try:
            # Read as JSON, which they are: a model that is strict about its types still takes a date from a string.
            values: dict[str, Any] = self.validator.validate_json(to_json(args))
        except ValidationError as error:
            return self._misfit(_complaints(error))
        except PydanticSerializationError as error:
            return self._misfit([str(error)])
        if forged := sorted(self.signature.hidden & values.keys()):
            return self._misfit([f"{name}: there is no such parameter" for name in forged])
        values |= dict.fromkeys(self.signature.contexts, context)
        positional = [values.pop(name) for name in self.signature.positional]
        return partial(self.tool.function, *positional, **values)

    def _misfit(self, complaints: Sequence[str]) -> str:
        required = self.definition.parameters.get("required", ())
        names = [
            name if name in required else f"{name} (optional)" for name in self.definition.parameters["properties"]
        ]
        takes = ", ".join(names) or "no arguments"
        return f"the arguments of {self.definition.name} do not fit: {cut('; '.join(complaints))}; it takes {takes}"


def compile_tool(tool: Tool) -> Schema | list[str]:
    """The schema of this tool, or everything that is wrong with its function."""
    signature, faults = read(tool.function)
    reserved = parameter_faults(tool, [parameter.name for parameter in signature.open])
    try:
        described = _describe(tool.name, signature.doc, signature.open)
    except Exception as error:
        faults += _undescribable(signature, error)
    else:
        if not faults and not reserved:
            return _schema(tool, signature, described)
    return [*(f"tool {tool.name!r} {fault}" for fault in faults), *reserved]


def _schema(tool: Tool, signature: Signature, described: Described) -> Schema:
    about = tool.description or described.description or ""
    parameters = without_titles(described.function_schema.json_schema)
    definition = ToolDefinition(tool.name, about, parameters)
    return Schema(tool, signature, definition, described.function_schema.validator)


def without_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without the titles that only repeat names; a property may well be called `title`."""
    plain: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            plain[key] = {name: without_titles(inner) for name, inner in value.items()}
        elif key != "title":
            plain[key] = _without_titles_inside(key, value)
    return plain


def _without_titles_inside(key: str, value: Any) -> Any:
    if key in ("default", "const", "enum", "examples"):
        return value
    if isinstance(value, dict):
        return without_titles(value)
    return [_without_titles_inside(key, each) for each in value] if isinstance(value, list) else value


def _describe(name: str, doc: str, parameters: Sequence[Parameter]) -> Described:
    from pydantic.json_schema import PydanticJsonSchemaWarning
    from pydantic_ai.tools import Tool as Described

    def shape() -> None: ...

    shown = [_shown(parameter) for parameter in parameters]
    shape.__name__ = shape.__qualname__ = name
    # With the newline: the last `:param …:` of a docstring counts only if its line ends.
    shape.__doc__ = f"{doc}\n" if doc else None
    shape.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    shape.__dict__["__signature__"] = inspect.Signature(shown)
    with warnings.catch_warnings():
        # A default that JSON cannot show is a default all the same.
        warnings.simplefilter("ignore", PydanticJsonSchemaWarning)
        return Described(shape, takes_ctx=False)


def _shown(parameter: Parameter) -> Parameter:
    from pydantic import Field
    from pydantic.fields import FieldInfo

    if parameter.kind is Parameter.VAR_KEYWORD:
        return parameter
    default, field = parameter.default, Field()
    if isinstance(default, FieldInfo) and default.is_required():
        # `order: str = Field(description=…)` has a default for Python only.
        default, field = Parameter.empty, default
    # Annotated, so that a single pydantic model stays a parameter: bare, its fields would take the place of its name.
    hint: Any = Annotated[parameter.annotation, field]
    return Parameter(parameter.name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _undescribable(signature: Signature, error: Exception) -> Iterator[str]:
    alone = [(parameter, why) for parameter in signature.open if (why := _trouble_with(parameter))]
    for parameter, why in alone:
        kind = inspect.formatannotation(parameter.annotation)
        yield (
            f"has a parameter {parameter.name!r} of type {kind}, which JSON cannot describe ({why}); use plain types, "
            "dataclasses or pydantic models, or bind it with functools.partial"
        )
    if not alone:
        yield f"cannot be described to a model ({_first_sentence(error)}); simplify its parameters"


def _trouble_with(parameter: Parameter) -> str | None:
    try:
        _describe("alone", "", [parameter])
    except Exception as error:
        return _first_sentence(error)
    return None


def _first_sentence(error: Exception) -> str:
    # What follows is advice for authors of pydantic models.
    return (str(error).strip() or type(error).__name__).splitlines()[0].split(". ")[0].rstrip(".")


def _complaints(error: ValidationError) -> list[str]:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    told = [f"{'.'.join(map(str, each['loc'])) or 'arguments'}: {each['msg']}" for each in found[:SHOWN_FAULTS]]
    return [*told, f"and {len(found) - SHOWN_FAULTS} more"] if len(found) > SHOWN_FAULTS else told
