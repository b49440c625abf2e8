"""Limits of one run with all its handoffs and delegates, and the tiers that choose them by the words of a task."""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import inf
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from changeover.faults import LimitName

BUDGETS: frozenset[LimitName] = frozenset({"max_tokens", "max_cost", "timeout"})
"""Limits after which an agent, with `on_limit="tell"`, may still write a last answer."""

Tier: TypeAlias = Literal["simple", "medium", "complex"]

TIERS: dict[Tier, dict[str, int]] = {
    "simple": {"max_handoffs": 0, "max_tokens": 10_000, "max_agents": 1},
    "medium": {"max_handoffs": 2, "max_tokens": 25_000, "max_agents": 3},
    "complex": {"max_handoffs": 5, "max_tokens": 150_000, "max_agents": 5},
}
"""The limits of a simple, a medium and a complex task."""


class Limits(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The limits of a run with all its handoffs and delegates.

    Handoffs, model turns and agents never exceed them. Tokens and cost are checked before each model call: calls that
    are under way at that moment can exceed the limit, and `EconomicLimitExceeded.overshoot` says by how much.
    """

    max_handoffs: int = 10
    """Transfers, delegates and branches, each of which counts as one."""
    max_turns: int = 50
    """Replies of models."""
    max_depth: int = 5
    """How many levels of delegates may be nested."""
    on_limit: Literal["raise", "tell"] = "raise"
    """"raise" ends the run with EconomicLimitExceeded; "tell" tells the agent, which answers itself."""
    max_tokens: int | None = None
    """Input and output tokens together; None for no limit."""
    max_cost: float | None = None
    """In US dollars; None for no limit. A call whose price is unknown ends the run."""
    max_agents: int | None = None
    """How many different agents may work, including the first; None for no limit."""
    timeout: float | None = None
    """In seconds; None for no limit. The time in which the run waits for people does not count."""
    auto: Literal["", "words", "judge"] = ""
    """How handoffs, tokens and agents are limited by the kind of task: see `Limits.tier("auto")`."""

    @classmethod
    def tier(cls, name: Tier | Literal["auto"], *, judge: bool = False, **others: Any) -> Limits:
        """The limits of a "simple", "medium" or "complex" task; `others` are further limits, by name.

        With "auto" the kind of each task is found when its run begins: by its words or, with `judge`, by the team's
        `helper_model`. Raises ValueError for another name.
        """
        if name == "auto":
            return cls(auto="judge" if judge else "words", **others)
        if name not in TIERS:
            raise ValueError(f"there is no tier {name!r}; there are: {', '.join(TIERS)}, auto")
        return cls(**{**TIERS[name], **others})

    def as_tier(self, tier: Tier) -> Limits:
        """These limits for a task of the kind `tier`."""
        return replace(self, auto="", **TIERS[tier])

    def faults(self) -> list[str]:
        """The faults of these limits, one text each."""
        found = []
        for name, least, words in WHOLE:
            value = getattr(self, name)
            if value is None and name in OPTIONAL:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                found.append(f"{name} is {value!r}; give {words} or more")
        for name in ("max_cost", "timeout"):
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not (number and 0 < value < inf):
                found.append(f"{name} is {value!r}; give a number above 0, or None for no limit")
        if self.on_limit not in ("raise", "tell"):
            found.append(f"on_limit is {self.on_limit!r}; give 'raise' or 'tell'")
        if self.auto not in ("", "words", "judge"):
            found.append(f"auto is {self.auto!r}; use Limits.tier('auto')")
        return found


def limit_faults(declared: object) -> list[str]:
    """The faults of the declaration `limits=…`, one text each; None is valid."""
    if isinstance(declared, Limits):
        return declared.faults()
    if declared is None:
        return []
    return [f"limits={declared!r} is not a Limits(…); give one, such as Limits(max_turns=20)"]


WHOLE = (
    ("max_handoffs", 0, "0 (no handoffs)"),
    ("max_turns", 1, "1"),
    ("max_depth", 0, "0 (no delegates)"),
    ("max_tokens", 1, "1"),
    ("max_agents", 1, "1"),
)
OPTIONAL = frozenset({"max_tokens", "max_agents"})


SEQUENCE = frozenset(
    {"then", "next", "after", "afterwards", "before", "first", "firstly", "second", "secondly", "third", "finally"}
    | {"lastly", "once", "until", "later", "step", "steps", "followed", "subsequently"}
)
CONJUNCTION = frozenset({"and", "also", "plus", "both", "including", "furthermore", "moreover", "besides"})
WORD = re.compile(r"[^\W_]+")

LONG, VERY_LONG = 40, 120
"""The words from which a task gets one point, and two points."""
MEDIUM, COMPLEX = 1, 3
"""The points from which a task is of this kind."""


class Choice(Struct, frozen=True, gc=False):
    """The kind of a task, and the reason."""

    tier: Tier
    reason: str


def classify(task: str, capabilities: Iterable[str]) -> Choice:
    """The kind of a task, by points: one if it is long (two if very long), one for each capability that it names beyond
    the first, one for each word of sequence up to two, and one for two or more conjunctions."""
    words = [word.lower() for word in WORD.findall(task)]
    named = _named(words, capabilities)
    steps = sum(word in SEQUENCE for word in words)
    joints = sum(word in CONJUNCTION for word in words)
    length = (len(words) >= LONG) + (len(words) >= VERY_LONG)
    points = length + max(0, len(named) - 1) + min(2, steps) + (joints >= 2)
    tier: Tier = "complex" if points >= COMPLEX else "medium" if points >= MEDIUM else "simple"
    return Choice(tier, _reason(len(words), named, steps, joints))


def _named(words: list[str], capabilities: Iterable[str]) -> list[str]:
    """The capabilities whose words are all in the task."""
    stems = {_stem(word) for word in words}
    each = dict.fromkeys(capabilities)
    return [name for name in each if (parts := WORD.findall(name.lower())) and all(_stem(p) in stems for p in parts)]


def _stem(word: str) -> str:
    # Not routing.words.stem, which is in a higher room and rougher: it would move tasks to other tiers.
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
