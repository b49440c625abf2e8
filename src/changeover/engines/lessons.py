"""Lessons from past tasks: cached per process for routing, summed up per agent, and reset."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

from msgspec import Struct

from changeover.relay.tables import MOST, Lesson, Lessons, Unlearned
from changeover.routing.experience import DEFAULT, Learned, Learning, Standing, summary, update
from changeover.routing.profile import key

if TYPE_CHECKING:
    from changeover.engines.local.engine import LocalEngine

MANY = 100
"""From so many outcomes on, one more changes little, and need not be known at once."""
PAUSE = 1.0
"""How many seconds what was learnt from so many is good for."""
OVERLAP = 30.0
"""So many seconds are looked at again: what others recorded may be seen late, and what failed may be taken back."""
CAPABILITIES = 256
"""What is learnt of more of them is not kept in the process: what models ask for is in their own words."""


class Known(Struct, frozen=True):
    """What this process has seen of a capability."""

    lessons: tuple[Lesson, ...] = ()
    unlearned: tuple[Unlearned, ...] = ()
    looked: float = -inf
    learned: Learned = Learned()


NOTHING = Known()


class Recollection:
    """What an engine has learnt, from its store."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine
        self._known: dict[str, Known] = {}

    async def learned(self, capability: str) -> Learned:
        """What is known of those who did tasks that needed this; if it is much, a moment ago."""
        known, now = self._known.get(capability, NOTHING), self._engine.world.clock.now()
        if len(known.lessons) < MANY or not 0 <= now - known.looked < PAUSE:
            learning = self._engine.world.routing.learning or DEFAULT
            known = await _looked(self._engine.log.experience, capability, known, now, learning)
        self._known.pop(capability, None)
        if len(self._known) >= CAPABILITIES:
            del self._known[next(iter(self._known))]
        self._known[capability] = known
        return known.learned


async def standings(
    lessons: Lessons, capability: str | None = None, agent: str | None = None, learning: Learning = DEFAULT
) -> list[Standing]:
    """How everybody stands, by capability, the best first; only at this capability, and only this agent, if named."""
    names = await lessons.capabilities() if capability is None else [key(capability)]
    found = [each for name in names for each in summary(folded(await lessons.outcomes(name), learning), learning)]
    return [each for each in found if agent in (None, each.agent)]


async def reset(lessons: Lessons, at: float, capability: str | None = None, agent: str | None = None) -> list[Standing]:
    """Count no longer what was until then, at this capability and of this agent, if they are named; how those stood
    of whom that forgets something."""
    before = await standings(lessons, capability, agent)
    if before:
        await lessons.reset(at, key(capability) if capability is not None else "", agent or "")
    return before


def folded(lessons: Sequence[Lesson], learning: Learning, learned: Learned = NOTHING.learned) -> Learned:
    """What these outcomes teach whoever knows this already."""
    for lesson in lessons:
        learned = update(learned, lesson.outcome, learning)
    return learned


async def _looked(lessons: Lessons, capability: str, known: Known, now: float, learning: Learning) -> Known:
    """The same, with what came since."""
    unlearned = tuple(await lessons.unlearned())
    anew = not known.lessons or unlearned != known.unlearned
    since = -inf if anew else known.lessons[-1].at - OVERLAP
    new = await lessons.outcomes(capability, since)
    kept = tuple([*(each for each in known.lessons if each.at <= since), *new][-MOST:])
    before = len(known.lessons)
    if kept[:before] == known.lessons:
        return Known(kept, unlearned, now, folded(kept[before:], learning, known.learned))
    return Known(kept, unlearned, now, folded(kept, learning))
