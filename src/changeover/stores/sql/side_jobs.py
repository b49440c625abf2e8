"""Side jobs: requests to the writer that need a transaction of their own kind, and the queue of those."""

from __future__ import annotations

from typing import Any, TypeVar

from changeover.stores.sql.jobs import Job

T = TypeVar("T")


class Beside(Job[T]):
    """Something that is done in a transaction beside those of entries, whether or not this process has its lease."""

    __slots__ = ("share",)

    def __init__(self, result: T, share: float, root: str = "") -> None:
        super().__init__(root, root, result)
        self.share = share
        """How much of a transaction it fills, from 0 to 1 or more."""


class Waiting:
    """Those that wait, by kind: only what is of one kind goes into one transaction."""

    def __init__(self, *kinds: type[Beside[Any]]) -> None:
        self._jobs: dict[type[Beside[Any]], list[Beside[Any]]] = {kind: [] for kind in kinds}
        self._any = False

    def __bool__(self) -> bool:
        return self._any

    def put(self, job: Beside[Any]) -> None:
        next(jobs for kind, jobs in self._jobs.items() if isinstance(job, kind)).append(job)
        self._any = True

    def take(self) -> list[list[Beside[Any]]]:
        """Of each kind as many as fill one transaction; what is too large for any has one to itself."""
        taken = []
        for kind, jobs in self._jobs.items():
            if jobs:
                count = _fitting(jobs)
                taken.append(jobs[:count])
                self._jobs[kind] = jobs[count:]
        self._any = any(self._jobs.values())
        return taken


def _fitting(jobs: list[Beside[Any]]) -> int:
    """How many of the first of these share a transaction."""
    filled = jobs[0].share
    for count, job in enumerate(jobs[1:], 1):
        filled += job.share
        if filled > 1:
            return count
    return len(jobs)
