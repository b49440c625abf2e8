"""Essentials: the statements that are quoted when messages are left out, chosen in any language and without a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, islice

from msgspec import Struct

from changeover.handoffs.likeness import Corpus
from changeover.handoffs.passages import items, statements
from changeover.handoffs.tokens import count
from changeover.messages import Message, User

BY_USER, LATE, ASKED = 1.25, 0.25, 0.6
"""Factors of a statement's worth: that of a user's statement, the bonus of the last message, that of a question."""
CROWD = 8
"""A statement counts half if this many statements of the same message are worth more."""
MANY = 400
"""Number of statements of one text that are read; the others can be fetched."""
SHORTEST = 4
"""Least number of tokens of a statement with its label."""
QUESTIONS = ("?", "\uff1f", "\u061f")


class Statement(Struct, frozen=True, gc=False):
    """A statement, and the message that it is from."""

    message: int
    label: str
    text: str
    by_user: bool

    @property
    def line(self) -> str:
        return f"{self.label}: {self.text}"


def essentials(messages: Sequence[Message], most: int, known: Iterable[str] = ()) -> tuple[str, ...]:
    """The statements that are most unlike the rest, in their authors' words, oldest first, up to `most` tokens.

    A later statement that resembles one of them, or one that is `known` already, comes before all others.
    """
    told = _told(messages)
    corpus = Corpus(each.text for each in told)
    chosen, left = set[int](), most
    corrections = (later for text in known for _, later in corpus.successors(text)[:1])
    for index in chain(corrections, _ranked(corpus, told, len(messages))):
        if left < SHORTEST:
            break
        if index in chosen or count(told[index].line) >= left:
            continue
        later = [later for _, later in corpus.successors(told[index].text, index)]
        # The latest statement first: an outdated one is not quoted alone.
        for each in sorted({index, *later[:1], max(later, default=index)} - chosen, reverse=True):
            if (cost := count(told[each].line) + 1) > left:
                break
            chosen.add(each)
            left -= cost
    return tuple(told[index].line for index in sorted(chosen))


def _told(messages: Sequence[Message]) -> list[Statement]:
    """All statements in their order; of repeated ones the last."""
    told: dict[str, Statement] = {}
    for index, message in enumerate(messages):
        for label, text in items(message):
            for each in islice(statements(text), MANY):
                told.pop(key := each.casefold().rstrip(" .!…。"), None)
                told[key] = Statement(index, label, each, isinstance(message, User))
    return list(told.values())


def _ranked(corpus: Corpus, told: Sequence[Statement], messages: int) -> list[int]:
    """The indexes of the statements by their worth; of equal ones the later first."""
    worth = [_worth(corpus, each, messages) for each in told]
    crowd: dict[int, int] = {}
    for index in sorted(range(len(told)), key=lambda index: -worth[index]):
        crowd[told[index].message] = before = crowd.get(told[index].message, 0) + 1
        worth[index] /= 1 + (before - 1) / CROWD
    return sorted(range(len(told)), key=lambda index: (-worth[index], -index))


def _worth(corpus: Corpus, each: Statement, messages: int) -> float:
    worth = corpus.unlikeness(each.text) * (1 + LATE * (each.message + 1) / messages)
    return worth * (BY_USER if each.by_user else 1) * (ASKED if each.text.endswith(QUESTIONS) else 1)
