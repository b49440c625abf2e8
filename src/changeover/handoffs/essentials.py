"""Essentials: the sentences that are quoted when messages are left out, chosen without a model."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from changeover.handoffs.salience import Thing, asked, courteous, things, worth
from changeover.handoffs.tokens import count
from changeover.messages import Assistant, Message, ToolResult, User, with_labels

FIELDS = 240
"""Number of characters up to which the fields of one object stay together."""
NAME = 60
"""Number of characters of a key; a longer one is a text, not a name."""

# A line break inside a sentence: the line is long, and the next one goes on in small letters.
WRAPPED = re.compile(r"(?<=[^\n]{39}[a-z,;])\r?\n(?=[a-z(])")
BULLET = re.compile(r"\s*(?:[-*+•>#]+|\(?\d{1,2}[.)])\s+")
# A full stop ends a sentence unless it belongs to an abbreviation or an ellipsis.
SENTENCE = re.compile(
    r"[.!?…](?<!\b(?:No|no|Nr|nr|Mr|Ms|Dr|St|vs|ca|cf)\.)(?<!\b(?:Mrs|etc|Inc|Ltd|e\.g|i\.e|fig|Fig|ref|Ref|tel|Tel|est)\.)"
    r"(?<!\b(?:incl|excl|Dept|dept)\.)(?<!approx\.)(?:[\"'”\u2019)\]*_]{0,3}\s+(?![a-z])|(?<=\w{3}.)\s+)|[。\uff01\uff1f]"
)


class Statement(Struct, frozen=True, gc=False):
    """A sentence, a line or some fields, with the author."""

    author: str
    text: str


def statements(message: Message) -> Iterator[Statement]:
    """The statements of a message, in order, without line ends and extra blanks."""
    said = with_labels(message.text, message.files) if isinstance(message, User) else message.text
    for text in _stated(said):
        yield Statement(message.author, text)
    if isinstance(message, Assistant):
        for call in message.calls:
            for text in _stated(call.args):
                yield Statement(f"{message.agent} called {call.name}", text)


def _stated(value: Any) -> Iterator[str]:
    """The sentences of a text, or the fields of a JSON value, those of one object together, top down."""
    # A stack, not recursion: the depth of the value is not ours to bound.
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
    """The value of a text that is a JSON object or array; numbers stay as they were written."""
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
    """Whether a value is quoted as a field of its object."""
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
    """The fields in as few pieces as the length allows."""
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


PIECE = 300
"""Number of characters of a sentence that are quoted; of a longer one, the text around the things in it."""
MARGIN = 50
CLOSE = 12
"""Number of characters within which things are taken for one, such as a date or a telephone number."""

OPEN = 3
"""Number of last messages whose questions are taken to be open."""

SHARE = 8
"""Number of pieces of one message that count in full, so that a long message does not crowd out the others."""
LESS = 3
"""Divisor for the worth of a piece without news, and of a decision beyond its message's share."""

LASTING = ("decision", "resolve", "question")

TELLING = 2
"""Worth below which a piece, such as a number in passing, is quoted only if there is little else."""

SHORTEST = 4
"""Least number of tokens of a piece with its author."""


class Piece(Struct, frozen=True, gc=False):
    """A statement that may be quoted."""

    message: int
    number: int
    line: str
    worth: int
    names: frozenset[str]
    """The names of the things in it."""
    lasting: bool
    """Whether it counts even if other pieces name all its things."""


def essentials(messages: Sequence[Message], most: int = 1_000) -> tuple[str, ...]:
    """Decisions, figures, ids, files and open questions in their authors' words, oldest first, up to `most` tokens."""
    kept = _within(most, _ranked(list(_pieces(messages))))
    return tuple(piece.line for piece in sorted(kept, key=lambda piece: (piece.message, piece.number)))


def _pieces(messages: Sequence[Message]) -> Iterator[Piece]:
    """The pieces with any worth, last message first; of repeated ones, the last."""
    heard: set[str] = set()
    turns = 0
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        recent = turns < OPEN and not isinstance(message, ToolResult)
        turns += recent and bool(message.text)
        for number, (author, text, held) in enumerate(_told(message, recent)):
            key = text.casefold().rstrip(" .!…")
            if key not in heard:
                heard.add(key)
                yield _piece(at, number, f"{author}: {text}", held)


def _told(message: Message, recent: bool) -> Iterator[tuple[str, str, list[Thing]]]:
    """The author, the text and the things of every statement that holds things."""
    for statement in statements(message):
        author, whole = " ".join(statement.author.split()), statement.text
        held = _held(whole, recent)
        if held and len(whole) <= PIECE:
            yield author, whole, held
        elif held:
            yield from ((author, text, within) for text in _windows(whole, held) if (within := _held(text, recent)))


def _held(text: str, recent: bool) -> list[Thing]:
    held = things(text)
    if not asked(text):
        return held
    # A question decides nothing.
    named = [thing for thing in held if thing.name]
    opened = recent and not courteous(text)
    return [*named, Thing("question", len(text) - 1, len(text))] if opened else named


def _piece(message: int, number: int, line: str, held: list[Thing]) -> Piece:
    lasting = any(thing.kind in LASTING for thing in held)
    # An answered question is covered by its answer.
    value = worth(line, held) // (2 if asked(line) and not lasting else 1)
    return Piece(message, number, line, value, frozenset(thing.name for thing in held if thing.name), lasting)


def _windows(text: str, held: Sequence[Thing]) -> Iterator[str]:
    """The parts of a long text around its things, with marks where it was cut; no thing is cut."""
    before = 0
    groups = list(_groups(held))
    for (start, end), (after, _) in zip(groups, [*groups[1:], (len(text), 0)], strict=True):
        left, right = max(before, start - MARGIN), min(after, end + MARGIN)
        # At the blank that is farthest from the things, or right at them without one.
        left = left if left == 0 else text.find(" ", left, start) + 1 or start
        right = right if right == len(text) else max(text.rfind(" ", end, right), end)
        yield f"{'… ' if left else ''}{text[left:right].strip()}{' …' if right < len(text) else ''}"
        before = end


def _groups(held: Sequence[Thing]) -> Iterator[tuple[int, int]]:
    """The spans of things that fit into one piece."""
    start, end = held[0].start, held[0].end
    for thing in held[1:]:
        most = PIECE if thing.start - end < CLOSE else PIECE - 2 * MARGIN
        # Overlapping things stay together, however long the span gets.
        if thing.start > end and thing.end - start > most:
            yield start, end
            start = thing.start
        end = max(end, thing.end)
    yield start, end


def _ranked(pieces: list[Piece]) -> list[Piece]:
    """The pieces by worth, highest first; of equal ones the later first."""
    pieces.sort(key=_rank)
    told: set[str] = set()
    shares: Counter[int] = Counter()
    return sorted((_discounted(piece, told, shares) for piece in pieces), key=_rank)


def _rank(piece: Piece) -> tuple[int, int, int]:
    return -piece.worth, -piece.message, -piece.number


def _discounted(piece: Piece, told: set[str], shares: Counter[int]) -> Piece:
    """The piece with its worth reduced by the pieces before it."""
    shares[piece.message] += 1
    crowded = shares[piece.message] > SHARE
    fresh = piece.lasting or not piece.names <= told
    told.update(piece.names)
    if fresh and not crowded:
        return piece
    less = TELLING if crowded and not piece.lasting else max(piece.worth // LESS, TELLING)
    return replace(piece, worth=min(piece.worth, less))


def _within(most: int, pieces: Iterable[Piece]) -> Iterator[Piece]:
    """As many pieces as fit, one on each line."""
    spent = 0
    for piece in pieces:
        if most - spent < SHORTEST:
            return
        cost = count(piece.line) + 1
        if spent + cost <= (most if piece.worth >= TELLING else most // 4):
            spent += cost
            yield piece
