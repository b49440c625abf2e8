"""Values as people write them in a sentence: ids, amounts, dates, addresses, names, yes and no."""

from __future__ import annotations

import re
from collections.abc import Iterator

from changeover.routing.words import WORD, stem

EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
URL = re.compile(r"https?://[^\s<>\"”]+[^\s<>\"”.,;:!?)]")
DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?Z?)?\b")
TIME = re.compile(r"\b\d{1,2}:\d{2}(?::\d{2})?\b")
QUOTED = re.compile(r"\"([^\"]+)\"|“([^”]+)”|\u2018([^\u2019]+)\u2019|(?<!\w)'([^']+)'(?!\w)")
CURRENCY = r"(?:[€$£]|\b(?:eur|usd|gbp|euros?|dollars?|pounds?|cents?)\b)"
FIGURE = r"\d{1,12}(?:[.,]\d{1,12}){0,4}"
AMOUNT = re.compile(rf"{CURRENCY}\s?({FIGURE})|({FIGURE})\s?{CURRENCY}|(?<![\w.,])(\d+[.,]\d\d)(?![\w.,]*\d)", re.I)
NUMBER = re.compile(r"(?<![\w.,:#-])(-?\d{1,15}(?:\.\d{1,9})?)(?![\w:-]|[.,]\d)")
IDENTIFIER = re.compile(r"(?<![\w.,:@/-])#?((?:[A-Za-z]+[-_]?)?\d[\w-]{0,40})(?![\w@:/]|[.,]\d)")
PROPER = re.compile(r"(?<=[a-z,:] )[A-Z][\w'\u2019-]+(?:\s+[A-Z][\w'\u2019-]+)*")

_SPELT = "two three four five six seven eight nine ten"
SPELT = {word: value for value, word in enumerate(_SPELT.split(), 2)}
_FILLERS = "number no nr id code ref reference is was the my with a an of has"
FILLERS = frozenset(_FILLERS.split())
_THINGS = "order invoice payment ticket customer account case booking error version page status step"
THINGS = frozenset(map(stem, _THINGS.split()))
"""What a number may belong to: one of an order is no number of a payment."""


def apart(text: str, *patterns: re.Pattern[str]) -> str:
    """The text with everything of these kinds blanked out, so that a part of it is not taken for something else."""
    for pattern in patterns:
        text = pattern.sub(lambda found: " " * len(found[0]), text)
    return text


def quotations(text: str) -> list[str]:
    """What stands in quotation marks."""
    return [next(filter(None, groups)) for groups in QUOTED.findall(text)]


def amounts(text: str) -> list[float]:
    """Sums of money: with a currency, or with two decimals."""
    plain = apart(text, DATE, TIME)
    return [_figure(next(filter(None, groups))) for groups in AMOUNT.findall(plain)]


def numbers(text: str, names: set[str], only_beside: bool = False) -> list[float]:
    """Numbers that are no part or name of something else: those beside one of the names, or these first."""
    plain = apart(text, DATE, TIME, EMAIL, URL)
    written = [(match, float(match[1])) for match in NUMBER.finditer(plain)]
    spelt = [(match, SPELT[match[0].lower()]) for match in WORD.finditer(plain) if match[0].lower() in SPELT]
    free = [each for each in (*written, *spelt) if _label(plain[: each[0].start()]) not in THINGS - names]
    beside = [value for match, value in free if _beside(plain, match, names)]
    return beside if only_beside else beside + [value for match, value in free if not _beside(plain, match, names)]


def identifiers(text: str, names: set[str]) -> list[str]:
    """Ids like A-1042 or #1042: those that belong to one of the names, else those that belong to nothing else."""
    ranked = list(_ranked(apart(text, DATE, TIME, EMAIL, URL, AMOUNT), names))
    best = max((rank for rank, _ in ranked), default=0)
    return list(dict.fromkeys(id for rank, id in ranked if rank == best > 0))


def named(text: str, names: set[str]) -> list[str]:
    """What follows one of the names: `city: Rome`, `the topic is tea`."""
    found = re.finditer(r"\b(\w+)(?:\s+is\s+|\s*[:=]\s*)([\w'\u2019-]+)", text)
    return [match[2] for match in found if stem(match[1].lower()) in names]


def _ranked(text: str, names: set[str]) -> Iterator[tuple[int, str]]:
    for match in IDENTIFIER.finditer(text):
        label, prefix = _label(text[: match.start()]), match[1].lower().rstrip("-_0123456789")
        if label in names or (len(prefix) > 1 and any(name.startswith(prefix) for name in names)):
            yield 2, match[1]
        elif not names or (label not in THINGS and _telling(match, prefix)):
            yield 1, match[1]


def _telling(match: re.Match[str], prefix: str) -> bool:
    """Whether it looks like an id by itself: not like a count, a year, or the id of something with another name."""
    if len(prefix) > 1 and any(thing.startswith(prefix) for thing in THINGS):
        return False
    return match[0].startswith("#") or (len(match[1]) > 2 and not re.fullmatch(r"(?:19|20)\d\d", match[1]))


def _label(before: str) -> str:
    """The word that an id belongs to: the last before it, without `number`, `is` and the like."""
    last = [word.lower() for word in WORD.findall(before[-60:])[-4:]]
    return next((stem(word) for word in reversed(last) if word not in FILLERS), "")


def _beside(text: str, match: re.Match[str], names: set[str]) -> bool:
    after = WORD.search(text, match.end())
    return _label(text[: match.start()]) in names or (after is not None and stem(after[0].lower()) in names)


def _figure(text: str) -> float:
    """`1,299.50`, `1.299,50` and `24,95` alike: the last mark is the decimal one if at most two digits follow it."""
    cut = max(text.rfind("."), text.rfind(","))
    if cut < 0 or len(text) - cut > 3:
        return float(re.sub(r"[.,]", "", text))
    return float(f"{re.sub(r'[.,]', '', text[:cut])}.{text[cut + 1 :]}")
