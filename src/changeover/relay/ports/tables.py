"""Ports of a store's side tables: agent profiles, contexts, learned outcomes, experiments, metric figures.

A window of time holds what happened after `since` and not after `until`, so consecutive windows count everything once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from math import inf
from typing import Literal, Protocol

from msgspec import Struct

from changeover.routing.experience import Outcome
from changeover.routing.profile import Profile
from changeover.routing.statistics import Measured


class Course(Struct, frozen=True, gc=False):
    """The course of one handoff."""

    sender: str
    receiver: str
    mode: str
    state: str
    offered_at: float
    accepted_at: float | None
    ended_at: float | None
    explained: bool
    """True if its state has a reason; a receiver that returns with the result gives none."""
    tokens_before: int
    tokens_after: int


class Expenses(Struct, frozen=True, gc=False):
    """The spending of an agent in runs that have ended."""

    agent: str
    runs: int = 0
    turns: int = 0
    retries: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0
    """In US dollars; None if the price of a call is unknown."""


class StepCourse(Struct, frozen=True, gc=False):
    """The course of one step of a workflow in a run that has ended."""

    workflow: str
    step: str
    status: str
    elapsed: float | None
    """Seconds from its first attempt to its end; None if it was skipped or cancelled."""
    retries: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0
    """In US dollars; None if the price of a call is unknown."""


class Refused(Struct, frozen=True, gc=False):
    """Number of handoffs that were refused before they were offered."""

    sender: str
    receiver: str
    """Empty if code asked for the handoff and its run ended with the refusal."""
    deadlock: bool
    count: int


class Opened(Struct, frozen=True, gc=False):
    """Number of times the circuit of a receiver opened."""

    receiver: str
    count: int


class Reached(Struct, frozen=True, gc=False):
    """Number of conversations that reached a limit."""

    limit: str
    """Its name, such as max_handoffs."""
    count: int


class Depth(Struct, frozen=True, gc=False):
    """Number of runs with so many handoffs."""

    handoffs: int
    runs: int


OccurrenceKind = Literal["refused", "deadlock", "limit", "spent", "depth", "waited", "worked"]


class Occurrence(Struct, frozen=True, kw_only=True):
    """One case that a figure counts."""

    conversation: str
    at: float
    agent: str = ""
    """The agent that handed over, was stopped by a limit, or spent something."""
    receiver: str = ""
    words: str = ""
    """Why, or which limit."""
    amount: float | None = None
    """Tokens, the number of handoffs, or seconds."""


class Measures(Protocol):
    """Figures of a log in a window of time."""

    def courses(self, since: float, until: float) -> AsyncIterator[Sequence[Course]]:
        """The handoffs that were offered in the window, in pages, by the time of the offer."""
        ...

    def steps(self, since: float, until: float, workflow: str = "") -> AsyncIterator[Sequence[StepCourse]]:
        """The steps of workflows, or of this one, in the runs that ended in the window, in pages."""
        ...

    async def expenses(self, since: float, until: float) -> list[Expenses]:
        """Spending in the runs that ended in the window, one item for each agent."""
        ...

    async def refused(self, since: float, until: float) -> list[Refused]:
        """The handoffs that guards, conditions and rules refused in the window."""
        ...

    async def opened(self, since: float, until: float) -> list[Opened]:
        """The circuits that opened in the window."""
        ...

    async def limits(self, since: float, until: float) -> list[Reached]:
        """The limits that conversations reached in the window, by name."""
        ...

    async def depths(self, since: float, until: float) -> list[Depth]:
        """The number of runs that ended in the window, by the number of their handoffs. A run of a delegate is a part
        of another run, and is not counted."""
        ...

    async def occurrences(
        self, kind: OccurrenceKind, since: float, until: float, name: str = "", most: int = 50
    ) -> list[Occurrence]:
        """The newest cases that a figure counts: of one agent if `name` is given; of this limit, or with this number of
        handoffs, if the kind is that. Of handoffs that waited for acceptance or were worked on, the slowest."""
        ...


class KeptAgent(Struct, frozen=True):
    """An agent as a store keeps it, beside its declaration in code."""

    id: str
    profile: Profile | None = None
    """None if the declared profile holds."""
    enabled: bool = True
    removed: bool = False
    updated_at: float = 0.0
    """In seconds since the epoch, by the store's clock."""

    @property
    def absent(self) -> bool:
        """True if it gets no handoffs."""
        return self.removed or not self.enabled


class Agents(Protocol):
    """Agents as a store keeps them, for all processes that share it."""

    async def all(self) -> list[KeptAgent]:
        """All of them by id, removed ones included."""
        ...

    async def put(self, profile: Profile) -> None:
        """Keep this profile instead of a former one with its id; a removed agent is restored."""
        ...

    async def switch(self, id: str, enabled: bool) -> None:
        """Enable or disable an agent, declared or kept; a removed agent is restored."""
        ...

    async def remove(self, id: str) -> None:
        """Remove an agent, declared or kept."""
        ...

    async def version(self) -> int:
        """A number that grows with every change, from 0."""
        ...


class Kept(Struct, frozen=True):
    """A context that was kept."""

    body: str
    expires_at: float | None = None
    """In seconds since the epoch, by the clock of the process that kept it; None is never."""


class Contexts(Protocol):
    """The contexts of a store, apart for each tree. An expired context is returned until it is swept; the caller
    checks its time."""

    async def put(self, root: str, id: str, body: str, expires_at: float | None = None) -> None:
        """Keep a context for the tree of this root. If the id exists, its body stays and the later expiry holds; None
        is never."""
        ...

    async def get(self, root: str, id: str) -> Kept | None:
        """The context of this id in this tree; None if there is none, even if another tree has it."""
        ...

    async def sweep(self, now: float) -> int:
        """Remove the contexts that have expired by then; returns their number."""
        ...


MOST = 1_000
"""Number of outcomes of a capability that are used: with the default half-life, the oldest weigh a thirtieth of the
newest."""


class Lesson(Struct, frozen=True, gc=False):
    """The outcome of one handoff whose receiver was found by capability."""

    handoff: str
    at: float
    """When the handoff ended, in seconds since the epoch."""
    outcome: Outcome


class Unlearned(Struct, frozen=True, gc=False):
    """Outcomes of this capability and agent that ended by this time do not count; an empty name means all."""

    capability: str
    agent: str
    at: float

    def covers(self, lesson: Lesson) -> bool:
        """True if this outcome does not count."""
        outcome = lesson.outcome
        named = self.capability in ("", outcome.capability) and self.agent in ("", outcome.agent)
        return named and lesson.at <= self.at


class Lessons(Protocol):
    """The outcomes in a store. Handoffs that were rejected, cancelled or rolled back have none."""

    async def outcomes(self, capability: str, after: float = -inf, most: int = MOST) -> list[Lesson]:
        """The latest outcomes that ended after this time and count, in the order of their ends."""
        ...

    async def capabilities(self) -> list[str]:
        """All capabilities by which receivers were searched, in order."""
        ...

    async def unlearned(self) -> list[Unlearned]:
        """All resets, by capability and agent."""
        ...

    async def reset(self, at: float, capability: str = "", agent: str = "") -> None:
        """Do not count outcomes that ended by this time, in all processes that share the store."""
        ...


class Tried(Protocol):
    """The root conversations that took part in experiments."""

    async def measured(self, experiment: str) -> list[Measured]:
        """The result of each conversation that is over, by id: whether its last run completed, what its tree spent, and
        how long its own runs took."""
        ...

    async def variants(self) -> dict[str, list[str]]:
        """The variants that were chosen, by experiment, also in conversations that are not over."""
        ...


class Trials(Tried, Protocol):
    """Experiments of a store that also keeps measures."""

    async def measure(self, conversation: str, name: str, value: float, at: float) -> None:
        """Keep a user's measure of a root, instead of a former one of this name. Raise ConversationNotFound if there is
        no such root."""
        ...
