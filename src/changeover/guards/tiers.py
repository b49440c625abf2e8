"""What kind of task this is, by its words: how long it is, what it touches, and whether it has steps."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from changeover.guards.limits import Tier

SEQUENCE = frozenset(
    {"then", "next", "after", "afterwards", "before", "first", "firstly", "second", "secondly", "third", "finally"}
    | {"lastly", "once", "until", "later", "step", "steps", "followed", "subsequently"}
)
CONJUNCTION = frozenset({"and", "also", "plus", "both", "including", "furthermore", "moreover", "besides"})
WORD = re.compile(r"[^\W_]+")

LONG, VERY_LONG = 40, 120
"""From how many words on a task weighs one point, and two."""
MEDIUM, COMPLEX = 1, 3
"""From how many points on a task is of this kind."""


class Choice(Struct, frozen=True, gc=False):
    """A kind of task, and why it is taken for that."""

    tier: Tier
    reason: str


def classify(task: str, capabilities: Iterable[str]) -> Choice:
    """The kind of a task. One point for each of: its length (two if it is very long), every capability that it names
    beyond the first, every word of sequence up to two, and two or more conjunctions."""
    words = [word.lower() for word in WORD.findall(task)]
    named = _named(words, capabilities)
    steps = sum(word in SEQUENCE for word in words)
    joints = sum(word in CONJUNCTION for word in words)
    length = (len(words) >= LONG) + (len(words) >= VERY_LONG)
    points = length + max(0, len(named) - 1) + min(2, steps) + (joints >= 2)
    tier: Tier = "complex" if points >= COMPLEX else "medium" if points >= MEDIUM else "simple"
    return Choice(tier, _reason(len(words), named, steps, joints))


def _named(words: list[str], capabilities: Iterable[str]) -> list[str]:
    """The capabilities of which every word is in the task."""
    said = {_stem(word) for word in words}
    each = dict.fromkeys(capabilities)
    return [name for name in each if (parts := WORD.findall(name.lower())) and all(_stem(p) in said for p in parts)]


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") else word


def _reason(words: int, named: list[str], steps: int, joints: int) -> str:
    parts = [_count(words, "word")]
    if named:
        parts.append(f"{_count(len(named), 'capability', 'capabilities')} ({', '.join(named)})")
    parts += [_count(steps, "word of sequence", "words of sequence")] if steps else []
    parts += [_count(joints, "conjunction")] if joints else []
    return ", ".join(parts)


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or f'{one}s'}"
