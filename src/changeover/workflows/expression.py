"""Expressions of workflows: compiled JMESPath, the paths that it reads, and texts that hold it in braces."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from changeover.handoffs.template import BRACES, ESCAPED

if TYPE_CHECKING:
    from jmespath.parser import ParsedResult

Path = tuple[str, ...]
Node = dict[str, Any]

FIRST_ONLY = frozenset(
    {"index_expression", "projection", "value_projection", "filter_projection", "flatten", "slice", "pipe"}
)
"""Nodes of which only the first child is searched in the whole scope; the others are searched in its result."""


@lru_cache(maxsize=4096)
def compiled(expression: str) -> ParsedResult:
    """The compiled expression; raises ValueError if it is not JMESPath."""
    import jmespath
    from jmespath.exceptions import JMESPathError

    try:
        return jmespath.compile(expression)
    except JMESPathError as error:
        raise ValueError(" ".join(str(error).split())) from None


def search(expression: str, scope: dict[str, Any]) -> Any:
    """What the expression finds in the scope; None if it finds nothing. Raises ValueError."""
    from jmespath.exceptions import JMESPathError

    try:
        return compiled(expression).search(scope)
    except JMESPathError as error:
        raise ValueError(" ".join(str(error).split())) from None


def fault(expression: str) -> str:
    """Why an expression is not JMESPath, or can never find anything; empty if it is sound."""
    try:
        tree = compiled(expression).parsed
    except ValueError as error:
        return str(error)
    # `!a.b` is read as `(!a).b`, which never finds anything.
    return "write !(…) around all that is negated" if _negates_a_part(tree) else ""


def _negates_a_part(node: Node) -> bool:
    children = node["children"]
    if node["type"] == "subexpression" and children[0]["type"] == "not_expression":
        return True
    return any(_negates_a_part(child) for child in children if isinstance(child, dict))


def references(expression: str) -> set[Path]:
    """The paths into the scope that an expression reads, each as far as it is made of plain names."""
    return set(_paths(compiled(expression).parsed))


def _paths(node: Node) -> Iterator[Path]:
    kind, children = node["type"], node["children"]
    if kind == "field":
        yield (node["value"],)
    elif kind == "subexpression":
        yield from _chain(children)
    else:
        for child in children[:1] if kind in FIRST_ONLY else children:
            if isinstance(child, dict):
                yield from _paths(child)


def _chain(children: list[Node]) -> Iterator[Path]:
    """The path of a chain such as `a.b[0].c`, as far as it is made of plain names; if its first part reads several
    paths, or none, those."""
    first = list(_paths(children[0]))
    if len(first) != 1:
        yield from first
        return
    path = first[0]
    for child in children[1:]:
        found = next(_paths(child), None) if child["type"] in {"field", *FIRST_ONLY} else None
        if found is None:
            break
        path = (*path, *found)
        if child["type"] != "field":
            break
    yield path


def placeholders(text: str) -> list[str]:
    """The expressions that a text holds in braces."""
    return [found["name"] for found in BRACES.finditer(text) if found["name"] is not None]


def brace_faults(text: str) -> list[str]:
    """The faults of the braces of a text."""
    lone = {found[0] for found in BRACES.finditer(text) if found[0] in "{}" and found["name"] is None}
    return [f"the {brace!r} has no partner; a brace that is meant as such is written {brace * 2!r}" for brace in lone]


def filled(text: str, scope: dict[str, Any]) -> str:
    """The text, with each expression replaced by what it finds in the scope. Raises ValueError."""
    return BRACES.sub(
        lambda found: ESCAPED.get(found[0], found[0]) if found["name"] is None else shown(search(found["name"], scope)),
        text,
    )


def shown(value: Any) -> str:
    """A value as a member reads it: a text as it is, None as an empty text, everything else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def read(text: str) -> Any:
    """An answer as conditions and references see it: the value of a JSON object, array, number or boolean, else the
    text."""
    start = text.lstrip()[:1]
    if not start or not (start in "{[-tf" or start.isdigit()):
        return text
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return text
