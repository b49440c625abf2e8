"""The queue: tickets, claims and the port by which a store keeps them.

The log holds the work and its results; the queue only decides which worker does it. A ticket exists from the entry that
makes work outstanding to the entry that ends it. The worker that holds a ticket proves it with a token on every entry
that it appends.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from msgspec import Struct

from changeover.facts import Ticket
from changeover.ids import DEFAULT_TEAM

SPACING = 1.0
"""Minimum seconds between the turns of two tickets of one tree: a fan-out to a hundred receivers does not delay all
other conversations."""


class Claim(Struct, frozen=True, gc=False):
    """The right to work on a ticket."""

    ticket: str
    token: str
    """Identifies the owner; each claim has another, also of the same worker."""
    ends: bool = False
    """True if the claim ends with the entry that carries it: if the ticket is open then, any worker may claim it,
    without a claim deadline."""


class Taken(Struct, frozen=True, gc=False):
    """A ticket that was claimed."""

    ticket: Ticket
    token: str
    attempt: int
    """Claim number of this ticket, from 1; claims that were given back uncounted do not count."""
    at: float = 0.0
    """When it was claimed, by the clock of the team."""

    @property
    def claim(self) -> Claim:
        """The claim that the worker shows with every entry for this ticket."""
        return Claim(self.ticket.id, self.token)


class Take(NamedTuple):
    """A worker's request for tickets of these agents of a team."""

    agents: Sequence[str]
    token: str
    """Identifies the claims that it gets."""
    lease: float
    """Seconds for which they hold unless they are renewed."""
    limit: int
    most: int
    """Tickets that were claimed this often are skipped."""
    now: float
    """Tickets that were never claimed and whose deadline passed before this time are skipped."""
    team: str = DEFAULT_TEAM


class Queued(Struct, frozen=True, gc=False):
    """A ticket and its claim."""

    ticket: Ticket
    attempts: int = 0
    owner: str = ""
    """The token of the claim that holds it; empty if there is none, or its lease has run out."""
    until: float | None = None
    """When the lease of the owner runs out."""
    rests: bool = False
    """True while its agent waits for a person or a delegate: it cannot be claimed."""


REMEMBERED = 24 * 3600.0
"""Seconds for which a store remembers a worker that is gone; older ones are removed when a new worker comes."""


class SeenWorker(Struct, frozen=True, kw_only=True, gc=False):
    """A worker that a store has seen."""

    name: str
    agents: tuple[str, ...]
    """The agents whose tickets it claims."""
    started_at: float
    until: float
    """It counts as alive until then, unless it is seen again."""
    team: str = DEFAULT_TEAM


class Workers(Protocol):
    """The workers that claim tickets of a store, timed by the clocks of their teams."""

    async def seen(self, worker: SeenWorker, now: float) -> None:
        """Note that a worker is alive. One that was seen before keeps the time of its start, and the later `until`
        holds. A change of `until` by less than a quarter of the time until then is not written."""
        ...

    async def all(self) -> list[SeenWorker]:
        """The workers that the store remembers, those that are gone included, by team and name."""
        ...


class Bell(Protocol):
    """Rings when there may be a ticket to claim."""

    async def wait(self) -> None:
        """Return once it has rung since the last call."""
        ...


class Queue(Protocol):
    """The tickets of a store. Leases are timed by the store's clock, deadlines by the caller's."""

    async def take(self, take: Take) -> list[Taken]:
        """Claim free tickets that do not rest, and count an attempt of each: the highest priority first, then the
        earliest deadline, then the oldest."""
        ...

    async def renew(self, claims: Sequence[Claim], lease: float) -> list[str]:
        """Extend the leases of these claims; returns the tickets whose claims still hold."""
        ...

    async def give_back(self, claim: Claim, counted: bool) -> bool:
        """End a claim; unless `counted`, its attempt is not counted. False if the claim does not hold."""
        ...

    async def lapsed(self, least: int, team: str | None = None) -> list[Queued]:
        """The tickets of a team, or of all, that were claimed at least so often since their last progress, and are not
        held now."""
        ...

    async def lease_left(self) -> float | None:
        """Seconds until the next lease of a claim runs out; None if no ticket is held."""
        ...

    async def retry(self, ticket: str, offered: bool = False) -> bool:
        """Free a ticket, also from its owner, and clear its attempts. Its deadline is kept only if it is `offered` and
        not accepted yet. False if there is no such ticket."""
        ...

    async def tickets(self, ticket: str | None = None) -> list[Queued]:
        """All tickets, or this one, in the order in which they would be claimed."""
        ...

    def listening(self, agents: Sequence[str]) -> AbstractContextManager[Bell]:
        """A bell that rings when there may be a ticket to claim for these agents."""
        ...
