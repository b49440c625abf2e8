"""What became of tasks whose receivers were looked for, as a store tells it, in the core's words.

Nothing is written when such a task ends: how its handoff ended is in the log anyway, and counts once for that reason.
"""

from __future__ import annotations

from math import inf
from typing import Protocol

from msgspec import Struct

from changeover.routing.utility import Outcome

MOST = 1_000
"""So many outcomes of a capability are remembered: the oldest of them count a thirtieth of the newest, and less."""


class Lesson(Struct, frozen=True, gc=False):
    """What became of one handoff whose receiver was looked for."""

    handoff: str
    at: float
    """When it ended, in seconds since the epoch."""
    outcome: Outcome


class Unlearned(Struct, frozen=True, gc=False):
    """What ended by this time counts no longer: at this capability, of this agent; at all or of all, without a name."""

    capability: str
    agent: str
    at: float

    def covers(self, lesson: Lesson) -> bool:
        """Whether this outcome counts no longer."""
        outcome = lesson.outcome
        named = self.capability in ("", outcome.capability) and self.agent in ("", outcome.agent)
        return named and lesson.at <= self.at


class Lessons(Protocol):
    """The outcomes that a store knows of. What was rejected, cancelled or rolled back is none."""

    async def outcomes(self, capability: str, after: float = -inf, most: int = MOST) -> list[Lesson]:
        """The last of those that ended after then and count, in the order in which they ended."""
        ...

    async def capabilities(self) -> list[str]:
        """By what receivers were ever looked for, in order."""
        ...

    async def unlearned(self) -> list[Unlearned]:
        """What was ever reset, in order of its names."""
        ...

    async def reset(self, at: float, capability: str = "", agent: str = "") -> None:
        """What ended by this time counts no longer, here and for all who share the store."""
        ...
