"""Match by meaning, with the word vectors of the extra `wordllama`.

Its model files are part of the package, so nothing is downloaded.
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
"""What any two texts may have in common; less is no sign of anything."""
LONGEST = 2_000
"""Of a task, more characters are not read."""

Vector: TypeAlias = Sequence[float]
Embed: TypeAlias = Callable[[list[str]], Iterable[Vector]]
"""Texts as vectors of length 1."""


class MeaningMatch:
    """By the angle between vectors."""

    def __init__(self, embed: Embed, known: Mapping[Profile, Vector] | None = None) -> None:
        self._embed = embed
        self._known = known or {}

    def over(self, profiles: Sequence[Profile]) -> MeaningMatch:
        """The same over these profiles; only those that are new or changed are read."""
        new = [profile for profile in profiles if profile not in self._known]
        read = zip(new, self._embed([text_of(profile) for profile in new]) if new else (), strict=True)
        vectors = {**self._known, **dict(read)}
        return MeaningMatch(self._embed, {profile: vectors[profile] for profile in profiles})

    def scores(self, task: str) -> Sequence[float]:
        """The cosines, but for those that are too small to say anything."""
        [asked] = self._embed([task[:LONGEST]])
        return [_heard(sum(map(mul, asked, vector))) for vector in self._known.values()]


def load_wordllama() -> MeaningMatch:
    """What compares by meaning, over no profiles yet: `Registry(profiles, load_wordllama())`."""
    try:
        wordllama: Any = import_module("wordllama")
    except ImportError:
        raise MisconfiguredError(
            "to match by meaning, wordllama is needed: pip install 'changeover[wordllama]'"
        ) from None
    # As a cache: it looks for its tokenizer there, though it lies beside its weights in the package.
    files = Path(wordllama.__file__).parent
    model = wordllama.WordLlama.load(cache_dir=files, disable_download=True)
    return MeaningMatch(lambda texts: model.embed(texts, norm=True).tolist())


def _heard(cosine: float) -> float:
    return min(1.0, cosine) if cosine >= NOISE else 0.0
