"""Record: a mapping of a document with known keys, which become the parameters of a declaration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeVar

from changeover.documents.shape import OMITTED, Inexpressible, Scope, Shape, closed
from changeover.documents.yaml_value import DocumentError, Reader, YamlValue, joined, read_each

T = TypeVar("T")


@dataclass(frozen=True)
class Field:
    """One key of a mapping."""

    shape: Shape
    about: str = ""
    """What editors and the reference show of it."""
    parameter: str = ""
    """The name in code, if it is another than the key."""

    @property
    def schema(self) -> dict[str, Any]:
        return {**self.shape.schema, "description": self.about} if self.about else dict(self.shape.schema)


@dataclass(frozen=True)
class Record:
    """A mapping with these keys; those that are `needed` come first in errors and in code."""

    expected: str
    """What the mapping is, in words for errors: "an agent with an id"."""
    fields: Mapping[str, Field]
    needed: tuple[str, ...] = ()

    def values(self, value: YamlValue, scope: Scope) -> dict[str, Any]:
        """The values of a mapping, by the names of parameters; only those that it gives."""
        readers = {key: _reader(field, scope) for key, field in self.fields.items()}
        found = value.mapping(self.expected, readers, self.needed)
        return {self.parameter(key): each for key, each in found.items()}

    def made(
        self,
        value: YamlValue,
        scope: Scope,
        make: Callable[[dict[str, Any]], T],
        faults: Callable[[T], Iterable[str | DocumentError]],
    ) -> T:
        """The declaration that `make` builds from the values of a mapping. Wrong keys and the faults of the declaration
        are reported together, unless a value is missing or cannot be read."""
        found, wrong = value.look(self.expected, self.fields, self.needed)
        readers = {self.parameter(key): partial(_reader(self.fields[key], scope), each) for key, each in found.items()}
        values, unread = read_each(readers)
        if unread or any(key not in found for key in self.needed):
            raise joined([*wrong, *unread])
        try:
            built = make(values)
        except DocumentError as error:
            raise joined([*wrong, error]) from error
        value.check(faults(built), wrong)
        return built

    def document(self, declared: Any, blank: Any, scope: Scope) -> dict[str, Any]:
        """The mapping of a declaration, without values that equal those of `blank`, which has needed values only."""
        found = {}
        for key, field in self.fields.items():
            value = getattr(declared, self.parameter(key))
            if key in self.needed or not _same(value, getattr(blank, self.parameter(key))):
                found[key] = scope.written(f".{key}", field.shape, value)
        return {key: value for key, value in found.items() if value is not OMITTED}

    def parameter(self, key: str) -> str:
        """The name in code of this key."""
        return self.fields[key].parameter or key

    def named(self, key: str, field: Field) -> Record:
        """The same mapping with its name in it, as it stands in a list."""
        return Record(self.expected, {key: field, **self.fields}, (key, *self.needed))

    def without(self, *keys: str) -> Record:
        """The same mapping without these keys."""
        fields = {key: field for key, field in self.fields.items() if key not in keys}
        return Record(self.expected, fields, tuple(key for key in self.needed if key not in keys))

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the mapping."""
        return closed({key: field.schema for key, field in self.fields.items()}, self.needed)

    def shape(self, make: Callable[..., Any], faults: Callable[[Any], Sequence[str]] | None = None) -> Shape:
        """The shape of values that `make` builds from such a mapping."""

        def write(declared: Any, scope: Scope) -> dict[str, Any]:
            blank = make(**{self.parameter(key): getattr(declared, self.parameter(key)) for key in self.needed})
            if type(declared) is not type(blank):
                raise Inexpressible(f"a document cannot hold a value of type {type(declared).__name__} here")
            return self.document(declared, blank, scope)

        def read(value: YamlValue, scope: Scope) -> Any:
            return self.made(value, scope, lambda given: make(**given), faults or (lambda made: ()))

        return Shape(read, write, self.schema)


def _reader(field: Field, scope: Scope) -> Reader:
    return lambda value: field.shape.read(value, scope)


def _same(one: Any, other: Any) -> bool:
    """True if two values are equal; sequences are equal whatever their type."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return list(one) == list(other)
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def one_of(expected: str, choices: Mapping[str, Shape], key_of: Callable[[Any], str]) -> Shape:
    """A mapping with one key, which says how its value is read: `{recent: {messages: 3}}`."""

    def read(value: YamlValue, scope: Scope) -> Any:
        found = value.entries(expected, choices)
        if len(found) != 1:
            raise value.error(f"expected one of {', '.join(choices)}, found {len(found)}")
        [(name, inner)] = found.items()
        return choices[name].read(inner, scope)

    def write(declared: Any, scope: Scope) -> dict[str, Any]:
        if (name := key_of(declared)) not in choices:
            raise Inexpressible(f"{type(declared).__name__} is Python code")
        return {name: choices[name].write(declared, scope)}

    return Shape(read, write, {"anyOf": [closed({name: shape.schema}, (name,)) for name, shape in choices.items()]})
