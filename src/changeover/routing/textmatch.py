"""How well profiles fit a task by what there is to read in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from changeover.routing.index import Index
from changeover.routing.profile import Profile, text_of


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
