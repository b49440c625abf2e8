"""What JSON can hold, and the way to what it cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import NoneType
from typing import Any

from changeover.errors import PackageError

ROOT = "$"
"""Where every path begins, as in JSONPath. What is found further down is put below it on the way up."""


def plain(value: object) -> Any:
    """A copy that holds nothing but what JSON holds; raises PackageError at the first thing that is something else."""
    try:
        return _plain(value)
    except RecursionError:
        raise PackageError(ROOT, "is nested too deeply, or holds itself") from None


def each_of(values: Iterable[Any], take: Callable[[Any], Any]) -> list[Any]:
    """What `take` makes of each; what it refuses is refused by its number."""
    taken: list[Any] = []
    try:
        for value in values:
            taken.append(take(value))
    except PackageError as error:
        raise inside(f"[{len(taken)}]", error) from None
    return taken


def fields_of(values: Mapping[Any, Any], take: Callable[[Any], Any]) -> dict[str, Any]:
    """What `take` makes of the value of each key; what it refuses is refused by its key."""
    taken: dict[str, Any] = {}
    key: Any = ""
    try:
        for key, value in values.items():
            taken[key if type(key) is str and key.isascii() else _key(key)] = take(value)
    except PackageError as error:
        raise inside(step(key), error) from None
    return taken


def inside(way: str, error: PackageError) -> PackageError:
    """The same error, seen from the object that holds what is wrong."""
    return PackageError(ROOT + way + error.path.removeprefix(ROOT), error.problem)


def step(key: object) -> str:
    """The way to the value of a key."""
    text = str(key)
    return f".{text}" if text.isidentifier() else f"[{text!r}]"


def named(value: object) -> str:
    """What JSON calls this, or Python if JSON has no word for it."""
    match value:
        case None:
            return "null"
        case dict():
            return "object"
        case list() | tuple():
            return "array"
        case _:
            return type(value).__name__


def text_of(value: str) -> str:
    """The text, if it can be written."""
    # Not `str(value)`, by which an Enum with string values shows its name.
    text = str.__str__(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise PackageError(ROOT, "has half a character (a lone surrogate), which JSON cannot hold") from None
    return text


def _plain(value: object) -> Any:
    take = _TAKES.get(type(value)) or next((_TAKES[kind] for kind in _TAKES if isinstance(value, kind)), None)
    if take is None:
        raise PackageError(ROOT, f"is of type `{named(value)}`, which JSON cannot hold")
    return take(value)


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise PackageError(ROOT, f"is the key {key!r} of type `{named(key)}`; JSON has only texts as keys")
    return text_of(key)


def _number(value: float) -> float:
    if value - value != 0:
        raise PackageError(ROOT, f"is {value}, which JSON cannot hold")
    return float(value)


_TAKES: dict[type, Callable[[Any], Any]] = {
    str: text_of,
    bool: bool,
    int: int,
    float: _number,
    list: lambda values: each_of(values, _plain),
    dict: lambda values: fields_of(values, _plain),
    NoneType: lambda value: value,
    tuple: lambda values: each_of(values, _plain),
    Mapping: lambda values: fields_of(values, _plain),
}
"""What becomes of a value of each type, and of what derives from it."""
