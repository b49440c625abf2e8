"""Routing: the settings by which a team finds agents, and the order of candidates that follows from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from changeover.facts import NoTakers
from changeover.routing.broker import Recommendation
from changeover.routing.experience import DEFAULT, Learned, Learning, reorder
from changeover.routing.load import Load, WhenBusy, busy_faults, by_load
from changeover.routing.statistics import Draws


class Routing(Struct, frozen=True, kw_only=True):
    """How a team finds agents for tasks: `Team(…, routing=Routing(…))`."""

    learning: Learning | None = DEFAULT
    """How outcomes of earlier tasks count; None switches learning off."""
    when_busy: WhenBusy = "next"
    """If the best agent is busy: the "next" best gets the task, it waits in the "queue" of the best, or "reject"."""
    no_takers: NoTakers = "return"
    """If no agent accepts a task of `Team.broker`: "return" it, or "queue" it for the best match."""
    match: Literal["words", "meaning"] = "words"
    """How texts are compared: by "words" or, with the extra `wordllama`, by "meaning". Both work offline."""
    judge: bool = True
    """True if a model chooses when neither capabilities nor texts give a clear match."""

    def faults(self) -> list[str]:
        """The faults of these settings, one text each."""
        learning = self.learning.faults() if isinstance(self.learning, Learning) else []
        if self.learning is not None and not isinstance(self.learning, Learning):
            learning = [f"learning={self.learning!r}; give Learning(…), or None to switch it off"]
        found = [*learning, *busy_faults(self.when_busy), *taker_faults(self.no_takers)]
        if self.match not in ("words", "meaning"):
            found.append(f"match={self.match!r}; give 'words' or 'meaning'")
        return [f"Routing(…) has {fault}" for fault in found]


def taker_faults(no_takers: object) -> list[str]:
    """The faults of the declaration `no_takers=…`."""
    return [] if no_takers in ("return", "queue") else [f"no_takers={no_takers!r}; give 'return' or 'queue'"]


def ordered(
    candidates: Sequence[Recommendation],
    capability: str,
    loads: Mapping[str, Load],
    learned: Learned,
    draws: Draws,
    routing: Routing,
) -> list[Recommendation]:
    """The candidates in the order in which they get the offer: by score, of equals the least loaded first, then by
    experience with the capability if there is some."""
    by_work = by_load(candidates, loads, draws)
    if routing.learning is None or not learned.experiences.get(capability):
        return by_work
    return reorder(learned, by_work, capability, draws, routing.learning)
