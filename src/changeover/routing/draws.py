"""Chance that can be told again: numbers between 0 and 1 that follow from a text."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from itertools import count
from typing import TypeAlias

Draws: TypeAlias = Iterator[float]
"""Whoever needs chance is handed some. There is always one more."""


def draws(*seed: str) -> Draws:
    """Endless numbers from 0 up to 1, the same for the same texts in every process."""
    for number in count():
        yield draw(*seed, str(number))


def draw(*seed: str) -> float:
    """One number from 0 up to 1 for these texts."""
    digest = blake2b(digest_size=8)
    for part in seed:
        text = part.encode("utf-8", "surrogatepass")
        # The length first: ("ab", "c") and ("a", "bc") are two seeds.
        digest.update(len(text).to_bytes(8, "big") + text)
    return (int.from_bytes(digest.digest(), "big") >> 11) / 2**53
