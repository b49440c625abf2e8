"""Likeness: what texts of any language have in common, by their words and by runs of their letters."""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import log
from unicodedata import normalize

# Texts: `re` compiles them when they are first used, which takes milliseconds.
# The scripts from Thai on write no spaces between words, or join words to long ones.
TOKEN = r"[^\W_\u0e00-\U0010ffff]+|[^\W_\x00-\u0dff]+"
IDEOGRAPH = "[\u4e00-\u9fff]"

ALIKE = 0.4
"""To resemble a text, another one has to hold this share of those of its features that occur in other texts."""
ENOUGH = 0.2
"""To resemble a text, another one has to hold this share of all its features."""

FEW = 40
"""The weight of the features of a text that is neither short nor long."""


def features(text: str) -> dict[str, float]:
    """The words of a text and the runs of letters in them, each with its weight. A word weighs as much as all its runs
    together, so that long words do not count more than short ones."""
    found: dict[str, float] = {}
    for token in set(re.findall(TOKEN, normalize("NFKC", text).casefold())):
        if token >= "\u0e00":
            runs = [token[at : at + 2] for at in range(max(1, len(token) - 1))]
            found |= dict.fromkeys([*runs, *re.findall(IDEOGRAPH, token)], 1.0)
            continue
        word = f" {token} "
        share = 1 / (len(word) - 2)
        for at in range(len(word) - 2):
            run = word[at : at + 3]
            found[run] = found.get(run, 0.0) + share
        found[word] = found.get(word, 0.0) + 1.0
    return found


class Corpus:
    """Texts in their order. A feature that few of them hold counts more than one that many hold."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._holders: dict[str, list[int]] = {}
        self._size = 0
        for text in texts:
            for feature in features(text):
                self._holders.setdefault(feature, []).append(self._size)
            self._size += 1

    def unlikeness(self, text: str) -> float:
        """How much a text differs from all texts; a text of few words scores low, however rare they are."""
        return sum(self._worth(text).values()) / (sum(features(text).values()) + FEW)

    def scores(self, query: str) -> dict[int, float]:
        """The share of a query that each text holds, for texts that hold anything of it."""
        worth = self._worth(query)
        whole = sum(worth.values())
        return {index: value / whole for index, value in self._held(worth).items()}

    def successors(self, text: str, index: int = -1) -> list[tuple[float, int]]:
        """The texts that resemble the text at an index and come after it: the share of it that they hold, and their
        indexes, the best first. Without an index, the text is from elsewhere."""
        worth = self._worth(text)
        elsewhere = {each: value for each, value in worth.items() if len(self._holders.get(each, ())) > (index >= 0)}
        whole = sum(worth.values())
        least = max(ALIKE * sum(elsewhere.values()), ENOUGH * whole)
        found = self._held(elsewhere)
        return sorted(((value / whole, at) for at, value in found.items() if at > index and value >= least > 0))[::-1]

    def _worth(self, text: str) -> dict[str, float]:
        return {each: weight * self._rarity(each) for each, weight in features(text).items()}

    def _rarity(self, feature: str) -> float:
        held = len(self._holders.get(feature, ()))
        return log(1 + (self._size - held + 0.5) / (held + 0.5)) ** 2  # squared: common words are many

    def _held(self, worth: dict[str, float]) -> dict[int, float]:
        found: dict[int, float] = {}
        for feature, value in worth.items():
            for index in self._holders.get(feature, ()):
                found[index] = found.get(index, 0.0) + value
        return found
