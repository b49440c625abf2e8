"""Ports of a store's side tables: agent profiles, contexts, learned outcomes, experiments, metric figures.

A window of time is what happened after `since` and not after `until`, so that consecutive windows count everything
once. Each tree keeps its own contexts. Nothing is written when a task ends: the log already says how its handoff ended.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from math import inf
from typing import Protocol

from msgspec import Struct

from changeover.facts import Mode, State
from changeover.routing.experience import Outcome
from changeover.routing.profile import Profile
from changeover.routing.statistics import Measured


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


class KeptAgent(Struct, frozen=True):
    """What a store says of one agent."""

    id: str
    profile: Profile | None = None
    """None leaves it as it was declared."""
    enabled: bool = True
    removed: bool = False
    updated_at: float = 0.0
    """In seconds since the epoch, by the clock of the store."""

    @property
    def absent(self) -> bool:
        """Whether nothing is handed to it."""
        return self.removed or not self.enabled


class Agents(Protocol):
    """What a store says of agents, to everybody who shares it."""

    async def all(self) -> list[KeptAgent]:
        """Everything it says, by the ids; those that were removed too."""
        ...

    async def put(self, profile: Profile) -> None:
        """Keep this profile, in the place of another with its id; one that was removed is there again."""
        ...

    async def switch(self, id: str, enabled: bool) -> None:
        """Enable or disable an agent, whoever declared it; one that was removed is there again."""
        ...

    async def remove(self, id: str) -> None:
        """Leave an agent out, whoever declared it."""
        ...

    async def version(self) -> int:
        """A number that grows with every change; 0 if there was none."""
        ...


class Kept(Struct, frozen=True):
    """What was kept."""

    body: str
    expires_at: float | None = None
    """In seconds since the epoch, by the clock of whoever kept it."""


class Contexts(Protocol):
    """The contexts of a store. Whether one has expired is for whoever gets it to judge; it is there until it is swept
    away."""

    async def put(self, root: str, id: str, body: str, expires_at: float | None = None) -> None:
        """Keep it for the tree of this root. What is there under this id stays, but lives until the later of both
        times; None is for ever."""
        ...

    async def get(self, root: str, id: str) -> Kept | None:
        """What was kept under this id in this very tree; None if nothing was, wherever else it may be."""
        ...

    async def sweep(self, now: float) -> int:
        """Remove all that has expired by then; how many."""
        ...


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


class Tried(Protocol):
    """Conversations that took part in experiments; each is the root of its tree."""

    async def measured(self, experiment: str) -> list[Measured]:
        """What came of each conversation that is over, by their ids: whether its last run completed, what its whole
        tree spent, and how long its own runs took."""
        ...

    async def variants(self) -> dict[str, list[str]]:
        """Which variants were ever chosen, by experiment; also where conversations are still under way."""
        ...


class Trials(Tried, Protocol):
    """The same, where something can be added."""

    async def measure(self, conversation: str, name: str, value: float, at: float) -> None:
        """Keep what somebody measured of a root; what was measured under this name before is forgotten. Raise
        ConversationNotFound if there is no such root."""
        ...
