"""What a declared function asks for: what the model fills in, what the run does, and what was bound before."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from functools import partial
from inspect import Parameter
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

from changeover.tools.run_context import RunContext
from changeover.tools.tool import Fn


class Signature(Struct, frozen=True):
    """A function's parameters with their types resolved, sorted by who fills them in."""

    open: tuple[Parameter, ...]
    """Filled in by the model."""
    contexts: tuple[str, ...]
    """Filled in with the run's context."""
    bound: frozenset[str]
    """Filled in by the `functools.partial` that was declared."""
    positional: tuple[str, ...]
    """Those that cannot be given by name, in their order."""
    doc: str

    @property
    def hidden(self) -> frozenset[str]:
        """What the model neither sees nor sets."""
        return self.bound.union(self.contexts)


def read(fn: Fn) -> tuple[Signature, list[str]]:
    """The signature of this function, as far as it can be read, and everything that keeps a model from calling it."""
    try:
        shown = inspect.signature(_plain(fn)).parameters.values()
    except (ValueError, TypeError, NameError) as error:
        return _shared_out(fn, []), [
            f"has a signature that cannot be read ({error}); wrap it in a function of your own"
        ]
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
    return _shared_out(fn, resolved), faults


def bare(fn: Fn) -> Fn:
    """The function that is called in the end, out of partials, methods and callable objects."""
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
    """The function as somebody wrote it, out of decorators too."""
    if hasattr(fn, "__wrapped__"):
        return _written(fn.__wrapped__)
    inner = bare(fn)
    return _written(inner) if hasattr(inner, "__wrapped__") else inner


def _plain(fn: Fn) -> Fn:
    # A partial that got its name by `update_wrapper` would show the parameters of what it wraps, the bound ones too.
    return partial(fn.func, *fn.args, **fn.keywords) if isinstance(fn, partial) else fn


def _shared_out(fn: Fn, parameters: list[Parameter]) -> Signature:
    contexts = tuple(each.name for each in parameters if _takes_context(each))
    return Signature(
        open=tuple(each for each in parameters if each.name not in contexts),
        contexts=contexts,
        bound=_bound(fn),
        positional=tuple(each.name for each in parameters if each.kind is Parameter.POSITIONAL_ONLY),
        doc=_doc(fn),
    )


def _bound(fn: Fn) -> frozenset[str]:
    # Python still shows them, as defaults; but what its author has bound is no longer for a model to choose.
    return _bound(fn.func).union(fn.keywords) if isinstance(fn, partial) else frozenset()


def _hint(parameter: Parameter, written: Fn) -> Any:
    if parameter.annotation is Parameter.empty:
        return Any

    def holder() -> None: ...

    # One at a time: the fault can name the parameter, and a return type that nobody needs here cannot fail.
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
