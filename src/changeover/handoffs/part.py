"""Records that check what they are given, wherever it comes from, and keep the fields that they do not know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from enum import EnumType
from functools import cache, partial
from typing import Any, Self, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import force_setattr

from changeover.errors import PackageError
from changeover.handoffs.plain import ROOT, each_of, fields_of, inside, named, plain, step

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
