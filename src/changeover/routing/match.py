"""Text match: BM25 over words and synonyms, updated as profiles come and go.

Written here although `bm25s` exists: that needs numpy (73 MB, a quarter of a second to import) for profiles of one line
each, and rebuilds its index with every change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from math import log
from typing import Protocol

from changeover.routing.profile import Profile, text_of
from changeover.routing.words import corrected, families, words

SATURATION = 1.2
LENGTH = 0.3
"""How much the length of a text counts in BM25. Low: a long profile is a careful one."""
FAMILY = 0.5
"""The weight of a synonym beside the word itself."""
LONGEST = 200
"""How many words of a request are read."""


class Index:
    """An immutable BM25 index of texts by their terms: stems and, with a tilde, families of synonyms."""

    def __init__(self) -> None:
        self._documents: dict[str, Counter[str]] = {}
        self._lengths: dict[str, int] = {}
        self._postings: dict[str, dict[str, int]] = {}
        """By term: the texts that have it, and how often."""
        self._total = 0

    def changed(self, gone: Iterable[str], new: Mapping[str, str]) -> Index:
        """A new index without the `gone` texts and with the `new` ones; the other texts are not read again."""
        other = Index()
        other._documents, other._lengths, other._postings = (
            dict(self._documents),
            dict(self._lengths),
            dict(self._postings),
        )
        other._total = self._total
        own: set[str] = set()
        for id in gone:
            other._remove(id, own)
        for id, text in new.items():
            other._remove(id, own)
            other._add(id, Counter(_terms(words(text))), own)
        return other

    def _add(self, id: str, terms: Counter[str], own: set[str]) -> None:
        self._documents[id], self._lengths[id] = terms, terms.total()
        self._total += self._lengths[id]
        for term, times in terms.items():
            self._copied_postings(term, own)[id] = times

    def _remove(self, id: str, own: set[str]) -> None:
        for term in self._documents.pop(id, ()):
            having = self._copied_postings(term, own)
            del having[id]
            if not having:
                del self._postings[term]
                own.discard(term)
        self._total -= self._lengths.pop(id, 0)

    def _copied_postings(self, term: str, own: set[str]) -> dict[str, int]:
        """The postings of a term, copied at the first change: the index before this one shares them."""
        if term not in own:
            own.add(term)
            self._postings[term] = dict(self._postings.get(term, ()))
        return self._postings[term]

    def __contains__(self, term: str) -> bool:
        return term in self._postings

    def asked(self, request: str) -> Counter[str]:
        """The terms of a request. Each word counts once, a family once for each of its words."""
        return Counter(_terms(dict.fromkeys(self._meant(word) for word in words(request)[:LONGEST])))

    def _meant(self, word: str) -> str:
        return word if word in self._postings else corrected(word, self._initials.get(word[0], ()))

    @cached_property
    def _initials(self) -> dict[str, list[str]]:
        """All terms by their first letter, which typing errors rarely change."""
        found: dict[str, list[str]] = {}
        for term in self._postings:
            found.setdefault(term[0], []).append(term)
        return found

    def scores(self, asked: Mapping[str, int]) -> dict[str, float]:
        """The BM25 scores of the texts that share a term with the request, in the order of the texts."""
        usual = self._total / max(1, len(self._documents)) or 1.0
        found: dict[str, float] = {}
        for term, times in asked.items():
            weight = self.weight(term)
            for id, count in self._postings.get(term, {}).items() if weight else ():
                found[id] = found.get(id, 0.0) + times * weight * _presence(count, self._lengths[id] / usual)
        return {id: found[id] for id in self._documents if id in found}

    def weight(self, term: str) -> float:
        """The weight of a term: higher if it is rarer, 0 if all of several texts have it."""
        return self._weight(term, len(self._postings.get(term, ())))

    def conceivable(self, asked: Mapping[str, int]) -> float:
        """An upper bound of scores: that of a text which holds nothing but the terms of the request."""
        return sum(
            times * (SATURATION + 1) * self._weight(term, max(1, len(self._postings.get(term, ()))))
            for term, times in asked.items()
        )

    def _weight(self, term: str, found: int) -> float:
        total = len(self._documents)
        if found == total > 1:
            return 0.0
        rarity = log(1 + (total - found + 0.5) / (found + 0.5))
        return rarity * (FAMILY if term.startswith("~") else 1.0)


def _terms(stems: Iterable[str]) -> Iterable[str]:
    for word in stems:
        yield word
        yield from families(word)


def _presence(count: int, length: float) -> float:
    """The BM25 term frequency: how much a text is about a term; `length` is relative to the average."""
    return count * (SATURATION + 1) / (count + SATURATION * (1 - LENGTH + LENGTH * length))


class TextMatch(Protocol):
    """A way to compare profiles with a task."""

    def over(self, profiles: Sequence[Profile]) -> TextMatch:
        """The same comparison over these profiles; what is computed for profiles that stay is kept."""
        ...

    def scores(self, task: str) -> Sequence[float]:
        """How well each profile fits, in their order, from 0 (no sign of it) to 1."""
        ...


class WordMatch:
    """A TextMatch by words and synonyms."""

    def __init__(self) -> None:
        self._profiles: dict[str, Profile] = {}
        self._index = Index()

    def over(self, profiles: Sequence[Profile]) -> WordMatch:
        """A match over these profiles; only new and changed ones are read."""
        before, now = self._profiles, {profile.id: profile for profile in profiles}
        other = WordMatch()
        other._profiles = now
        other._index = self._index.changed(
            [id for id in before if id not in now],
            {id: text_of(profile) for id, profile in now.items() if before.get(id) != profile},
        )
        return other

    def scores(self, task: str) -> Sequence[float]:
        """The BM25 score of each profile, divided by the upper bound of scores for this task."""
        asked = self._index.asked(task)
        found, whole = self._index.scores(asked), self._index.conceivable(asked)
        return [found[id] / whole if id in found else 0.0 for id in self._profiles]


def rank(request: str, profiles: Mapping[str, str]) -> list[tuple[str, float]]:
    """The ids and scores of the profiles that share a term with the request, the best first; ties stay in order."""
    index = Index().changed((), profiles)
    return sorted(index.scores(index.asked(request)).items(), key=lambda each: -each[1])


def shared(request: str, profile: str) -> set[str]:
    """The terms that a request and a profile share: stems, and families with a tilde."""
    index = Index().changed((), {"": profile})
    return {term for term in index.asked(request) if term in index}
