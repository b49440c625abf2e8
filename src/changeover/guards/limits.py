"""Limits of one run, its handoffs, delegates and branches included."""

from __future__ import annotations

from math import inf
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from changeover.faults import LimitName

BUDGETS: frozenset[LimitName] = frozenset({"max_tokens", "max_cost", "timeout"})
"""Limits past which an agent that is told may still say its last word."""

Tier: TypeAlias = Literal["simple", "medium", "complex"]

TIERS: dict[Tier, dict[str, int]] = {
    "simple": {"max_handoffs": 0, "max_tokens": 10_000, "max_agents": 1},
    "medium": {"max_handoffs": 2, "max_tokens": 25_000, "max_agents": 3},
    "complex": {"max_handoffs": 5, "max_tokens": 150_000, "max_agents": 5},
}
"""What a task of each kind may take."""


class Limits(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How far a run may go; past it the run raises, or the agent is told and answers itself.

    Handoffs, model turns and agents are never more than this. Tokens and cost are looked at before each call of a
    model: calls that are under way by then are still paid for, and the error says by how much that was too much.
    """

    max_handoffs: int = 10
    max_turns: int = 50
    """How often models may be asked for a reply."""
    max_depth: int = 5
    """How deep delegates may delegate in turn."""
    on_limit: Literal["raise", "tell"] = "raise"
    max_tokens: int | None = None
    """Read and written, together."""
    max_cost: float | None = None
    """In US dollars. A call whose price is not known ends the run: what it costs could not be kept below anything."""
    max_agents: int | None = None
    """How many different agents may work, the first included."""
    timeout: float | None = None
    """In how many seconds the run has to be done; it stands still while a person is awaited."""
    auto: Literal["", "words", "judge"] = ""
    """Whether handoffs, tokens and agents are limited by what the task is like: see `Limits.tier("auto")`."""

    @classmethod
    def tier(cls, name: Tier | Literal["auto"], *, judge: bool = False, **others: Any) -> Limits:
        """The limits of a simple, medium or complex task. With "auto" each task is looked at when its run begins: by
        its words or, with `judge`, by the team's `helper_model`."""
        if name == "auto":
            return cls(auto="judge" if judge else "words", **others)
        if name not in TIERS:
            raise ValueError(f"there is no tier {name!r}; there are: {', '.join(TIERS)}, auto")
        return cls(**{**TIERS[name], **others})

    def as_tier(self, tier: Tier) -> Limits:
        """These limits for a task that was found to be of this kind."""
        return replace(self, auto="", **TIERS[tier])

    def faults(self) -> list[str]:
        """What is wrong with these limits."""
        found = []
        for name, least, said in WHOLE:
            value = getattr(self, name)
            if value is None and name in OPTIONAL:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                found.append(f"{name} is {value!r}; give {said} or more")
        for name in ("max_cost", "timeout"):
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not (number and 0 < value < inf):
                found.append(f"{name} is {value!r}; give a number above 0, or None for no limit")
        if self.on_limit not in ("raise", "tell"):
            found.append(f"on_limit is {self.on_limit!r}; give 'raise' or 'tell'")
        if self.auto not in ("", "words", "judge"):
            found.append(f"auto is {self.auto!r}; say Limits.tier('auto')")
        return found


def limit_faults(declared: object) -> list[str]:
    """What is wrong with what was given as limits, if anything was."""
    if isinstance(declared, Limits):
        return declared.faults()
    if declared is None:
        return []
    return [f"limits={declared!r} are no limits; give Limits(…), such as Limits(max_turns=20)"]


WHOLE = (
    ("max_handoffs", 0, "0 (no handoffs)"),
    ("max_turns", 1, "1"),
    ("max_depth", 0, "0 (no delegates)"),
    ("max_tokens", 1, "1"),
    ("max_agents", 1, "1"),
)
OPTIONAL = frozenset({"max_tokens", "max_agents"})
