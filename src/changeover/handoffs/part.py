"""Part: the base record of a package, which checks its fields, keeps unknown ones, and holds only JSON values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from enum import EnumType
from functools import cache, partial
from types import NoneType
from typing import Any, Self, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import force_setattr

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


Take = Callable[[Any], Any]


class Part(Struct, frozen=True, kw_only=True):
    """An object of a package: what does not fit a field is refused, and what is no field is kept as it came."""

    unknown: dict[str, Any] = {}
    """Fields that a later version, or somebody else, has added."""

    def __post_init__(self) -> None:
        usual = defaults(type(self))
        for name, take in _takers(type(self)).items():
            value = getattr(self, name)
            if value is not usual.get(name, NODEFAULT):
                force_setattr(self, name, _field(name, value, take))
        if self.unknown != {}:
            force_setattr(self, "unknown", _strangers(self.unknown, kinds(type(self))))

    @classmethod
    def from_dict(cls, given: object) -> Self:
        """The record that this object of JSON describes; raises PackageError, which says what is wrong and where."""
        made: Self = taker(cls)(given)
        return made

    def to_dict(self) -> dict[str, Any]:
        """The record as an object of JSON, without the fields that say only what holds anyway."""
        usual = defaults(type(self))
        fields = {name: getattr(self, name) for name in kinds(type(self))}
        said = {name: value for name, value in fields.items() if name not in usual or value != usual[name]}
        # Looked at again: a dict that was fit when it came in may have been changed since.
        return fields_of(said, _written) | fields_of(self.unknown, plain)


@cache
def kinds(part: type[Part]) -> dict[str, Any]:
    """The fields of a part and their types, without the place for unknown ones."""
    return {field.name: field.type for field in msgspec.structs.fields(part) if field.name != "unknown"}


@cache
def defaults(part: type[Part]) -> dict[str, Any]:
    """What holds for the fields of a part that nobody gave."""
    fields = msgspec.structs.fields(part)
    made = {field.name: field.default_factory() for field in fields if field.default_factory is not NODEFAULT}
    return made | {field.name: field.default for field in fields if field.default is not NODEFAULT}


@cache
def _takers(part: type[Part]) -> dict[str, Take]:
    return {name: taker(kind) for name, kind in kinds(part).items()}


def taker(kind: Any) -> Take:
    """What makes a value fit for a field of this type, or raises PackageError because it is of another."""
    if kind is Any:
        return plain
    if isinstance(kind, type) and issubclass(kind, Part):
        return partial(_part, kind)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is tuple:
        return partial(_tuple, taker(inner[0]))
    if origin is dict:
        return partial(_dict, taker(inner[1]))
    return partial(_single, kind)


def _field(name: str, value: Any, take: Take) -> Any:
    try:
        return take(value)
    except PackageError as error:
        raise inside(step(name), error) from None


def _tuple(take: Take, given: Any) -> tuple[Any, ...]:
    return tuple(each_of(_expect(given, list | tuple, "array"), take))


def _dict(take: Take, given: Any) -> dict[str, Any]:
    return fields_of(_expect(given, Mapping, "object"), take)


def _part(kind: type[Part], given: Any) -> Part:
    if isinstance(given, kind):
        return given
    rest = dict(_expect(given, Mapping, "object"))
    fields = kinds(kind)
    own = {name: rest.pop(name) for name in fields if name in rest}
    for name in fields:
        if name not in own and name not in defaults(kind):
            raise PackageError(ROOT + step(name), "is missing")
    return kind(**own, unknown=rest)


def _strangers(given: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    unknown = _expect(given, Mapping, "object")
    for name in fields:
        if name in unknown:
            raise PackageError(ROOT + step(name), "is a field of its own, and cannot be among the unknown ones")
    return fields_of(unknown, plain)


def _expect(value: Any, kind: Any, called: str) -> Any:
    if not isinstance(value, kind):
        raise PackageError(ROOT, f"expected `{called}`, got `{named(value)}`")
    return value


def _single(kind: Any, value: Any) -> Any:
    if kind is str and type(value) is str and value.isascii():
        return value  # as most are: nothing can be wrong with it
    # In JSON 2.0 is an integer, and some write it so.
    whole = int(value) if type(value) is float and value.is_integer() else value
    try:
        made = msgspec.convert(whole, kind)
    except msgspec.ValidationError as error:
        problem = str(error)
        raise PackageError(ROOT, problem[:1].lower() + problem[1:]) from None
    if isinstance(made, datetime):
        return _writable(made)
    return made if isinstance(kind, EnumType) else plain(made)


def _writable(moment: datetime) -> datetime:
    """The same moment as a timestamp can say it: with whole minutes from UTC, and whatever a time zone does later."""
    offset = moment.utcoffset() or timedelta()
    return moment.astimezone(UTC) if offset % timedelta(minutes=1) else moment.replace(tzinfo=timezone(offset), fold=0)


def _written(value: Any) -> Any:
    match value:
        case Part():
            return value.to_dict()
        case tuple():
            return each_of(value, _written)
        case datetime():
            return msgspec.to_builtins(value)
        case _:
            return plain(value)
