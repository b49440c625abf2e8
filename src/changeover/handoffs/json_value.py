"""JSON values: a copy of a value that holds only what JSON can hold, or the path of the part that it cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from changeover.errors import PackageError

ROOT = "$"
"""Where every path begins, as in JSONPath."""


def json_copy(value: object) -> Any:
    """A copy that holds only JSON values: mappings become dicts, tuples lists, members of an Enum their plain values.

    Raises PackageError with the path of the first value that JSON cannot hold.
    """
    try:
        return _copy(value)
    except RecursionError:
        raise PackageError(ROOT, "is nested too deeply, or holds itself") from None


def json_key(key: object) -> str:
    """The key of a JSON object as plain text; raises PackageError if JSON cannot hold it."""
    if not isinstance(key, str):
        raise PackageError(ROOT, f"has the key {key!r} of type `{type(key).__name__}`; JSON has only texts as keys")
    return _text(key)


def at(key: int | str, take: Callable[[Any], Any], value: Any) -> Any:
    """`take(value)`, where the path of a PackageError begins with the key or the index of this value."""
    try:
        return take(value)
    except PackageError as error:
        step = f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]"
        raise PackageError(ROOT + step + error.path.removeprefix(ROOT), error.problem) from None


def _copy(value: Any) -> Any:
    match value:
        case str():
            return _text(value)
        case None | bool():
            return value
        case int():
            return int(value)
        case float() if isfinite(value):
            return float(value)
        case float():
            raise PackageError(ROOT, f"is {value}, which JSON cannot hold")
        case list() | tuple():
            return [at(index, _copy, each) for index, each in enumerate(value)]
        case dict() | Mapping():  # dict first, as the check for the other is slow
            return {json_key(key): at(key, _copy, each) for key, each in value.items()}
        case _:
            raise PackageError(ROOT, f"is of type `{type(value).__name__}`, which JSON cannot hold")


def _text(value: str) -> str:
    text = str.__str__(value)  # not str(value), which gives the name of an Enum member
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise PackageError(ROOT, "has half a character (a lone surrogate), which JSON cannot hold") from None
    return text
