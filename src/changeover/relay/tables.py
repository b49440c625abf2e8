"""What a log can say about how handoffs went: the figures that metrics are made of. A window is what happened after
`since` and not after `until`, so that windows which follow one another count everything once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from msgspec import Struct

from changeover.facts import Mode, State


class Course(Struct, frozen=True, gc=False):
    """How one handoff went."""

    sender: str
    receiver: str
    mode: Mode | str
    state: State | str
    offered_at: float
    accepted_at: float | None
    ended_at: float | None
    explained: bool
    """Whether there is a reason for how it stands; who comes back with what was asked for needs none."""
    tokens_before: int
    tokens_after: int


class Expenses(Struct, frozen=True, gc=False):
    """What an agent spent in the runs that ended."""

    agent: str
    runs: int = 0
    turns: int = 0
    retries: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0
    """In US dollars; None if the price of one call is unknown."""


class Refused(Struct, frozen=True, gc=False):
    """How many handoffs were refused before they were offered."""

    sender: str
    receiver: str
    """Nobody, if it was code that wanted to hand over, and its run ended with the refusal."""
    deadlock: bool
    count: int


class Opened(Struct, frozen=True, gc=False):
    """How often the circuit of a receiver opened."""

    receiver: str
    count: int


class Measures(Protocol):
    """What a log can count, in a window of time."""

    def courses(self, since: float, until: float) -> AsyncIterator[Sequence[Course]]:
        """The handoffs that were offered then, in pages, by the time of their offers."""
        ...

    async def expenses(self, since: float, until: float) -> list[Expenses]:
        """What was spent in the runs that ended then, an agent each."""
        ...

    async def refused(self, since: float, until: float) -> list[Refused]:
        """What guards, conditions and rules did not let be then."""
        ...

    async def opened(self, since: float, until: float) -> list[Opened]:
        """The circuits that opened then."""
        ...
