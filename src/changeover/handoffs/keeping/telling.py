"""What makes a sentence worth keeping word for word: decisions, figures, ids, names of files, addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from changeover.handoffs.keeping.wording import COURTESY, DAYS, DECISION, MEANING, RESOLVE
from changeover.handoffs.salience import FIGURES, kind_of

WEIGHTS = {
    "decision": 20,
    "question": 12,
    "resolve": 6,
    "id": 5,
    "amount": 5,
    "address": 5,
    "date": 4,
    "percentage": 4,
    "measure": 3,
    "time": 3,
    "meaning": 3,
    "day": 2,
    "number": 1,
}
"""What a sentence gains by each kind of thing in it. A decision outweighs whatever it is about."""

PHRASES = (("decision", DECISION), ("resolve", RESOLVE), ("day", DAYS))
"""What a sentence does by its words, wherever they stand in it."""

PHRASE = re.compile(rf"(?<!\w)(?:{'|'.join(f'({words})' for _, words in PHRASES)})(?!\w)")
POLITE = re.compile(COURTESY)
MEANS = re.compile(rf"(?<![a-z])(?:{MEANING})(?![a-z])")

# What stands between blanks, brackets and the marks of JSON. A comma or a colon between figures belongs to them.
WORD = re.compile(r"[^\s\"{}\[\]()<>|;,:=`]+(?:(?:(?<=\d)[,:](?=\d)|:(?=\\))[^\s\"{}\[\]()<>|;,:=`]+|://[^\s\"'<>`]+)*")
BEFORE, BEHIND = "*'\u2018“«_", ".!?…*'\u2019”»_"
CLOSING = " )]*_\"'\u2019”»"


class Thing(Struct, frozen=True, gc=False):
    """Something that must be neither lost nor changed, and where it stands."""

    kind: str
    start: int
    end: int
    name: str = ""
    """By what it is known again elsewhere, if it can be."""


def things(text: str) -> list[Thing]:
    """What there is in a text, in its order."""
    low = _lowered(text)
    return sorted([*_phrases(low), *_words(text, low)], key=lambda thing: thing.start)


def worth(text: str, held: list[Thing]) -> int:
    """How telling a text is by the things that it holds."""
    kinds = {thing.kind for thing in held}
    if any(thing.name for thing in held) and MEANS.search(_lowered(text)):
        kinds.add("meaning")
    return sum(WEIGHTS[kind] for kind in kinds)


def asked(text: str) -> bool:
    """Whether a sentence is a question."""
    return text.rstrip(CLOSING).endswith(("?", "\uff1f"))


def courteous(text: str) -> bool:
    """Whether a question is asked out of courtesy."""
    return bool(POLITE.search(_lowered(text)))


def _lowered(text: str) -> str:
    low = text.lower()
    # Some letters have no small one of the same length, and places in a text must stay what they are.
    return low if len(low) == len(text) else text


def _phrases(low: str) -> Iterator[Thing]:
    # "Agreed!" decides nothing that could be understood without what it answers.
    if low.count(" ") > 1:
        for found in PHRASE.finditer(low):
            kind = PHRASES[(found.lastindex or 1) - 1][0]
            yield Thing(kind, found.start(), found.end(), found[0] if kind == "day" else "")


def _words(text: str, low: str) -> Iterator[Thing]:
    spans = [_trimmed(found) for found in WORD.finditer(low)]
    words = [low[start:end] for start, end in spans]
    for at, (start, end) in enumerate(spans):
        if (kind := kind_of(text[start:end], words, at)) in WEIGHTS:
            # A bare figure is known again only with the word behind it.
            name = words[at : at + 2] if kind in FIGURES else words[at : at + 1]
            yield Thing(kind, start, end, " ".join(name))


def _trimmed(found: re.Match[str]) -> tuple[int, int]:
    """Where a word begins and ends without the marks around it."""
    if found[0].isalnum():
        return found.span()
    word = found[0].lstrip(BEFORE)
    start = found.end() - len(word)
    return start, start + len(word.rstrip(BEHIND).removesuffix("'s"))
