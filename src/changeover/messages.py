"""What models read and write. Every message knows its author."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

from msgspec import Struct, field

from changeover.facts import ONE_REQUEST, Usage

T_co = TypeVar("T_co", covariant=True)


class Call(Struct, frozen=True, omit_defaults=True, gc=False):
    """A function call that a model wrote."""

    id: str
    name: str
    args: dict[str, Any] = field(default_factory=dict)
    malformed: str = ""
    """What the model wrote instead of an object of arguments."""


class File(Struct, frozen=True, omit_defaults=True, gc=False):
    """An image or another file that goes with what a user says: its bytes, or the address where they lie."""

    data: bytes = b""
    media_type: str = ""
    name: str = ""
    url: str = ""

    @property
    def label(self) -> str:
        """How people and models read of it."""
        return f"[{self.name or self.url or 'a file'} ({self.media_type})]"

    def __repr__(self) -> str:
        held = f"url={self.url!r}" if self.url else f"<{len(self.data)} bytes>"
        return f"File({held}, media_type={self.media_type!r}, name={self.name!r})"


class User(Struct, frozen=True, omit_defaults=True, gc=False, tag="user"):
    """What a user said."""

    text: str
    author: str = "user"
    files: tuple[File, ...] = ()


class Assistant(Struct, frozen=True, omit_defaults=True, gc=False, tag="assistant"):
    """One reply of an agent."""

    agent: str
    text: str = ""
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)
    """What the model's provider needs back with it, under the provider's name; to everybody else it means nothing."""

    @property
    def author(self) -> str:
        return self.agent


class ToolResult(Struct, frozen=True, omit_defaults=True, gc=False, tag="tool"):
    """The answer to one call of an agent."""

    call: str
    name: str
    agent: str
    text: str
    ok: bool = True

    @property
    def author(self) -> str:
        return self.name


class Note(Struct, frozen=True, omit_defaults=True, gc=False, tag="note"):
    """What an agent, or Changeover itself, tells the agent that reads on."""

    text: str
    author: str = "changeover"


Message = User | Assistant | ToolResult | Note


class Reply(Struct, frozen=True, kw_only=True):
    """What a model answered: a text, calls, or both."""

    text: str = ""
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    usage: Usage = ONE_REQUEST
    extra: dict[str, Any] = field(default_factory=dict)
    """What the model's provider needs back with it: plain JSON, under the provider's name."""


def with_labels(text: str, files: Sequence[File]) -> str:
    """What was said, and below it what came with it."""
    return "\n".join([*([text] if text else ()), *(file.label for file in files)])


class View(Sequence[T_co], Generic[T_co]):
    """The first `length` items of a list that only grows: a snapshot that copies nothing."""

    __slots__ = ("_items", "_length")

    def __init__(self, items: list[T_co], length: int | None = None) -> None:
        self._items = items
        self._length = len(items) if length is None else length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> list[T_co]: ...
    def __getitem__(self, index: int | slice) -> T_co | list[T_co]:
        if isinstance(index, slice):
            return [self._items[i] for i in range(*index.indices(self._length))]
        if not -self._length <= index < self._length:
            raise IndexError(index)
        return self._items[index + self._length if index < 0 else index]

    def __iter__(self) -> Iterator[T_co]:
        # Not islice over the live list: it may grow while somebody still reads.
        return (self._items[i] for i in range(self._length))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, View | list | tuple) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))
