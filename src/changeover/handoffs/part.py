"""Part: the base record of a package, which checks its fields with msgspec and keeps unknown fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from enum import EnumType
from functools import cache, partial
from types import NoneType
from typing import Any, Self, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import force_setattr

from changeover.errors import PackageError
from changeover.handoffs.json_value import ROOT, at, json_copy, json_key

Check = Callable[[Any], Any]


class Part(Struct, frozen=True, kw_only=True):
    """An object of a package. Making one checks its fields and raises PackageError; unknown fields are kept."""

    unknown: dict[str, Any] = {}
    """Fields that a later version, or another program, has added."""

    def __post_init__(self) -> None:
        usual, checks = defaults(type(self)), _checks(type(self))
        for name, check in checks.items():
            value = getattr(self, name)
            if value is not usual.get(name, NODEFAULT):
                force_setattr(self, name, at(name, check, value))
        if self.unknown != {}:
            force_setattr(self, "unknown", _object(json_copy, self.unknown))
            for name in filter(self.unknown.__contains__, checks):
                raise PackageError(f"{ROOT}.{name}", "is a field of its own, and cannot be among the unknown ones")

    @classmethod
    def from_dict(cls, given: object) -> Self:
        """The record that the JSON object `given` describes; raises PackageError, which says what is wrong where."""
        rest = dict(_expect(Mapping, given))
        own = {name: rest.pop(name) for name in kinds(cls) if name in rest}
        for name in kinds(cls):
            if name not in own and name not in defaults(cls):
                raise PackageError(f"{ROOT}.{name}", "is missing")
        return cls(**own, unknown=rest)

    def to_dict(self) -> dict[str, Any]:
        """The record as a JSON object, without the fields that have their default value."""
        usual = defaults(type(self))
        fields = {name: getattr(self, name) for name in kinds(type(self))}
        changed = {name: value for name, value in fields.items() if name not in usual or value != usual[name]}
        # Checked again: a dict that was JSON when it came in may have been changed since.
        return {**{name: at(name, _written, value) for name, value in changed.items()}, **json_copy(self.unknown)}


@cache
def kinds(part: type[Part]) -> dict[str, Any]:
    """The fields of a part and their types, without `unknown`."""
    return {field.name: field.type for field in msgspec.structs.fields(part) if field.name != "unknown"}


@cache
def defaults(part: type[Part]) -> dict[str, Any]:
    """The fields of a part that have a default, and their default values."""
    fields = msgspec.structs.fields(part)
    made = {field.name: field.default_factory() for field in fields if field.default_factory is not NODEFAULT}
    return made | {field.name: field.default for field in fields if field.default is not NODEFAULT}


@cache
def _checks(part: type[Part]) -> dict[str, Check]:
    return {name: _check(kind) for name, kind in kinds(part).items()}


def _check(kind: Any) -> Check:
    """The function that converts a value to a field of this type, or raises PackageError."""
    if kind is Any:
        return json_copy
    if isinstance(kind, type) and issubclass(kind, Part):
        return lambda value: value if isinstance(value, kind) else kind.from_dict(value)
    if get_origin(kind) is tuple:
        return partial(_array, _check(get_args(kind)[0]))
    if get_origin(kind) is dict:
        return partial(_object, _check(get_args(kind)[1]))
    return partial(_scalar, kind)


def _array(check: Check, value: Any) -> tuple[Any, ...]:
    return tuple(at(index, check, each) for index, each in enumerate(_expect(list | tuple, value)))


def _object(check: Check, value: Any) -> dict[str, Any]:
    return {json_key(key): at(key, check, each) for key, each in _expect(Mapping, value).items()}


def _scalar(kind: Any, value: Any) -> Any:
    if kind is str and type(value) is str and value.isascii():
        return value  # as most are
    # In JSON 2.0 is an integer, and some programs write it so.
    whole = int(value) if type(value) is float and value.is_integer() else value
    try:
        made = msgspec.convert(whole, kind)
    except msgspec.ValidationError as error:
        raise PackageError(ROOT, str(error)[:1].lower() + str(error)[1:]) from None
    if isinstance(made, datetime):
        return _writable(made)
    return made if isinstance(kind, EnumType) else json_copy(made)


def _expect(kind: Any, value: Any) -> Any:
    if isinstance(value, kind):
        return value
    got = {NoneType: "null", dict: "object", list: "array", tuple: "array"}.get(type(value), type(value).__name__)
    raise PackageError(ROOT, f"expected `{'object' if kind is Mapping else 'array'}`, got `{got}`")


def _writable(moment: datetime) -> datetime:
    """The same moment with an offset from UTC in whole minutes: a timestamp can hold no other."""
    offset = moment.utcoffset() or timedelta()
    return moment.astimezone(UTC) if offset % timedelta(minutes=1) else moment.replace(tzinfo=timezone(offset), fold=0)


def _written(value: Any) -> Any:
    match value:
        case Part():
            return value.to_dict()
        case tuple():
            return [at(index, _written, each) for index, each in enumerate(value)]
        case datetime():
            return msgspec.to_builtins(value)
        case _:
            return json_copy(value)
