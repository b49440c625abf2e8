"""Routing: the settings by which a team finds agents, and the order and placement that follow from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from changeover.facts import NoTakers
from changeover.routing.broker import Recommendation
from changeover.routing.experience import DEFAULT, Learned, Learning, reorder
from changeover.routing.load import Load, Placement, WhenBusy, busy_faults, by_load, place
from changeover.routing.statistics import Draws


class Routing(Struct, frozen=True, kw_only=True):
    """What a team says about it: `learning=None` switches learning off."""

    learning: Learning | None = DEFAULT
    when_busy: WhenBusy = "next"
    """What becomes of a task if the best for it can do no more now: the next best, its queue, or nobody."""
    no_takers: NoTakers = "return"
    """What becomes of what `Team.broker` finds no taker for: it comes back, or waits in the queue of the best."""
    match: Literal["words", "meaning"] = "words"
    """How texts are compared: by their words or, with the extra `wordllama`, by what these mean. Both work offline."""
    judge: bool = True
    """Whether a model is asked when neither capabilities nor words tell who fits."""

    def faults(self) -> list[str]:
        """What is wrong with it."""
        learning = self.learning.faults() if isinstance(self.learning, Learning) else []
        if self.learning is not None and not isinstance(self.learning, Learning):
            learning = [f"learning={self.learning!r}; give Learning(…), or None to switch it off"]
        found = [*learning, *busy_faults(self.when_busy), *taker_faults(self.no_takers)]
        if self.match not in ("words", "meaning"):
            found.append(f"match={self.match!r}; give 'words' or 'meaning'")
        return [f"Routing(…) has {fault}" for fault in found]


def taker_faults(no_takers: object) -> list[str]:
    """What is wrong with what was said of tasks that nobody takes."""
    return [] if no_takers in ("return", "queue") else [f"no_takers={no_takers!r}; give 'return' or 'queue'"]


def ordered(
    candidates: Sequence[Recommendation],
    capability: str,
    loads: Mapping[str, Load],
    learned: Learned,
    draws: Draws,
    routing: Routing,
) -> list[Recommendation]:
    """Who should be asked first: of equals whoever has least to do, and, where something is known of how well they did
    such tasks, by that."""
    by_work = by_load(candidates, loads, draws)
    if routing.learning is None or not learned.experiences.get(capability):
        return by_work
    return reorder(learned, by_work, capability, draws, routing.learning)


def placed(candidates: Sequence[Recommendation], loads: Mapping[str, Load], routing: Routing) -> Placement:
    """Who gets the task of these, in their order, if somebody can do no more."""
    return place(candidates, loads, routing.when_busy)
