"""What a word is if it is none of the language: an address, an id, a figure and of what kind."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from changeover.handoffs.keeping.wording import (
    CURRENCIES,
    ENDINGS,
    HOURS,
    IDS,
    LINKS,
    MONTHS,
    NUMBERED,
    NUMBERS,
    STEPS,
    UNITS,
)

LONGEST = 1_000
"""A word that is longer is no name and no figure, but data."""


def _any(words: Iterable[str]) -> str:
    return f"(?:{'|'.join(map(re.escape, words))})"


FIGURE = r"[-+]?\d+(?:[.,'\u2019]\d+)*"

SHAPES = (
    ("address", r"[a-z][a-z\d+.-]*://.+"),
    ("address", r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)+"),
    ("address", r"www\..+|(?:[a-z\d-]+\.)+(?:com|org|net|io|dev|app|gov|edu)(?:/.*)?"),
    ("address", r"[a-z]:\\.*|\\\\.+"),
    ("date", r"\d{4}[-/]\d\d?[-/]\d\d?(?:t[\d:.]+(?:z|[-+][\d:]+)?)?"),
    ("date", r"q[1-4]|\d\d?(?:\.\d\d?\.|/\d\d?/|-\d\d?-)(?:\d\d|\d{4})"),
    ("address", r"(?:~|\.\.?)?(?:/[\w.@+-]+){2,}/?|(?![\d/]+$)[\w.@+-]+(?:/[\w.@+-]+){2,}/?"),
    ("address", rf"[\w@+./~-]*\.{_any(ENDINGS)}|dockerfile|makefile"),
    ("amount", rf"[a-z]{{0,3}}[-+]?{_any(CURRENCIES)}{FIGURE}(?:k|m|bn)?|{FIGURE}{_any(CURRENCIES)}"),
    ("percentage", rf"{FIGURE}(?:%|pct|bps)"),
    ("time", r"\d\d?(?::\d\d){1,2}(?:[ap]m|h|z)?|\d\d?[ap]m"),
    ("id", r"\+\d{2,}|v?\d+(?:\.\d+){2,}[\w+-]*|v\d+(?:\.\d+)+"),
    ("id", r"[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}|0x[\da-f]+|(?=\d*[a-f])(?=[a-f]*\d)[\da-f]{7,128}"),
    ("id", r"#\d{2,}|\d{6,}"),
    ("count", r"24/7|50/50|\d+(?:st|nd|rd|th)"),
    ("number", r"(?:19|20)\d\ds?"),
    ("measure", rf"{FIGURE}(?:{_any(UNITS)}|k|x|s|min|h)|[-+]?(?:\d{{3,}}|\d+[.,'\u2019]\d[\d.,'\u2019]*)"),
    ("measure", r"\d+(?:[-/:]\d+)+"),
    ("number", rf"{FIGURE}|#\d"),
)
"""What a word is by how it is written; the first that fits. What only counts is worth nothing."""

FIGURES = ("measure", "number", "count")
"""What the words around it may make something else of."""

PRECEDED = {**dict.fromkeys(MONTHS, "date"), **dict.fromkeys(CURRENCIES, "amount")}
FOLLOWED = {
    **dict.fromkeys(UNITS, "measure"),
    **dict.fromkeys(HOURS, "time"),
    **dict.fromkeys(("%", "percent", "per cent"), "percentage"),
    **PRECEDED,
    **{f"of {month}": "date" for month in MONTHS},
}
"""What a figure is by the words before it and behind it."""

SHAPE = re.compile("|".join(f"({shape})" for _, shape in SHAPES))
CODE = re.compile(r"(?=\D*\d)[\w/-]+", re.ASCII)
LABEL = re.compile(
    rf"(?:.*[._-])?(?:(?P<sure>{_any(NUMBERED)}[._-]?{_any(NUMBERS + IDS)}|{_any(IDS)})|{_any(NUMBERED + NUMBERS)})"
)
PART = re.compile(r"\d+ (?:out )?of \d+")


def kind_of(word: str, words: Sequence[str], at: int) -> str:
    """What a word is that stands at this place among others in small letters; nothing, if it is just a word."""
    if word.isalpha() or len(word) > LONGEST:
        return "id" if _stands_alone(word) and _labelled(words, at, True) else ""
    shape = SHAPE.fullmatch(words[at])
    if shape is None:
        return "id" if CODE.fullmatch(word) and (_is_mixed(word) or _labelled(words, at, True)) else ""
    kind = SHAPES[(shape.lastindex or 1) - 1][0]
    return _by_neighbours(kind, words, at) if kind in FIGURES else kind


def _by_neighbours(kind: str, words: Sequence[str], at: int) -> str:
    before, behind = words[at - 1] if at else "", words[at + 1 : at + 3]
    known = FOLLOWED.get(behind[0] if behind else "") or FOLLOWED.get(" ".join(behind)) or PRECEDED.get(before)
    if known or _labelled(words, at, kind == "measure" or words[at].startswith("#")):
        return known or "id"
    return "count" if kind == "number" and _counts(words, at) else kind


def _counts(words: Sequence[str], at: int) -> bool:
    """Whether a number stands alone, or says where in a list we are, or how many of how many."""
    if len(words) == 1 or (at and words[at - 1] in STEPS):
        return True
    around = words[max(at - 3, 0) : at + 4]
    return "of" in around and PART.search(" ".join(around)) is not None


def _labelled(words: Sequence[str], at: int, long: bool) -> bool:
    """Whether the words before say that something is known by this; by a short number only if they leave no doubt."""
    at -= 2 if at > 1 and words[at - 1] in LINKS else 1
    label = LABEL.fullmatch(words[at]) if at >= 0 and len(words[at]) <= LONGEST else None
    if label is None:
        return False
    return long or bool(label["sure"]) or (at > 0 and words[at] in NUMBERS and words[at - 1] in NUMBERED)


def _stands_alone(word: str) -> bool:
    return 5 <= len(word) <= 10 and word.isupper()


def _is_mixed(word: str) -> bool:
    """Whether letters and digits are mixed as only codes mix them."""
    digits, large = sum(map(str.isdigit, word)), sum(map(str.isupper, word))
    return digits > 2 or (digits > 1 and large > 0) or (digits > 0 and large > 1)
