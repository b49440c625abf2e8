"""Essentials: the sentences that are kept word for word when messages are left out, chosen without a model."""

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


PIECE = 300
"""So many characters of a sentence are kept; of a longer one, what stands around the things in it."""
MARGIN = 50
CLOSE = 12
"""Things that stand closer together are probably one, such as a date or a telephone number."""

OPEN = 3
"""A question in so many of the last messages is taken to be open."""

SHARE = 8
"""So many pieces of one message count in full: a long one, such as a log, must not drown the others."""
LESS = 3
"""What tells nothing new is worth so many times less, and so is a decision of a message that had its share."""

LASTING = ("decision", "resolve", "question")

TELLING = 2
"""What is worth less, such as a number in passing, is kept only where there is little else."""

SHORTEST = 4
"""No piece with its author has fewer tokens."""


class Piece(Struct, frozen=True, gc=False):
    """A statement that may be kept."""

    message: int
    number: int
    line: str
    worth: int
    names: frozenset[str]
    """What it tells of."""
    lasting: bool
    """Whether it counts also if all that it tells of is told elsewhere."""


def essentials(messages: Sequence[Message], most: int = 1_000) -> tuple[str, ...]:
    """Decisions, figures, ids, files, open questions: in their authors' words, oldest first, in so many tokens."""
    kept = _within(most, _ranked(list(_pieces(messages))))
    return tuple(piece.line for piece in sorted(kept, key=lambda piece: (piece.message, piece.number)))


def _pieces(messages: Sequence[Message]) -> Iterator[Piece]:
    """What is worth anything, the last message first; what was said twice, as it was said last."""
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
    """The author, the text and the things of every statement that holds any."""
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
    # What is only asked is not decided.
    named = [thing for thing in held if thing.name]
    opened = recent and not courteous(text)
    return [*named, Thing("question", len(text) - 1, len(text))] if opened else named


def _piece(message: int, number: int, line: str, held: list[Thing]) -> Piece:
    lasting = any(thing.kind in LASTING for thing in held)
    # What was asked and is not open any more is told by its answer.
    value = worth(line, held) // (2 if asked(line) and not lasting else 1)
    return Piece(message, number, line, value, frozenset(thing.name for thing in held if thing.name), lasting)


def _windows(text: str, held: Sequence[Thing]) -> Iterator[str]:
    """What stands around the things of a text that is too long, with marks where it goes on; no thing is cut."""
    before = 0
    groups = list(_groups(held))
    for (start, end), (after, _) in zip(groups, [*groups[1:], (len(text), 0)], strict=True):
        left, right = max(before, start - MARGIN), min(after, end + MARGIN)
        # At the blank that is farthest from the things, or close to them if there is none.
        left = left if left == 0 else text.find(" ", left, start) + 1 or start
        right = right if right == len(text) else max(text.rfind(" ", end, right), end)
        yield f"{'… ' if left else ''}{text[left:right].strip()}{' …' if right < len(text) else ''}"
        before = end


def _groups(held: Sequence[Thing]) -> Iterator[tuple[int, int]]:
    """Where things stand that fit into one piece together."""
    start, end = held[0].start, held[0].end
    for thing in held[1:]:
        most = PIECE if thing.start - end < CLOSE else PIECE - 2 * MARGIN
        # What overlaps stays together, however long it gets.
        if thing.start > end and thing.end - start > most:
            yield start, end
            start = thing.start
        end = max(end, thing.end)
    yield start, end


def _ranked(pieces: list[Piece]) -> list[Piece]:
    """The most telling first, and the later of two that tell as much."""
    pieces.sort(key=_rank)
    told: set[str] = set()
    shares: Counter[int] = Counter()
    return sorted((_discounted(piece, told, shares) for piece in pieces), key=_rank)


def _rank(piece: Piece) -> tuple[int, int, int]:
    return -piece.worth, -piece.message, -piece.number


def _discounted(piece: Piece, told: set[str], shares: Counter[int]) -> Piece:
    """The piece at what it is worth beside those that are worth more."""
    shares[piece.message] += 1
    crowded = shares[piece.message] > SHARE
    fresh = piece.lasting or not piece.names <= told
    told.update(piece.names)
    if fresh and not crowded:
        return piece
    less = TELLING if crowded and not piece.lasting else max(piece.worth // LESS, TELLING)
    return replace(piece, worth=min(piece.worth, less))


def _within(most: int, pieces: Iterable[Piece]) -> Iterator[Piece]:
    """As many pieces as fit, each a line of its own."""
    spent = 0
    for piece in pieces:
        if most - spent < SHORTEST:
            return
        cost = count(piece.line) + 1
        if spent + cost <= (most if piece.worth >= TELLING else most // 4):
            spent += cost
            yield piece
