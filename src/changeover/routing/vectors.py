"""Match by meaning, with the word vectors of the extra `wordllama`.

The package contains its model files, so nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from operator import mul
from pathlib import Path
from typing import Any, TypeAlias

from changeover.errors import MisconfiguredError
from changeover.routing.profile import Profile, text_of

NOISE = 0.1
"""Cosines below this count as 0: any two texts have some similarity."""
LONGEST = 2_000
"""How many characters of a task are read."""

Vector: TypeAlias = Sequence[float]
Embed: TypeAlias = Callable[[list[str]], Iterable[Vector]]
"""Gives a vector of length 1 for each text."""


class MeaningMatch:
    """A TextMatch by the cosine of word vectors."""

    def __init__(self, embed: Embed, known: Mapping[Profile, Vector] | None = None) -> None:
        self._embed = embed
        self._known = known or {}

    def over(self, profiles: Sequence[Profile]) -> MeaningMatch:
        """A match over these profiles; only new and changed ones are embedded."""
        new = [profile for profile in profiles if profile not in self._known]
        read = zip(new, self._embed([text_of(profile) for profile in new]) if new else (), strict=True)
        vectors = {**self._known, **dict(read)}
        return MeaningMatch(self._embed, {profile: vectors[profile] for profile in profiles})

    def scores(self, task: str) -> Sequence[float]:
        """The cosine of each profile with the task; 0 below NOISE."""
        [asked] = self._embed([task[:LONGEST]])
        cosines = (sum(map(mul, asked, vector)) for vector in self._known.values())
        return [min(1.0, cosine) if cosine >= NOISE else 0.0 for cosine in cosines]


def load_wordllama() -> MeaningMatch:
    """A match by meaning, without profiles: `Registry(profiles, load_wordllama())`.

    Raises MisconfiguredError if wordllama is not installed.
    """
    try:
        wordllama: Any = import_module("wordllama")
    except ImportError:
        raise MisconfiguredError(
            "to match by meaning, wordllama is needed: pip install 'changeover[wordllama]'"
        ) from None
    # Passed as the cache: wordllama looks for its tokenizer there, although the package contains it.
    files = Path(wordllama.__file__).parent
    model = wordllama.WordLlama.load(cache_dir=files, disable_download=True)
    return MeaningMatch(lambda texts: model.embed(texts, norm=True).tolist())
