"""Who could take a task, and who of them fit it equally well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeVar, cast

from msgspec.structs import replace


class Candidate(Protocol):
    """A record of somebody who could take a task; a `Recommendation` is one."""

    @property
    def agent(self) -> str: ...

    @property
    def score(self) -> float:
        """How well it fits: more is better, and 0 is not at all."""
        ...

    @property
    def why(self) -> str: ...


C = TypeVar("C", bound=Candidate)


def because(candidate: C, reason: str) -> C:
    """The same candidate, with one more reason for its place."""
    told: C = replace(cast("Any", candidate), why="; ".join(filter(None, (candidate.why, reason))))
    return told


def comparable(candidates: Sequence[C], margin: float) -> Iterator[list[C]]:
    """Groups, the best first; in each, nobody fits worse than the best of it by more than this share of its score.
    Within a group the order stays as it was."""
    rest = list(candidates)
    while rest:
        best = max(each.score for each in rest)
        least = best - margin * abs(best)
        yield [each for each in rest if each.score >= least]
        rest = [each for each in rest if each.score < least]
