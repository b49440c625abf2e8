"""Lessons from past tasks: cached per process for routing, summed up per agent, and reset."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from msgspec import Struct

from changeover.relay.ports.log import Log
from changeover.relay.ports.tables import MOST, Lesson, Lessons, Unlearned
from changeover.routing.experience import DEFAULT, Learned, Learning, Standing, summary, update
from changeover.routing.profile import key

MANY = 100
"""From this number of outcomes on, one more changes little, and the cache may be slightly old."""
PAUSE = 1.0
"""Seconds for which the cache of a capability with many outcomes is used."""
OVERLAP = 30.0
"""Seconds that are read again at each look: outcomes of other processes may become visible late, and a failure may be
taken back."""
CAPABILITIES = 256
"""Number of capabilities in the cache; models name them in their own words, so there is no end to them."""


class Known(Struct, frozen=True):
    """The cached lessons of one capability."""

    lessons: tuple[Lesson, ...] = ()
    unlearned: tuple[Unlearned, ...] = ()
    looked: float = -inf
    learned: Learned = Learned()


NOTHING = Known()


class Recollection:
    """A cache of lessons, by capability."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: dict[str, Known] = {}

    async def learned(self, capability: str, now: float, learning: Learning = DEFAULT) -> Learned:
        """Experience from tasks that needed this capability; with many outcomes it may be a second old."""
        known = self._known.get(capability, NOTHING)
        if len(known.lessons) < MANY or not 0 <= now - known.looked < PAUSE:
            known = await _updated(self._log.experience, capability, known, now, learning)
        self._known.pop(capability, None)
        if len(self._known) >= CAPABILITIES:
            del self._known[next(iter(self._known))]
        self._known[capability] = known
        return known.learned


async def standings(
    lessons: Lessons, capability: str | None = None, agent: str | None = None, learning: Learning = DEFAULT
) -> list[Standing]:
    """The standings of agents by capability, the best first; of one capability or one agent if named."""
    names = await lessons.capabilities() if capability is None else [key(capability)]
    found = [each for name in names for each in summary(folded(await lessons.outcomes(name), learning), learning)]
    return [each for each in found if agent in (None, each.agent)]


async def reset(lessons: Lessons, at: float, capability: str | None = None, agent: str | None = None) -> list[Standing]:
    """Ignore outcomes until `at`, of one capability or one agent if named; returns the standings that this forgets."""
    before = await standings(lessons, capability, agent)
    if before:
        await lessons.reset(at, key(capability) if capability is not None else "", agent or "")
    return before


def folded(lessons: Sequence[Lesson], learning: Learning, learned: Learned = NOTHING.learned) -> Learned:
    """The experience with these outcomes added."""
    for lesson in lessons:
        learned = update(learned, lesson.outcome, learning)
    return learned


async def _updated(lessons: Lessons, capability: str, known: Known, now: float, learning: Learning) -> Known:
    """The cached lessons with those that came since."""
    unlearned = tuple(await lessons.unlearned())
    anew = not known.lessons or unlearned != known.unlearned
    since = -inf if anew else known.lessons[-1].at - OVERLAP
    new = await lessons.outcomes(capability, since)
    kept = tuple([*(each for each in known.lessons if each.at <= since), *new][-MOST:])
    before = len(known.lessons)
    if kept[:before] == known.lessons:
        return Known(kept, unlearned, now, folded(kept[before:], learning, known.learned))
    return Known(kept, unlearned, now, folded(kept, learning))
