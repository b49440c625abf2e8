"""Shape: one kind of value in a document: how it is read, how a declaration is written as it, and its JSON schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from math import inf
from pathlib import Path
from typing import Any

from changeover.documents.yaml_value import Reader, YamlValue
from changeover.errors import PackageError
from changeover.handoffs.json_value import json_copy

Importer = Callable[[str, str], Any]
"""Returns the object of this name in this module; raises ImportError."""


def no_imports(module: str, name: str) -> Any:
    """The default Importer: a document from elsewhere must not choose which Python code is loaded."""
    raise ImportError("this document may not name Python objects")


class Inexpressible(Exception):
    """A value that only code can express; the text says why."""


OMITTED = object()
"""What is written in place of a value that only code can express."""


@dataclass
class Scope:
    """What the values of one document may refer to, and the values of a team that only code can express."""

    importer: Importer = no_imports
    path_of: Callable[[Any], str] = lambda value: ""
    """The import path of a Python object, such as "desk_tools:refund"; empty if a document may not name it."""
    folder: Path | None = None
    """The folder from which the paths of skills count; None if a document may not name folders."""
    ids: Sequence[str] = ()
    tools: dict[str, Any] = field(default_factory=dict)
    """The declared tools and handoffs that agents name."""
    skills: dict[str, Any] = field(default_factory=dict)
    workflows: Sequence[str] = ()
    """The ids of workflows that subscriptions and schedules name."""
    left_out: list[str] = field(default_factory=list)
    """What cannot be written, each with its place and the reason."""
    place: str = ""
    """The path of the value that is being written."""

    @contextmanager
    def at(self, step: str) -> Iterator[None]:
        """Add a step to `place` while a part of the current value is written."""
        before, self.place = self.place, f"{self.place}{step}"
        yield
        self.place = before

    def written(self, step: str, shape: Shape, value: Any) -> Any:
        """A part of the current value as a document has it; OMITTED, with a note, if only code can express it."""
        with self.at(step):
            try:
                return shape.write(value, self)
            except Inexpressible as reason:
                self.left_out.append(f"{self.place.lstrip('.')}: {reason}")
                return OMITTED

    def imported(self, value: YamlValue) -> Any:
        """The Python object whose import path this value is."""
        path = value.text()
        module, name = split_path(path)
        if not module or not name:
            raise value.error(f"expected an import path, such as package.module:function, found {path!r}")
        try:
            return self.importer(module, name)
        except ImportError as error:
            raise value.error(f"{path} cannot be imported: {error}") from error


def split_path(path: str) -> tuple[str, str]:
    """The module and the name in an import path: "package.module:name", or with a dot."""
    module, colon, name = path.rpartition(":")
    if not colon:
        module, _, name = path.rpartition(".")
    return module, name


@dataclass(frozen=True)
class Shape:
    """One kind of value. `write` raises Inexpressible for a value that only code can express."""

    read: Callable[[YamlValue, Scope], Any]
    write: Callable[[Any, Scope], Any]
    schema: Mapping[str, Any]

    def needing(self, faults: Callable[[Any], Iterable[str]]) -> Shape:
        """The same shape, which refuses values that have faults."""

        def read(value: YamlValue, scope: Scope) -> Any:
            value.check(faults(found := self.read(value, scope)))
            return found

        return replace(self, read=read)


def scalar(reader: Reader, kinds: type | tuple[type, ...], schema: Mapping[str, Any]) -> Shape:
    """Values that JSON has a type for."""

    def write(value: Any, scope: Scope) -> Any:
        if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
            raise Inexpressible(f"a document cannot hold a value of type {type(value).__name__} here")
        return _plain(value)

    return Shape(lambda value, scope: reader(value), write, schema)


def _plain(value: Any) -> Any:
    """The value as JSON has it."""
    try:
        return json_copy(value)
    except PackageError as error:
        raise Inexpressible(f"{error.path} {error.problem}") from error


def _above_0(value: YamlValue) -> float:
    if not 0 < (seconds := value.seconds()) < inf:
        raise value.error(f"expected seconds above 0, or null for no limit, found {seconds:g}")
    return seconds


def _positive(value: YamlValue) -> int:
    if (number := value.integer()) < 1:
        raise value.error(f"expected a whole number above 0, found {number}")
    return number


def _json(value: YamlValue) -> Any:
    try:
        return json_copy(value.raw())
    except PackageError as error:
        raise value.error(f"expected what JSON can hold, and {error.path} {error.problem}") from error


TEXT = scalar(YamlValue.text, str, {"type": "string"})
FLAG = scalar(YamlValue.boolean, bool, {"type": "boolean"})
WHOLE = scalar(YamlValue.integer, int, {"type": "integer"})
COUNT = scalar(_positive, int, {"type": "integer", "minimum": 1})
NUMBER = scalar(YamlValue.number, (int, float), {"type": "number"})
SECONDS = scalar(YamlValue.seconds, (int, float), {"type": "number"})
TIMEOUT = scalar(_above_0, (int, float), {"type": "number", "exclusiveMinimum": 0})
JSON = Shape(lambda value, scope: _json(value), lambda value, scope: _plain(value), {})


def closed(properties: Mapping[str, Any], required: Sequence[str] = ()) -> dict[str, Any]:
    """The JSON schema of an object with these properties and no others."""
    schema = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    return {**schema, "required": list(required)} if required else schema


def choice(*names: str) -> Shape:
    """One of these words."""
    return scalar(lambda value: value.one_of(*names), str, {"enum": list(names)})


def optional(shape: Shape) -> Shape:
    """A value, or null."""
    return Shape(
        lambda value, scope: None if value.is_null() else shape.read(value, scope),
        lambda value, scope: None if value is None else shape.write(value, scope),
        {"anyOf": [shape.schema, {"type": "null"}]},
    )


Check = Callable[[Any, Sequence[Any], Scope], Iterable[str]]
"""Returns the faults of a value of a list; it also gets the values before it that have none."""


def list_of(shape: Shape, expected: str, check: Check = lambda value, before, scope: ()) -> Shape:
    """A list of such values."""

    def write(values: Any, scope: Scope) -> list[Any]:
        if isinstance(values, str | type) or not isinstance(values, Sequence):
            raise Inexpressible(f"a document cannot hold a value of type {type(values).__name__} here")
        found = [scope.written(f"[{index}]", shape, each) for index, each in enumerate(values)]
        return [each for each in found if each is not OMITTED]

    def read(value: YamlValue, scope: Scope) -> tuple[Any, ...]:
        sound: list[Any] = []

        def one(item: YamlValue) -> Any:
            found = shape.read(item, scope)
            item.check(check(found, sound, scope))
            sound.append(found)
            return found

        return tuple(value.each(one, expected))

    return Shape(read, write, {"type": "array", "items": shape.schema})


def map_of(shape: Shape, expected: str) -> Shape:
    """A mapping of names to such values."""

    def read(value: YamlValue, scope: Scope) -> dict[str, Any]:
        return value.mapping(expected, dict.fromkeys(value.by_name(expected), lambda each: shape.read(each, scope)))

    def write(values: Any, scope: Scope) -> dict[str, Any]:
        found = {name: scope.written(f".{name}", shape, each) for name, each in values.items()}
        return {name: each for name, each in found.items() if each is not OMITTED}

    return Shape(read, write, {"type": "object", "additionalProperties": shape.schema})


TEXTS = list_of(TEXT, "a list of texts")
TEXT_MAP = map_of(TEXT, "a mapping of names to texts")


def _read_function(value: YamlValue, scope: Scope) -> Any:
    if not callable(found := scope.imported(value)):
        raise value.error(f"expected a function, and {value.text()} is of type {type(found).__name__}")
    return found


def _write_path(value: Any, scope: Scope) -> str:
    if path := scope.path_of(value):
        return path
    name = getattr(value, "__qualname__", None) or f"of type {type(value).__name__}"
    raise Inexpressible(f"{name} is Python code that no module listed in tool_modules defines")


FUNCTION = Shape(
    _read_function,
    _write_path,
    {"type": "string", "description": "A function: package.module:name of a listed module."},
)


def _read_id(value: YamlValue, scope: Scope) -> str:
    if (id := value.text()) not in scope.ids:
        close = get_close_matches(id, scope.ids, 1)
        meant = f"; did you mean {close[0]!r}?" if close else ""
        raise value.error(f"expected the id of an agent ({', '.join(scope.ids)}), found {id!r}{meant}")
    return id


ID = Shape(_read_id, TEXT.write, {"type": "string", "description": "The id of an agent."})
IDS = list_of(ID, "a list of ids")


def _read_text_or_function(value: YamlValue, scope: Scope) -> Any:
    if not value.is_mapping():
        return value.text()
    readers: dict[str, Reader] = {"function": lambda path: _read_function(path, scope)}
    return value.mapping("a text, or a mapping with 'function'", readers, ("function",))["function"]


def _write_text_or_function(value: Any, scope: Scope) -> Any:
    return TEXT.write(value, scope) if isinstance(value, str) else {"function": _write_path(value, scope)}


TEXT_OR_FUNCTION = Shape(
    _read_text_or_function,
    _write_text_or_function,
    {"anyOf": [{"type": "string"}, closed({"function": FUNCTION.schema}, ("function",))]},
)
