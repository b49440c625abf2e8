"""YAML values with line and column: typed readers whose errors say where and what was expected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import yaml
from yaml import MappingNode, Node, ScalarNode, SequenceNode

from changeover.cli.exits import Mistake

T = TypeVar("T")
Read = Callable[["Place"], Any]

MERGE = "tag:yaml.org,2002:merge"
WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false", type(None): "nothing"}


class Place:
    """A value in a YAML file."""

    def __init__(self, file: Path, node: Node, loader: yaml.SafeLoader) -> None:
        self._file, self._node, self._loader = file, node, loader

    def wrong(self, fault: str) -> Mistake:
        """What is wrong here."""
        mark = self._node.start_mark
        return Mistake(f"{self._file}, line {mark.line + 1}, column {mark.column + 1}: {fault}")

    def text(self) -> str:
        return self._scalar(str, "text; put it in quotes if it looks like something else")

    def number(self, of: str = "") -> float:
        """A number, whole or not."""
        value = self.anything()
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.wrong(f"expected a number{of}, found {value!r}")
        return float(value)

    def seconds(self) -> float:
        """A number of seconds."""
        return self.number(" of seconds")

    def texts(self, expected: str = "a list of texts") -> tuple[str, ...]:
        """A list of texts."""
        return tuple(each.text() for each in self.items(expected))

    def whole(self) -> int:
        return self._scalar(int, "a whole number")

    def flag(self) -> bool:
        return self._scalar(bool, "true or false")

    def anything(self) -> Any:
        """The value as YAML has it."""
        return self._made(lambda: self._loader.construct_object(self._node, deep=True))

    def one_of(self, *texts: str) -> str:
        text = self.text()
        if text not in texts:
            raise self.wrong(f"expected {' or '.join(texts)}, found {text!r}")
        return text

    def items(self, expected: str) -> list[Place]:
        """The values of a list."""
        if not isinstance(self._node, SequenceNode):
            raise self.wrong(f"expected {expected}, found {self._kind()}")
        return [self._at(node) for node in self._node.value]

    def is_mapping(self) -> bool:
        return isinstance(self._node, MappingNode)

    def is_list(self) -> bool:
        return isinstance(self._node, SequenceNode)

    def mapping(self, expected: str, known: Mapping[str, Read], needed: tuple[str, ...] = ()) -> dict[str, Any]:
        """The values of a mapping by its keys, each read as its key says."""
        return {key: known[key](place) for key, place in self.entries(expected, known, needed).items()}

    def entries(self, expected: str, known: Mapping[str, Any], needed: tuple[str, ...] = ()) -> dict[str, Place]:
        """The places of a mapping's values by its keys, of which there may be no others than these."""
        if not isinstance(self._node, MappingNode):
            raise self.wrong(f"expected {expected}, found {self._kind()}")
        found: dict[str, Place] = {}
        for node, value in self._pairs(self._node):
            place = self._at(node)
            key = place.text()
            if key not in known:
                raise place.wrong(_unknown(key, known))
            if key in found:
                raise place.wrong(f"{key!r} stands here twice")
            found[key] = self._at(value)
        if missing := [key for key in needed if key not in found]:
            raise self.wrong(f"expected {expected}, and {missing[0]!r} is missing")
        return found

    def _pairs(self, node: MappingNode) -> list[tuple[Node, Node]]:
        """Keys and values; what was merged in by `<<` gives way to what stands here."""
        if any(key.tag == MERGE for key, _ in node.value):
            self._made(lambda: self._loader.flatten_mapping(node))
            node.value = list({str(key.value): (key, value) for key, value in node.value}.values())
        pairs: list[tuple[Node, Node]] = node.value
        return pairs

    def _made(self, make: Callable[[], T]) -> T:
        """What the loader makes of what stands here; raises Mistake if that is nothing."""
        try:
            return make()
        except yaml.MarkedYAMLError as error:
            raise Mistake(_broken(self._file, error)) from error
        except (ValueError, RecursionError) as error:  # a day that no month has, or what holds itself
            raise self.wrong(f"it cannot be read: {error}") from error

    def _at(self, node: Node) -> Place:
        return Place(self._file, node, self._loader)

    def _scalar(self, kind: type[T], expected: str) -> T:
        value = self.anything() if isinstance(self._node, ScalarNode) else None
        if type(value) is not kind:
            raise self.wrong(f"expected {expected}; found {self._kind()}")
        return value

    def _kind(self) -> str:
        if isinstance(self._node, MappingNode):
            return "a mapping"
        if isinstance(self._node, SequenceNode):
            return "a list"
        value = self.anything()
        return f"{WORDS.get(type(value), type(value).__name__)}{'' if value is None else f' ({value!r})'}"


def read_yaml(file: Path) -> Place:
    """The one document of a YAML file; raises Mistake."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise Mistake(f"there is no file {file}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise Mistake(f"{file} cannot be read: {error}") from error
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        raise Mistake(_broken(file, error)) from error
    except yaml.YAMLError as error:
        raise Mistake(f"{file} is no YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise Mistake(f"{file} is nested too deeply to be read") from error
    if node is None:
        raise Mistake(f"{file} is empty; expected a mapping with agents")
    return Place(file, node, loader)


def _broken(file: Path, error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    return f"{file}{where}: {' '.join(part for part in (error.context, error.problem) if part)}"


def _unknown(key: str, known: Mapping[str, Any]) -> str:
    close = get_close_matches(key, known, 1)
    meant = f"did you mean {close[0]!r}? " if close else ""
    return f"{key!r} is not known here; {meant}expected one of: {', '.join(sorted(known))}"
