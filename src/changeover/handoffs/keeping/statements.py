"""What a message states, piece by piece: its sentences, its lines, the fields of its JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from changeover.messages import Assistant, Message, User, with_labels

FIELDS = 240
"""Fields of one object stand together as long as they are not longer than this."""
NAME = 60
"""A key that is longer is text, and names nothing."""

# A line that was broken in the middle of a sentence: it is long, and the next one goes on in small letters.
WRAPPED = re.compile(r"(?<=[^\n]{39}[a-z,;])\r?\n(?=[a-z(])")
BULLET = re.compile(r"\s*(?:[-*+•>#]+|\(?\d{1,2}[.)])\s+")
# A full stop ends a sentence unless it belongs to a short form, or to dots after which a text goes on.
SENTENCE = re.compile(
    r"[.!?…](?<!\b(?:No|no|Nr|nr|Mr|Ms|Dr|St|vs|ca|cf)\.)(?<!\b(?:Mrs|etc|Inc|Ltd|e\.g|i\.e|fig|Fig|ref|Ref|tel|Tel|est)\.)"
    r"(?<!\b(?:incl|excl|Dept|dept)\.)(?<!approx\.)(?:[\"'”\u2019)\]*_]{0,3}\s+(?![a-z])|(?<=\w{3}.)\s+)|[。\uff01\uff1f]"
)


class Statement(Struct, frozen=True, gc=False):
    """A sentence, a line or some fields, and whose they are."""

    author: str
    text: str


def statements(message: Message) -> Iterator[Statement]:
    """What a message states, in its order; no text has line ends or needless blanks."""
    said = with_labels(message.text, message.files) if isinstance(message, User) else message.text
    for text in _stated(said):
        yield Statement(message.author, text)
    if isinstance(message, Assistant):
        for call in message.calls:
            for text in _stated(call.args):
                yield Statement(f"{message.agent} called {call.name}", text)


def _stated(value: Any) -> Iterator[str]:
    """The sentences of a text, or of what JSON holds the fields, those of one object together, from the top down."""
    # A stack and no recursion: whoever wrote the value says how deep it is.
    waiting = [("", _opened(value))]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, str):
            yield from _sentences(value)
            continue
        members = [(name, _opened(held)) for name, held in _members(path, value)]
        yield from _together(_field(name, held) for name, held in members if _flat(held) and held not in (None, ""))
        waiting += reversed([member for member in members if not _flat(member[1])])


def _opened(value: Any) -> Any:
    """What a text holds if it is an object or an array; figures stay as they were written."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value, parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        return value


def _members(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict):
        return ((path, held) for held in value)
    within = path.rpartition(".")[2]
    return ((_name(f"{within}.{key}" if within else str(key)), held) for key, held in value.items())


def _name(path: str) -> str:
    return " ".join(path.split()) if len(path) <= NAME else ""


def _field(name: str, value: Any) -> str:
    return f"{name}: {_shown(value)}" if name else _shown(value)


def _flat(value: Any) -> bool:
    """Whether a value is told in a field of its object, and not for itself."""
    return not isinstance(value, dict | list) and not (isinstance(value, str) and len(value) > FIELDS)


def _shown(value: Any) -> str:
    match value:
        case str():
            return " ".join(value.split())
        case bool():
            return "true" if value else "false"
        case int() if abs(value) >= 10**FIELDS:
            return "a number beyond all bounds"
        case _:
            return repr(value)


def _together(fields: Iterable[str]) -> Iterator[str]:
    """The fields in as few pieces as their length allows."""
    piece = ""
    for field in fields:
        if piece and len(piece) + len(field) > FIELDS:
            yield piece
            piece = ""
        piece += f", {field}" if piece else field
    if piece:
        yield piece


def _sentences(text: str) -> Iterator[str]:
    for line in WRAPPED.sub(" ", text).splitlines():
        bullet = BULLET.match(line)
        start = bullet.end() if bullet else 0
        for end in (*(found.end() for found in SENTENCE.finditer(line, start)), len(line)):
            if piece := " ".join(line[start:end].split()):
                yield piece
            start = end
