"""Values of a YAML document: typed readers whose errors give the line, the column and what was expected."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from io import StringIO
from typing import Any, TypeVar

import yaml
from yaml import MappingNode, Node, ScalarNode, SequenceNode

from changeover.errors import MisconfiguredError

K = TypeVar("K")
T = TypeVar("T")
Reader = Callable[["YamlValue"], Any]
"""Reads one value; raises DocumentError."""

MERGE = "tag:yaml.org,2002:merge"
KINDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false", type(None): "nothing"}


class DocumentError(MisconfiguredError):
    """A document that cannot be read: `source` names it; `line` and `column` count from 1, or are None.

    A document that is no text has neither: there the `path` says where the fault is, such as "agents.triage.tools[0]".
    """

    def __init__(self, source: str, fault: str, mark: yaml.Mark | None = None, path: str = "") -> None:
        self.source, self.path = source, path
        self.places: tuple[tuple[str, str], ...] = ((path, fault),)
        """The path of each fault, and the fault without it."""
        self.line = mark.line + 1 if mark else None
        self.column = mark.column + 1 if mark else None
        if mark:
            where = f"{source}, line {self.line}, column {self.column}: "
        else:
            where = f"{source}, {path}: " if path else f"{source} "
        super().__init__(f"{where}{fault}")


def joined(errors: Sequence[DocumentError]) -> DocumentError:
    """One error with all faults of a document, in the order of their lines, without duplicates."""
    ordered = sorted(errors, key=lambda error: (error.line or 0, error.column or 0))
    first = ordered[0]
    first.places = tuple(dict.fromkeys(place for error in ordered for place in error.places))
    first.faults = tuple(dict.fromkeys(fault for error in ordered for fault in error.faults))
    if len(first.faults) > 1:
        first.args = ("\n".join(f"- {fault}" for fault in first.faults),)
    return first


def read_all(readers: Mapping[K, Callable[[], T]], errors: Sequence[DocumentError] = ()) -> dict[K, T]:
    """What each reader gives; raises DocumentError with the faults of all of them, and with those found before."""
    found, faults = read_each(readers)
    if errors or faults:
        raise joined([*errors, *faults])
    return found


def read_each(readers: Mapping[K, Callable[[], T]]) -> tuple[dict[K, T], list[DocumentError]]:
    """What each reader gives, and the errors of those that failed."""
    found, faults = {}, []
    for key, read in readers.items():
        try:
            found[key] = read()
        except DocumentError as error:
            faults.append(error)
    return found, faults


PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


class _Loader(yaml.SafeLoader):
    """Reads JSON as it is meant: numbers such as 1e-7, and two escapes for one character outside the basic plane."""

    def construct_scalar(self, node: ScalarNode | MappingNode) -> Any:
        value = super().construct_scalar(node)
        if isinstance(value, str) and not value.isascii():
            return PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), value)
        return value


JSON_FLOAT = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?[eE][+-]?\d+\Z")
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", JSON_FLOAT, list("-0123456789"))


class YamlValue:
    """One value of a YAML document. Every reader raises DocumentError if the value has another type."""

    def __init__(self, source: str, node: Node, loader: yaml.SafeLoader, path: str = "") -> None:
        self._source, self._node, self._loader, self._path = source, node, loader, path

    def error(self, fault: str) -> DocumentError:
        """An error about this value, with its line and column, or with its path if the document is no text."""
        return DocumentError(self._source, fault, self._node.start_mark, self._path)

    def check(self, faults: Iterable[str | DocumentError], before: Sequence[DocumentError] = ()) -> None:
        """Raise one DocumentError if there are faults of this value or of its parts, or others that were found
        before."""
        if found := [*before, *(self.error(each) if isinstance(each, str) else each for each in faults)]:
            raise joined(found)

    def text(self) -> str:
        return self._scalar(str, "text; put it in quotes if it looks like something else")

    def integer(self) -> int:
        return self._scalar(int, "a whole number")

    def boolean(self) -> bool:
        return self._scalar(bool, "true or false")

    def number(self, unit: str = "") -> float:
        """A number, whole or not."""
        value = self.raw()
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.error(f"expected a number{unit}, found {value!r}")
        return float(value)

    def seconds(self) -> float:
        return self.number(" of seconds")

    def texts(self, expected: str = "a list of texts") -> tuple[str, ...]:
        return tuple(self.each(YamlValue.text, expected))

    def each(self, read: Callable[[YamlValue], T], expected: str) -> list[T]:
        """What a reader gives for each value of a list."""
        return [*read_all({index: partial(read, item) for index, item in enumerate(self.items(expected))}).values()]

    def raw(self) -> Any:
        """The value as PyYAML constructs it."""
        return self._constructed(lambda: self._loader.construct_object(self._node, deep=True))

    def one_of(self, *texts: str) -> str:
        text = self.text()
        if text not in texts:
            raise self.error(f"expected {' or '.join(texts)}, found {text!r}")
        return text

    def items(self, expected: str) -> list[YamlValue]:
        """The values of a list."""
        if not isinstance(self._node, SequenceNode):
            raise self.error(f"expected {expected}, found {self._kind()}")
        return [self._at(node, f"{self._path}[{index}]") for index, node in enumerate(self._node.value)]

    def is_null(self) -> bool:
        return isinstance(self._node, ScalarNode) and self.raw() is None

    def is_mapping(self) -> bool:
        return isinstance(self._node, MappingNode)

    def is_list(self) -> bool:
        return isinstance(self._node, SequenceNode)

    def peek(self, key: str) -> Any:
        """The raw value under this key of a mapping; None if there is none, or this is no mapping."""
        pairs = self._pairs(self._node) if isinstance(self._node, MappingNode) else []
        found = [self._at(value) for node, value in pairs if node.value == key]
        return found[0].raw() if found else None

    def without(self, *keys: str) -> YamlValue:
        """The same mapping without these keys."""
        assert isinstance(self._node, MappingNode)
        others = [(key, value) for key, value in self._pairs(self._node) if key.value not in keys]
        node = MappingNode(self._node.tag, others, self._node.start_mark, self._node.end_mark)
        return YamlValue(self._source, node, self._loader, self._path)

    def entry(self, key: str, expected: str) -> YamlValue:
        """The value under this key of a mapping, whatever other keys it has."""
        known = dict.fromkeys(self._keys()) if self.is_mapping() else {}
        return self.entries(expected, {key: None, **known}, (key,))[key]

    def by_name(self, expected: str) -> dict[str, YamlValue]:
        """The values of a mapping whose keys are names of the user's choice."""
        names = dict.fromkeys(self._keys()) if self.is_mapping() else {}
        return self.entries(expected, names)

    def _keys(self) -> list[str]:
        assert isinstance(self._node, MappingNode)
        return [
            *read_all({place: self._at(node).text for place, (node, _) in enumerate(self._pairs(self._node))}).values()
        ]

    def mapping(self, expected: str, readers: Mapping[str, Reader], needed: tuple[str, ...] = ()) -> dict[str, Any]:
        """A mapping whose values are read by the reader of their key."""
        found, faults = self.look(expected, readers, needed)
        return read_all({key: partial(readers[key], value) for key, value in found.items()}, faults)

    def entries(self, expected: str, known: Mapping[str, Any], needed: tuple[str, ...] = ()) -> dict[str, YamlValue]:
        """The values of a mapping by key, unread; every key must be one of `known`, and all of `needed` be there."""
        found, faults = self.look(expected, known, needed)
        if faults:
            raise joined(faults)
        return found

    def look(
        self, expected: str, known: Mapping[str, Any], needed: tuple[str, ...] = ()
    ) -> tuple[dict[str, YamlValue], list[DocumentError]]:
        """The values of a mapping by key, unread, and the faults of its keys; raises if it is no mapping."""
        if not isinstance(self._node, MappingNode):
            raise self.error(f"expected {expected}, found {self._kind()}")
        found: dict[str, YamlValue] = {}
        faults = []
        for node, value in self._pairs(self._node):
            key = (at_key := self._at(node)).text()
            if key not in known:
                faults.append(at_key.error(_unknown(key, known)))
            elif key in found:
                faults.append(at_key.error(f"{key!r} is given twice"))
            else:
                found[key] = self._at(value, f"{self._path}.{key}" if self._path else key)
        if missing := [key for key in needed if key not in found]:
            faults.append(self.error(f"expected {expected}, and {missing[0]!r} is missing"))
        return found, faults

    def _pairs(self, node: MappingNode) -> list[tuple[Node, Node]]:
        """Keys and values; an own key overrides a key merged in by `<<`."""
        if any(key.tag == MERGE for key, _ in node.value):
            self._constructed(lambda: self._loader.flatten_mapping(node))
            node.value = list({str(key.value): (key, value) for key, value in node.value}.values())
        pairs: list[tuple[Node, Node]] = node.value
        return pairs

    def _constructed(self, construct: Callable[[], T]) -> T:
        """The result of the loader; its exceptions become DocumentError."""
        try:
            return construct()
        except yaml.MarkedYAMLError as error:
            raise _syntax_error(self._source, error) from error
        except (ValueError, RecursionError) as error:  # the 30th of February, or a mapping that contains itself
            raise self.error(f"the value cannot be read: {error}") from error

    def _at(self, node: Node, path: str = "") -> YamlValue:
        return YamlValue(self._source, node, self._loader, path or self._path)

    def _scalar(self, kind: type[T], expected: str) -> T:
        value = self.raw() if isinstance(self._node, ScalarNode) else None
        if type(value) is not kind:
            raise self.error(f"expected {expected}; found {self._kind()}")
        return value

    def _kind(self) -> str:
        if isinstance(self._node, MappingNode):
            return "a mapping"
        if isinstance(self._node, SequenceNode):
            return "a list"
        value = self.raw()
        return f"{KINDS.get(type(value), type(value).__name__)}{'' if value is None else f' ({value!r})'}"


def parse_yaml(text: str, source: str) -> YamlValue:
    """The only document of this text; `source` names it in errors. Raises DocumentError."""
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(source, error) from error
    except yaml.YAMLError as error:
        raise DocumentError(source, f"is not valid YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise DocumentError(source, "is nested too deeply") from error
    if node is None:
        raise DocumentError(source, "is empty; expected a mapping with agents")
    return YamlValue(source, node, loader)


def as_yaml(value: Any, source: str) -> YamlValue:
    """A JSON value as if it had been read from a text: its errors give paths in place of lines."""
    return YamlValue(source, yaml.SafeDumper(StringIO(), sort_keys=False).represent_data(value), _Loader(""))


class _Dumper(yaml.SafeDumper):
    """Writes texts with several lines as blocks, and every value where it stands, without anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, text: str) -> Node:
        is_block = "\n" in text.strip("\n") and text == text.strip() + "\n" * text.endswith("\n")
        return self.represent_scalar("tag:yaml.org,2002:str", text, style="|" if is_block else None)


_Dumper.add_representer(str, _Dumper.represent_text)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", JSON_FLOAT, list("-0123456789"))


def to_yaml(value: Any) -> str:
    """A JSON value as YAML for people."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    return text


def _syntax_error(source: str, error: yaml.MarkedYAMLError) -> DocumentError:
    fault = " ".join(part for part in (error.context, error.problem) if part)
    return DocumentError(source, fault, error.problem_mark or error.context_mark)


def _unknown(key: str, known: Mapping[str, Any]) -> str:
    close = get_close_matches(key, known, 1)
    suggestion = f"did you mean {close[0]!r}? " if close else ""
    return f"{key!r} is not known here; {suggestion}expected one of: {', '.join(sorted(known))}"
