"""The queue: tickets, claims and the protocol by which a store keeps them.

The log says what is to be done and what came of it; the queue only says whose turn it is. A ticket exists from the
entry that makes work outstanding to the entry after which it is not, and the worker that holds it shows its token with
every entry that it writes for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from msgspec import Struct

from changeover.facts import Ticket
from changeover.relay.sanitize import text_of

SPACING = 1.0
"""By how many seconds the tickets of one tree stand apart at least, as if they had come one after the other: who fans
out to a hundred receivers does not stand before everybody else a hundred times."""


def token_of(worker: str, number: str) -> str:
    """What a worker shows for what it takes, as every store gives it back: who it is, and a number of its own."""
    return f"{text_of(worker)}#{number}".replace("\0", "\ufffd")


def worker_of(token: str) -> str:
    """Who shows this token."""
    return token.rpartition("#")[0] or token


class Claim(Struct, frozen=True, gc=False):
    """The right to work on a ticket."""

    ticket: str
    token: str
    """Whose it is; whoever takes again has another, also the same worker."""
    ends: bool = False
    """The claim is over with the entry that shows it: if the ticket is still open then, anybody may take it, whatever
    deadline there was for taking it first."""


class Taken(Struct, frozen=True, gc=False):
    """A ticket that was claimed."""

    ticket: Ticket
    token: str
    attempt: int
    """Claim number of this ticket, from 1; claims that were given back do not count."""

    @property
    def claim(self) -> Claim:
        """The claim that the worker shows with every entry for this ticket."""
        return Claim(self.ticket.id, self.token)


class Queued(Struct, frozen=True, gc=False):
    """How a ticket stands."""

    ticket: Ticket
    attempts: int = 0
    owner: str = ""
    """The token of whoever holds it; nothing if nobody does, or not in time."""
    until: float | None = None
    rests: bool = False
    """Its agent took it up, and now waits for a person or a delegate: there is nothing to claim until they are done."""


class Bell(Protocol):
    """Rings when there may be something to take."""

    async def wait(self) -> None:
        """Until it has rung since the last time."""
        ...


class Queue(Protocol):
    """The tickets of a store. Times of leases are by the store's own clock, deadlines by the caller's."""

    async def take(
        self, agents: Sequence[str], token: str, lease: float, limit: int, most: int, now: float
    ) -> list[Taken]:
        """Claim up to `limit` tickets of these agents that nobody holds, and count each as taken once more: the highest
        priority first, then the earliest deadline, then the oldest. Those that nobody took before their
        deadline, that rest, or that were taken `most` times are left alone."""
        ...

    async def renew(self, claims: Sequence[Claim], lease: float) -> list[str]:
        """Hold these for so much longer; the tickets that are still theirs."""
        ...

    async def give_back(self, claim: Claim, counted: bool) -> bool:
        """Let anybody take it; unless `counted`, as if this claim had never been. False if it was not theirs."""
        ...

    async def worn_out(self, most: int) -> list[Queued]:
        """Those that were taken `most` times, and that nobody holds now."""
        ...

    async def retry(self, ticket: str, offered: bool = False) -> bool:
        """Let anybody take it now, as if nobody ever had, whoever holds it; the deadline there was for taking it still
        stands only if it is `offered`, and nobody has accepted it. False if there is no such ticket."""
        ...

    async def tickets(self, ticket: str | None = None) -> list[Queued]:
        """All, or this one, in the order in which they would be taken."""
        ...

    def listening(self, agents: Sequence[str]) -> AbstractContextManager[Bell]:
        """Be told from now on when there may be something to take for these agents."""
        ...
