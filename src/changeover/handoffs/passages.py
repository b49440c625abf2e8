"""Passages: messages and files, divided by their structure into labelled texts that can be quoted and searched."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, assert_never

from changeover.messages import Assistant, Message, Note, ToolResult, User, inline, with_labels

PIECE = 240
"""Number of characters of a statement; a longer one is divided."""
PASSAGE = 480
"""Number of characters up to which the statements of one text are one passage."""
PATH = 60
"""Number of characters of a path in JSON that are shown."""

# A line break inside a sentence: the line is long, and the next one begins with a lowercase letter or a bracket.
WRAPPED = r"(?<=[^\n]{39}[a-zß-ÿ,;])\r?\n(?=[a-zß-ÿ(])"
# A word of one or two letters before a full stop is most often an abbreviation.
SENTENCE = r"(?<=\w{3})[.!?…]+[\"'”\u2019»)\]*_]*\s+|[。\uff01\uff1f]+[」』”\uff09]*"
CLAUSE = r"[,;:、\uff0c\uff1b]\s*"
WORD = r"\s+"


def items(message: Message) -> Iterator[tuple[str, str]]:
    """The texts of a message and of its calls, each with a label that says whose it is."""
    match message:
        case User():
            yield user_label(message.author), with_labels(message.text, message.files)
        case Assistant():
            yield inline(message.agent), message.text
            for call in message.calls:
                args = call.malformed or json.dumps(call.args, ensure_ascii=False, default=str)
                yield f"{inline(message.agent)} called {inline(call.name)}", args
        case ToolResult():
            yield f"{inline(message.name)} {'answered' if message.ok else 'failed'}", message.text
        case Note():
            yield inline(message.author), message.text
        case _:
            assert_never(message)


def user_label(author: str) -> str:
    """The label of a user, whose name cannot pass for that of an agent."""
    return author if author == "user" else f"user {inline(author)}"


def divided(text: str) -> Iterator[list[str]]:
    """The text in passages, each a list of statements; a short text is one passage."""
    passage: list[str] = []
    for statement in statements(text):
        if passage and sum(map(len, passage)) + len(statement) > PASSAGE:
            yield passage
            passage = []
        passage.append(statement)
    if passage:
        yield passage


def statements(text: str) -> Iterator[str]:
    """The sentences of a text and the fields of JSON in it, in order, each on one line of at most PIECE characters."""
    if (value := _opened(text)) is not text:
        yield from _fields(value)
        return
    for line in re.sub(WRAPPED, " ", text).splitlines():
        if (value := _opened(line)) is not line:
            yield from _fields(value)
        else:
            yield from _sentences(line)


def _sentences(line: str) -> Iterator[str]:
    for sentence in _split(line, SENTENCE):
        for piece in _fitting(sentence, (CLAUSE, WORD)):
            if squeezed := " ".join(piece.split()):
                yield squeezed


def _split(text: str, end: str) -> Iterator[str]:
    start = 0
    for found in re.finditer(end, text):
        yield text[start : found.end()]
        start = found.end()
    yield text[start:]


def _fitting(text: str, ends: Sequence[str]) -> Iterator[str]:
    """The text in pieces of at most PIECE characters, cut at the first kind of end that serves."""
    if len(text) <= PIECE:
        yield text
    elif not ends:
        yield from (text[at : at + PIECE] for at in range(0, len(text), PIECE))
    else:
        for piece in _together(_split(text, ends[0]), ""):
            yield from _fitting(piece, ends[1:])


def _together(parts: Iterable[str], between: str) -> Iterator[str]:
    """The parts in as few pieces as PIECE allows."""
    piece = ""
    for part in parts:
        if piece and len(piece) + len(part) > PIECE:
            yield piece
            piece = ""
        piece += f"{between}{part}" if piece else part
    if piece:
        yield piece


class _Object(tuple[tuple[str, Any], ...]):
    """An object of JSON: pairs, because a key may occur twice."""


def _opened(text: Any) -> Any:
    """The value of a text that is a JSON object or array, with numbers as they were written; else the same text."""
    if not isinstance(text, str) or text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        return json.loads(text, object_pairs_hook=_Object, parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        return text


def _fields(value: Any) -> Iterator[str]:
    """The fields of a JSON value with their path, those of one object together, top down."""
    # A stack, not recursion: the depth of the value is not ours to bound.
    waiting = [("", value)]
    while waiting:
        path, value = waiting.pop()
        lead = f"{path[-PATH:]}: " if path else ""
        if isinstance(value, str):
            yield from (f"{lead}{text}" for text in statements(value))
            continue
        members = [(name, _opened(held)) for name, held in _members(value)]
        flat = (_field(name, held) for name, held in members if _is_flat(held))
        yield from (f"{lead}{piece}" for piece in _together(flat, ", "))
        nested = [
            (f"{path}{name}" if not path or name[0] == "[" else f"{path}.{name}", held)
            for name, held in members
            if not _is_flat(held)
        ]
        waiting += reversed(nested)


def _members(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, _Object):
        return ((" ".join(key.split()) or '""', held) for key, held in value)
    return ((f"[{index}]", held) for index, held in enumerate(value))


def _field(name: str, value: Any) -> str:
    shown = " ".join(value.split()) if isinstance(value, str) else json.dumps(value)
    return shown if name[0] == "[" else f"{name[-PATH:]}: {shown}"


def _is_flat(value: Any) -> bool:
    """True if a value is shown as a field of its object; longer texts are divided, and nested values opened."""
    return not isinstance(value, tuple | list) and not (isinstance(value, str) and len(value) > PIECE - PATH)
