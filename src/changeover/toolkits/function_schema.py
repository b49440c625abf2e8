"""Signature and schema of a function tool: what the model fills in, what the run provides, and the argument check."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from inspect import Parameter
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

from msgspec import Struct

from changeover.handoffs.context import METADATA
from changeover.handoffs.structured_output import validation_faults
from changeover.toolkits.result_text import cut
from changeover.tools.run_context import RunContext
from changeover.tools.tool import Fn, Tool, ToolDefinition, without_titles

if TYPE_CHECKING:
    from pydantic_ai.tools import Tool as Described
    from pydantic_core import SchemaValidator


class Signature(Struct, frozen=True):
    """The parameters of a function with their types resolved, grouped by who fills them in."""

    open: tuple[Parameter, ...]
    """Filled in by the model."""
    contexts: tuple[str, ...]
    """Filled in with the RunContext."""
    bound: frozenset[str]
    """Bound by a `functools.partial`."""
    positional: tuple[str, ...]
    """Positional-only parameters, in their order."""
    doc: str

    @property
    def hidden(self) -> frozenset[str]:
        """The parameters that the model neither sees nor sets."""
        return self.bound.union(self.contexts)


def read(fn: Fn) -> tuple[Signature, list[str]]:
    """The signature of this function, as far as it can be read, and the faults that keep a model from calling it."""
    try:
        shown = inspect.signature(_plain(fn)).parameters.values()
    except (ValueError, TypeError, NameError) as error:
        return _signature(fn, []), [f"has a signature that cannot be read ({error}); wrap it in a function of your own"]
    parameters = [parameter for parameter in shown if parameter.name not in _bound(fn)]
    faults = list(_faults(fn, parameters))
    resolved: list[Parameter] = []
    for parameter in parameters:
        try:
            resolved.append(parameter.replace(annotation=_hint(parameter, _written(fn))))
        except Exception as error:
            faults.append(
                f"has a parameter {parameter.name!r} whose type is unknown when the team is built ({error}); "
                "define or import it at module level, and not only under TYPE_CHECKING"
            )
    return _signature(fn, resolved), faults


def bare(fn: Fn) -> Fn:
    """The function behind partials, methods and callable objects."""
    if isinstance(fn, partial):
        return bare(fn.func)
    if isinstance(fn, staticmethod) or inspect.ismethod(fn):
        return bare(fn.__func__)
    if inspect.isroutine(fn):
        return fn
    owner, method = (fn, "__init__") if isinstance(fn, type) else (type(fn), "__call__")
    body: Fn = getattr(owner, method)
    return body


def _written(fn: Fn) -> Fn:
    """The function behind decorators too, as it was written."""
    if hasattr(fn, "__wrapped__"):
        return _written(fn.__wrapped__)
    inner = bare(fn)
    return _written(inner) if hasattr(inner, "__wrapped__") else inner


def _plain(fn: Fn) -> Fn:
    # After `update_wrapper`, a partial would show the parameters of the wrapped function, also the bound ones.
    return partial(fn.func, *fn.args, **fn.keywords) if isinstance(fn, partial) else fn


def _signature(fn: Fn, parameters: list[Parameter]) -> Signature:
    contexts = tuple(each.name for each in parameters if _takes_context(each))
    return Signature(
        open=tuple(each for each in parameters if each.name not in contexts),
        contexts=contexts,
        bound=_bound(fn),
        positional=tuple(each.name for each in parameters if each.kind is Parameter.POSITIONAL_ONLY),
        doc=_doc(fn),
    )


def _bound(fn: Fn) -> frozenset[str]:
    # Python shows bound parameters as defaults, but a model must not set them.
    return _bound(fn.func).union(fn.keywords) if isinstance(fn, partial) else frozenset()


def _hint(parameter: Parameter, written: Fn) -> Any:
    if parameter.annotation is Parameter.empty:
        return Any

    def holder() -> None: ...

    # One parameter at a time: the fault can name it, and an unknown return type does no harm.
    holder.__annotations__ = {parameter.name: parameter.annotation}
    namespace = getattr(written, "__globals__", {})
    return get_type_hints(holder, namespace, include_extras=True)[parameter.name]


def _takes_context(parameter: Parameter) -> bool:
    return parameter.kind is not Parameter.VAR_KEYWORD and _is_context(parameter.annotation)


def _is_context(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        return _is_context(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return any(_is_context(member) for member in get_args(hint))
    return hint is RunContext


def _doc(fn: Fn) -> str:
    if isinstance(fn, partial):
        return _doc(fn.func)
    own = inspect.isroutine(fn) or isinstance(fn, type) or hasattr(fn, "__wrapped__")
    text = fn.__doc__ if own else bare(fn).__doc__ or fn.__doc__
    return inspect.cleandoc(text or "")


def _faults(fn: Fn, parameters: Iterable[Parameter]) -> Iterator[str]:
    for index, parameter in enumerate(parameters):
        if parameter.kind is Parameter.VAR_POSITIONAL:
            yield f"takes *{parameter.name}, which a model cannot fill in; take a list instead"
        if index == 0 and parameter.name == "self" and parameter.annotation is Parameter.empty:
            yield "is a method without its object; declare the method of an instance"
    if inspect.isgeneratorfunction(bare(fn)) or inspect.isasyncgenfunction(bare(fn)):
        yield "yields its results one by one; return them as a list"


class Schema(Struct, frozen=True):
    """A function as a model sees it, and the check of its arguments."""

    tool: Tool
    signature: Signature
    definition: ToolDefinition
    validator: SchemaValidator

    def fit(self, args: dict[str, Any], context: RunContext) -> Callable[[], Any] | str:
        """The function with its arguments bound, or a text that says why these arguments do not fit."""
        from pydantic_core import PydanticSerializationError, ValidationError, to_json

        try:
            # From JSON: a strict pydantic model then still accepts a date that is written as a string.
            values: dict[str, Any] = self.validator.validate_json(to_json(args))
        except ValidationError as error:
            return self._misfit(validation_faults(error))
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


class Shape(Struct, frozen=True):
    """The part of a tool's schema that depends on its function and name, not on its options."""

    signature: Signature
    description: str
    parameters: dict[str, Any]
    validator: SchemaValidator


_shapes: WeakKeyDictionary[Fn, dict[tuple[str, str | None], Shape]] = WeakKeyDictionary()
"""A cache of the shapes of functions by name and docstring, for as long as the functions live: teams are often built
again from the same functions, and pydantic takes most of that time."""


def compile_tool(tool: Tool) -> Schema | list[str]:
    """The schema of this tool, or the faults of its function, one text each."""
    function, name = tool.function, tool.name
    if not inspect.isfunction(function):  # other callables may change their signature
        return _schema(tool, _shape(tool))
    known, key = _shapes.setdefault(function, {}), (name, function.__doc__)
    shape = known.get(key) or _shape(tool)
    if isinstance(shape, Shape):
        known[key] = shape
    return _schema(tool, shape)


def _shape(tool: Tool) -> Shape | list[str]:
    signature, faults = read(tool.function)
    reserved = sorted(METADATA & {parameter.name for parameter in signature.open})
    faults += [f"has a parameter called {name!r}, which is reserved; rename it" for name in reserved]
    try:
        described = _describe(tool.name, signature.doc, signature.open)
    except Exception as error:
        faults += _undescribable(signature, error)
    else:
        if not faults:
            parameters = without_titles(described.function_schema.json_schema)
            return Shape(signature, described.description or "", parameters, described.function_schema.validator)
    return [f"tool {tool.name!r} {fault}" for fault in faults]


def _schema(tool: Tool, shape: Shape | list[str]) -> Schema | list[str]:
    if not isinstance(shape, Shape):
        return shape
    about = tool.description or shape.description
    definition = ToolDefinition(tool.name, about, shape.parameters, read_only=bool(tool.read_only))
    return Schema(tool, shape.signature, definition, shape.validator)


def _describe(name: str, doc: str, parameters: Sequence[Parameter]) -> Described:
    from pydantic.json_schema import PydanticJsonSchemaWarning
    from pydantic_ai.tools import Tool as Described

    def shape() -> None: ...

    shown = [_shown(parameter) for parameter in parameters]
    shape.__name__ = shape.__qualname__ = name
    # With a newline: pydantic-ai reads the last `:param …:` of a docstring only if its line ends.
    shape.__doc__ = f"{doc}\n" if doc else None
    shape.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    shape.__dict__["__signature__"] = inspect.Signature(shown)
    with warnings.catch_warnings():
        # A default that JSON cannot show is still valid.
        warnings.simplefilter("ignore", PydanticJsonSchemaWarning)
        return Described(shape, takes_ctx=False)


def _shown(parameter: Parameter) -> Parameter:
    from pydantic import Field
    from pydantic.fields import FieldInfo

    if parameter.kind is Parameter.VAR_KEYWORD:
        return parameter
    default, field = parameter.default, Field()
    if isinstance(default, FieldInfo) and default.is_required():
        # `order: str = Field(description=…)` looks like a default, but is required.
        default, field = Parameter.empty, default
    # Annotated: without it, the fields of a single pydantic model would replace the parameter.
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
    # The rest is advice for authors of pydantic models.
    return (str(error).strip() or type(error).__name__).splitlines()[0].split(". ")[0].rstrip(".")
