"""Text as words that can be compared: lower case, without endings, without words that say nothing."""

from __future__ import annotations

import re

WORD = re.compile(r"[^\W_]+")

SAYING_NOTHING = """
    a about after again all also am an and any anybody anyone anything are as at be because been before being both but
    by can cannot could did do does doing don done down during each else etc every everything few for from further
    had has have having he hello help hence her here hers hey hi him his how i if in into is it its itself just kindly
    know let like ll m many may me mean might mine more most much must my myself need never no nor not nothing now of
    off on once one only or other our out over own per please question re really regards s same shall she should so
    some somebody someone something soon still such sure t tell than thank that the their them then there these they
    thing this those through to too under until up upon us use user using ve very via want was way we well were what
    when where whether which while who whom whose why will wish with within without would yes yet you your yours
    come find found get give go happen look make put say see send show take think took try
    bye cheers fine good goodbye great nice ok okay perfect welcome
    customer customers agent agents ask asks questions needs wants thanks
"""
STOP = frozenset(SAYING_NOTHING.split())
"""Words of any sentence, verbs that go with anything, and what every desk calls those it works with."""

VOWEL = re.compile(r"[aeiouy]")
ENDINGS = (
    ("ies", "y"),
    ("ied", "y"),
    ("sses", "ss"),
    ("shes", "sh"),
    ("ches", "ch"),
    ("xes", "x"),
    ("ings", ""),
    ("ing", ""),
    ("ed", ""),
    ("s", ""),
)
"""The first that fits is taken off. Rougher than a real stemmer: both sides of a comparison are treated alike."""
NOUNS = (("ation", 4), ("ison", 4), ("ment", 3), ("ion", 4))
"""What makes a noun of a verb, and how much of the word has to be left."""


def words(text: str) -> list[str]:
    """The words of a text that carry meaning, as stems, in their order."""
    return [stem(word) for word in telling(text)]


def telling(text: str) -> list[str]:
    """The words of a text that carry meaning, as they are written but for capitals."""
    return [word for word in WORD.findall(text.lower()) if word not in STOP]


def stem(word: str) -> str:
    """A word without the endings of plurals, -ing, -ed and nouns of verbs, and without its last e."""
    for ending, instead in ENDINGS:
        rest = word.removesuffix(ending)
        if rest != word and _may_stand_alone(rest, ending):
            word = (_single(rest) if ending in ("ings", "ing", "ed") else rest) + instead
            break
    for ending, least in NOUNS:
        if word.endswith(ending) and len(word) - len(ending) >= least:
            word = _single(word.removesuffix(ending))
            break
    return word.removesuffix("e") if len(word) > 3 else word


def _may_stand_alone(rest: str, ending: str) -> bool:
    if ending == "s":
        return len(rest) > 2 and not rest.endswith(("s", "u", "si"))  # address, status and analysis are no plurals
    if ending in ("ies", "ied"):
        return len(rest) > 1
    return len(rest) > 2 and bool(VOWEL.search(rest))  # the -ing of string and the -ed of need are no endings


def _single(rest: str) -> str:
    """`runn` becomes `run` and `cancell` `cancel`; `bill`, `install` and `process` stay."""
    if len(rest) < 4 or rest[-1] != rest[-2]:
        return rest
    stays = rest[-1] in "sz" or (rest[-1] == "l" and not (len(rest) > 5 and rest[-3] in "eo"))
    return rest if stays else rest[:-1]
