"""Which short profiles fit a request: BM25 over words and over families of words.

The formula is written out here, though `bm25s` does it well: it and `rank-bm25` need numpy, which is 73 MB installed
and a quarter of a second of CPU to import, for five one-line profiles that differ with every agent. The strength of
these libraries, an index of many documents kept for many queries, is of no use where each request brings its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from math import log

from changeover.routing.kin import families, spelled
from changeover.routing.words import words

SATURATION = 1.2
LENGTH = 0.3
"""Low: a profile is long because its author took care, not because it wanders."""
FAMILY = 0.5
"""What a related word counts beside the word itself."""
LONGEST = 200
"""Of a request, more words are not read: nobody says what he wants after them."""


def rank(request: str, profiles: Mapping[str, str]) -> list[tuple[str, float]]:
    """The profiles that share something telling with the request, the best first; ties in the order given."""
    counts = {id: Counter(_terms(words(text))) for id, text in profiles.items()}
    asked = _asked(request, {term for count in counts.values() for term in count})
    usual = sum(count.total() for count in counts.values()) / max(1, len(counts)) or 1.0
    weights = {term: _weight(term, counts.values()) for term in asked}
    scores = {
        id: sum(times * weights[term] * _presence(count[term], count.total() / usual) for term, times in asked.items())
        for id, count in counts.items()
    }
    return sorted(((id, score) for id, score in scores.items() if score > 0), key=lambda each: -each[1])


def shared(request: str, profile: str) -> set[str]:
    """What the request and a profile have in common: stems, and families with a tilde."""
    known = set(_terms(words(profile)))
    return {term for term in _asked(request, known) if term in known}


def _asked(request: str, known: set[str]) -> Counter[str]:
    """The terms of a request. A word counts once however often it is said, a family once for each of its words."""
    vocabulary = sorted(term for term in known if not term.startswith("~"))
    return Counter(_terms(dict.fromkeys(spelled(word, vocabulary) for word in words(request)[:LONGEST])))


def _terms(stems: Iterable[str]) -> Iterable[str]:
    for word in stems:
        yield word
        yield from families(word)


def _weight(term: str, counts: Iterable[Counter[str]]) -> float:
    """How much a term tells: the rarer among the profiles, the more; nothing if several profiles all have it."""
    having = [term in count for count in counts]
    total, found = len(having), sum(having)
    if found == total > 1:
        return 0.0
    telling = log(1 + (total - found + 0.5) / (found + 0.5))
    return telling * (FAMILY if term.startswith("~") else 1.0)


def _presence(count: int, length: float) -> float:
    """How much a profile is about a term, its length compared with the usual one taken into account."""
    return count * (SATURATION + 1) / (count + SATURATION * (1 - LENGTH + LENGTH * length))
