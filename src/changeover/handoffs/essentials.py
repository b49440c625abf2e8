"""What must survive word for word when messages are left out, as far as it can be told without a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from changeover.handoffs.keeping.statements import statements
from changeover.handoffs.keeping.telling import Thing, asked, courteous, things, worth
from changeover.handoffs.tokens import count
from changeover.messages import Message, ToolResult

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
