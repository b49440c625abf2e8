"""An editor's hover is enough: docstrings of public callables name all parameters, and signatures show all options."""

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from pydoc import locate
from typing import Any

import pytest

from changeover import RunResult, Team
from changeover.inputs import RunOptions
from tests.docs.reference_pages import MODULES, PARTS, public_names

RECORDS = {"ApprovalRequest", "Brief", "DelegateResult", "Facts", "HandoffRecord", "HandoffResult", "Handover", "Offer"}
RECORDS |= {"Passed", "Received", "Rollback", "RunContext", "RunResult", "TicketClaim", "TicketStatus", "Tripped"}
RECORDS |= {"Arm", "Comparison", "Standing", "Verdict", "Acceptance", "WorkflowState", "Mode", "Priority", "State"}
RECORDS |= {"Guard", "Model", "WorkflowRun", "StepReport"}
"""Classes that users read, inherit or compare with, and do not construct; their methods are checked all the same."""
READ = {"changeover.errors", "changeover.events", "changeover.metrics", "changeover.models", "changeover.stream"}
"""Doors whose classes are read, too."""
VARIADIC = {"Limits.tier": "others", "Team.register": "members", "calls": "items", "hands_off": "variables"}
VARIADIC |= {"Router.find_agent_for_capability": "others"}
"""Callables that take any number of one kind of thing."""


@cache
def explained(module: str) -> dict[str, set[str]]:
    """The fields that have a docstring of their own, by class."""
    tree = ast.parse(Path(str(sys.modules[module].__file__)).read_text())
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return {each.name: set(_explained(each.body)) for each in classes}


def _explained(body: list[ast.stmt]) -> Iterator[str]:
    for pair in pairwise(body):
        match pair:
            case ast.AnnAssign(target=ast.Name(id=field)), ast.Expr(value=ast.Constant()):
                yield field
            case _:
                pass


def callables() -> Iterator[tuple[str, Any]]:
    """All functions, methods and constructors that users call, by name."""
    modules = [import_module(name) for name in MODULES]
    found = {name: getattr(module, name) for module in modules for name in public_names(module)}
    parts = {path.rpartition(".")[2]: locate(path) for path in PARTS}
    for name, value in {**found, **parts}.items():
        if not inspect.isclass(value):
            if inspect.isfunction(value):
                yield name, value
            continue
        if not (name in RECORDS or name in parts or _is_read(value)):
            yield name, value
        for method, each in inspect.getmembers(value, callable):
            if not method.startswith("_") and str(getattr(each, "__module__", "")).startswith("changeover."):
                yield f"{name}.{method}", each


def _is_read(value: type) -> bool:
    return any(getattr(import_module(door), value.__name__, None) is value for door in READ)


CALLABLES = dict(callables())


def unnamed(what: Callable[..., Any]) -> list[str]:
    """The parameters that neither the docstring nor, for a class, a docstring of a field names."""
    told, fields = inspect.getdoc(what) or "", set[str]()
    for parent in what.__mro__ if isinstance(what, type) else ():
        if parent.__module__.startswith("changeover."):
            fields |= explained(parent.__module__).get(parent.__name__, set())
    parameters = [name for name in inspect.signature(what).parameters if name not in ("self", *fields)]
    return [name for name in parameters if not re.search(rf"(?<![\w.]){name}\b", told)]


@pytest.mark.parametrize("name", CALLABLES)
def test_a_docstring_names_every_parameter(name: str):
    assert inspect.getdoc(CALLABLES[name])
    assert unnamed(CALLABLES[name]) == []


def test_no_signature_hides_options():
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    hidden = {
        name: parameter.name
        for name, each in CALLABLES.items()
        for parameter in inspect.signature(each).parameters.values()
        if parameter.kind in variadic
    }
    assert hidden == VARIADIC


@pytest.mark.parametrize("method", [Team.run, Team.run_sync, Team.stream])
def test_the_options_of_a_run_are_in_the_signature(method: Callable[..., Any]):
    _, text, *options = inspect.signature(method).parameters.values()
    assert text.name == "text"
    assert [each.name for each in options] == list(RunOptions.__annotations__)
    assert all((each.kind, each.default) == (each.KEYWORD_ONLY, None) for each in options)
    assert str(options[0]) == "agent: 'str | None' = None"


def test_a_parameter_that_is_not_named_is_noticed():
    def silent(text: str, key: str) -> None:
        """Does something with a text."""

    assert unnamed(silent) == ["key"]
    assert "run_id" in unnamed(RunResult)
