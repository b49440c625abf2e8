"""Copies of recorded values for user code, so that its changes reach neither the run nor the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class FrozenDict(dict[K, V]):
    """A dict that cannot be changed, for fields of declarations; unlike a MappingProxyType it can be copied, pickled,
    and read by `dataclasses.asdict`."""

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("a declaration cannot be changed; make another with dataclasses.replace")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> Any:
        return type(self), (dict(self),)


def copy_of(value: Any) -> Any:
    """A copy of the dicts, lists and tuples in a JSON value; everything else is shared."""
    if isinstance(value, dict):
        return {name: copy_of(each) for name, each in value.items()}
    if isinstance(value, list):
        return [copy_of(each) for each in value]
    return tuple(map(copy_of, value)) if type(value) is tuple else value


def copied(*fields: str, copy: Callable[..., Any] = copy_of, beside: str | None = None) -> Callable[[type[T]], type[T]]:
    """Class decorator for structs: each of these fields reads as a copy; `original` gives the value itself.

    The copy is made when the field is read. A struct with a `__dict__` keeps the first copy; others copy each time.
    `copy` gets the value, and as its second argument the field `beside` of the struct if one is named.
    """

    def decorate(struct: type[T]) -> type[T]:
        for field in fields:
            setattr(struct, field, _Copied(field, getattr(struct, field), copy, beside))
        return struct

    return decorate


def original(record: object, field: str) -> Any:
    """The value of a field for readers that change nothing, without the cost of a copy."""
    return getattr(type(record), field).read(record)


class _Copied:
    """The descriptor of a field whose readers get a copy. It is not a data descriptor, so a copy in the `__dict__` of
    the record takes precedence over it."""

    def __init__(self, field: str, slot: Any, copy: Callable[..., Any], beside: str | None) -> None:
        self._field, self.read, self._copy, self._beside = field, slot.__get__, copy, beside

    def __get__(self, record: Any, owner: type | None = None) -> Any:
        if record is None:
            return self
        more = () if self._beside is None else (getattr(record, self._beside),)
        copy = self._copy(self.read(record), *more)
        kept = getattr(record, "__dict__", None)
        if kept is not None:
            kept[self._field] = copy
        return copy
