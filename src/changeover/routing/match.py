"""Text match: BM25 over words and synonyms, updated as profiles come and go.

Written out here although `bm25s` does it well: that needs numpy (73 MB, a quarter of a second of CPU to import) for
profiles of one line each, and rebuilds its index whenever one changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from math import log
from typing import Protocol

from changeover.routing.profile import Profile, text_of
from changeover.routing.words import families, spelled, words

SATURATION = 1.2
LENGTH = 0.3
"""Low: a profile is long because its author took care, not because it wanders."""
FAMILY = 0.5
"""What a related word counts beside the word itself."""
LONGEST = 200
"""Of a request, more words are not read: nobody says what he wants after them."""


class Index:
    """Texts by their terms, which are stems and, with a tilde, families. Never changed: `changed` gives another."""

    def __init__(self) -> None:
        self._documents: dict[str, Counter[str]] = {}
        self._lengths: dict[str, int] = {}
        self._postings: dict[str, dict[str, int]] = {}
        """How often each text has a term."""
        self._total = 0

    def changed(self, gone: Iterable[str], new: Mapping[str, str]) -> Index:
        """The same without some texts, and with others; what stays is not read again."""
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
            self._own(term, own)[id] = times

    def _remove(self, id: str, own: set[str]) -> None:
        for term in self._documents.pop(id, ()):
            having = self._own(term, own)
            del having[id]
            if not having:
                del self._postings[term]
                own.discard(term)
        self._total -= self._lengths.pop(id, 0)

    def _own(self, term: str, own: set[str]) -> dict[str, int]:
        """Who has a term, in a copy that is not shared with the index that this one was made of."""
        if term not in own:
            own.add(term)
            self._postings[term] = dict(self._postings.get(term, ()))
        return self._postings[term]

    def __contains__(self, term: str) -> bool:
        return term in self._postings

    def asked(self, request: str) -> Counter[str]:
        """The terms of a request. A word counts once however often it is said, a family once for each of its words."""
        return Counter(_terms(dict.fromkeys(self._meant(word) for word in words(request)[:LONGEST])))

    def _meant(self, word: str) -> str:
        return word if word in self._postings else spelled(word, self._initials.get(word[0], ()))

    @cached_property
    def _initials(self) -> dict[str, list[str]]:
        """All words by the letter that they begin with: who slips does it later."""
        found: dict[str, list[str]] = {}
        for term in self._postings:
            found.setdefault(term[0], []).append(term)
        return found

    def scores(self, asked: Mapping[str, int]) -> dict[str, float]:
        """How well the texts fit that share something telling with the request, in the order in which they came."""
        usual = self._total / max(1, len(self._documents)) or 1.0
        found: dict[str, float] = {}
        for term, times in asked.items():
            weight = self.weight(term)
            for id, count in self._postings.get(term, {}).items() if weight else ():
                found[id] = found.get(id, 0.0) + times * weight * _presence(count, self._lengths[id] / usual)
        return {id: found[id] for id in self._documents if id in found}

    def weight(self, term: str) -> float:
        """How much a term tells: the rarer among the texts, the more; nothing if several texts all have it."""
        return self._weight(term, len(self._postings.get(term, ())))

    def conceivable(self, asked: Mapping[str, int]) -> float:
        """More than any text can score: one would have to speak of nothing but every term of the request."""
        return sum(
            times * (SATURATION + 1) * self._weight(term, max(1, len(self._postings.get(term, ()))))
            for term, times in asked.items()
        )

    def _weight(self, term: str, found: int) -> float:
        total = len(self._documents)
        if found == total > 1:
            return 0.0
        telling = log(1 + (total - found + 0.5) / (found + 0.5))
        return telling * (FAMILY if term.startswith("~") else 1.0)


def _terms(stems: Iterable[str]) -> Iterable[str]:
    for word in stems:
        yield word
        yield from families(word)


def _presence(count: int, length: float) -> float:
    """How much a text is about a term, its length compared with the usual one taken into account."""
    return count * (SATURATION + 1) / (count + SATURATION * (1 - LENGTH + LENGTH * length))


class TextMatch(Protocol):
    """Profiles, and a way to compare them with a task."""

    def over(self, profiles: Sequence[Profile]) -> TextMatch:
        """The same way to compare over these profiles; what is known of those that stay is kept."""
        ...

    def scores(self, task: str) -> Sequence[float]:
        """How well each profile fits, in their order: 0 is no sign of it, and nothing more than 1 can be wished for."""
        ...


class WordMatch:
    """By words, and by words that are used for about the same thing."""

    def __init__(self) -> None:
        self._profiles: dict[str, Profile] = {}
        self._index = Index()

    def over(self, profiles: Sequence[Profile]) -> WordMatch:
        """The same over these profiles; only those that are new or changed are read."""
        before, now = self._profiles, {profile.id: profile for profile in profiles}
        other = WordMatch()
        other._profiles = now
        other._index = self._index.changed(
            [id for id in before if id not in now],
            {id: text_of(profile) for id, profile in now.items() if before.get(id) != profile},
        )
        return other

    def scores(self, task: str) -> Sequence[float]:
        """Which part each of them has of the score that a text could have that is about nothing but this task."""
        asked = self._index.asked(task)
        found, whole = self._index.scores(asked), self._index.conceivable(asked)
        return [found[id] / whole if id in found else 0.0 for id in self._profiles]


def rank(request: str, profiles: Mapping[str, str]) -> list[tuple[str, float]]:
    """The profiles that share something telling with the request, the best first; ties in the order given."""
    index = Index().changed((), profiles)
    return sorted(index.scores(index.asked(request)).items(), key=lambda each: -each[1])


def shared(request: str, profile: str) -> set[str]:
    """What the request and a profile have in common: stems, and families with a tilde."""
    index = Index().changed((), {"": profile})
    return {term for term in index.asked(request) if term in index}
