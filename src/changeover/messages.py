"""Messages that models read and write; each has an author."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar, overload
from unicodedata import category

from msgspec import Struct, field
from msgspec.structs import replace

from changeover.copies import copy_of
from changeover.facts import ONE_REQUEST, Usage

PLAIN = re.compile(r"[\w.@+/-]+")
CONTROLS = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories of characters that end a line, turn its direction, or cannot be seen."""
LABEL = 80
"""Number of characters of a name that are shown."""


def inline(text: str, longest: int = LABEL) -> str:
    """Text from outside, for use inside a line of ours: unchanged if it is a plain name, else quoted, on one line, and
    cut after `longest` characters."""
    if len(text) <= longest and PLAIN.fullmatch(text):
        return text
    shown = text if len(text) <= longest else f"{text[:longest]}…"
    return "".join(map(_visible, json.dumps(shown, ensure_ascii=False)))


def _visible(character: str) -> str:
    return f"\\u{ord(character):04x}" if category(character) in CONTROLS else character


def is_text(media_type: str) -> bool:
    """True if files of this type are text."""
    return media_type.startswith("text/") or media_type.endswith(("json", "xml", "yaml", "toml"))


T_co = TypeVar("T_co", covariant=True)


class Call(Struct, frozen=True, omit_defaults=True, gc=False):
    """A function call that a model wrote."""

    id: str
    name: str
    args: dict[str, Any] = field(default_factory=dict)
    malformed: str = ""
    """The text that the model wrote, if it is not a JSON object of arguments."""


class File(Struct, frozen=True, omit_defaults=True, gc=False):
    """An image or another file that a user attaches: its `data`, or the `url` where it can be read."""

    data: bytes = b""
    media_type: str = ""
    """Such as "image/png"."""
    name: str = ""
    """The name of the file, for people and models."""
    url: str = ""

    @property
    def label(self) -> str:
        """The file in text, for people and for models that cannot read it."""
        named = self.name or self.url
        return f"[{inline(named, 2 * LABEL) if named else 'a file'} ({inline(self.media_type)})]"

    @property
    def text(self) -> str:
        """The content of a text file; empty for other files and for those at a URL."""
        return self.data.decode("utf-8", "replace") if is_text(self.media_type) else ""

    def __repr__(self) -> str:
        held = f"url={self.url!r}" if self.url else f"<{len(self.data)} bytes>"
        return f"File({held}, media_type={self.media_type!r}, name={self.name!r})"


class User(Struct, frozen=True, omit_defaults=True, gc=False, tag="user"):
    """A message of a user."""

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
    """Data that the model's provider needs back, such as signatures, under the provider's name."""

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
    files: tuple[File, ...] = ()
    """Images and other files of the result; the text names them."""

    @property
    def author(self) -> str:
        return self.name


class Note(Struct, frozen=True, omit_defaults=True, gc=False, tag="note"):
    """A remark of an agent, or of Changeover itself, for the agent that reads the thread next."""

    text: str
    author: str = "changeover"


Message = User | Assistant | ToolResult | Note


class Reply(Struct, frozen=True, kw_only=True):
    """The reply of a model: a text, calls, or both."""

    text: str = ""
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    usage: Usage = ONE_REQUEST
    extra: dict[str, Any] = field(default_factory=dict)
    """Data that the model's provider needs back with the next request: JSON, under the provider's name."""


def with_labels(text: str, files: Sequence[File]) -> str:
    """The text, followed by a line for each file."""
    return "\n".join([*([text] if text else ()), *(file.label for file in files)])


def with_texts(message: Message, replaced: Mapping[str, str]) -> Message:
    """The message with these texts replaced, also where an agent wrote them into the arguments of a call."""
    text = _with_texts(message.text, replaced)
    if not isinstance(message, Assistant):
        return message if text == message.text else replace(message, text=text)
    calls = tuple(
        replace(call, args=_with_texts(call.args, replaced), malformed=_with_texts(call.malformed, replaced))
        for call in message.calls
    )
    return message if text == message.text and calls == message.calls else replace(message, text=text, calls=calls)


def _with_texts(value: Any, replaced: Mapping[str, str]) -> Any:
    match value:
        case str():
            for old, new in replaced.items():
                value = value.replace(old, new) if old else value
            return value
        case dict():
            return {name: _with_texts(each, replaced) for name, each in value.items()}
        case list():
            return [_with_texts(each, replaced) for each in value]
        case _:
            return value


def copied_messages(messages: Sequence[Any]) -> list[Any]:
    """The messages with copies of what code could change in them: the arguments of calls, and providers' data."""
    return [_copied(each) for each in messages]


def _copied(message: Any) -> Any:
    if not isinstance(message, Assistant) or not (message.calls or message.extra):
        return message
    calls = tuple(replace(call, args=copy_of(call.args)) for call in message.calls)
    return replace(message, calls=calls, extra=copy_of(message.extra))


def own_messages(messages: Sequence[Message]) -> Sequence[Message]:
    """The messages for code that may change what it reads; a view copies each message when it is read."""
    return messages.copies() if isinstance(messages, View) else copied_messages(messages)


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
        # Not islice over the live list: it may grow during the iteration.
        return (self._items[i] for i in range(self._length))

    def copies(self) -> View[T_co]:
        """The same view for code that may change what it reads."""
        return _Copies(self._items, self._length)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, View | list | tuple) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))


class _Copies(View[T_co]):
    """A view whose readers get a copy of each message."""

    __slots__ = ()

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> list[T_co]: ...
    def __getitem__(self, index: int | slice) -> Any:
        found = super().__getitem__(index)
        return copied_messages(found) if isinstance(found, list) else _copied(found)

    def __iter__(self) -> Iterator[T_co]:
        return map(_copied, super().__iter__())
