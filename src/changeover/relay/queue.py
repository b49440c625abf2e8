"""The queue: tickets, claims and the protocol by which a store keeps them.

The log holds the work and its outcome; the queue only says which worker may do it. A ticket exists from the entry that
makes work outstanding to the entry that ends it. The worker that holds it shows its token with every entry that it
writes for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from msgspec import Struct

from changeover.facts import Ticket
from changeover.ids import claim_token
from changeover.relay.sanitize import text_of

SPACING = 1.0
"""Least distance in seconds between the tickets of one tree in the queue, so that a fan-out to a hundred receivers does
not delay all other conversations."""


def token_of(worker: str, number: str) -> str:
    """The token of a claim: the worker's name in a form that every store keeps, and a number of its own."""
    return claim_token(text_of(worker), number)


class Claim(Struct, frozen=True, gc=False):
    """The right to work on a ticket."""

    ticket: str
    token: str
    """Token of the holder; each claim has a new one, even by the same worker."""
    ends: bool = False
    """Whether the claim ends with the entry that shows it; a ticket that is still open then can be claimed again, even
    after its claim deadline."""


class Taken(Struct, frozen=True, gc=False):
    """A ticket that was claimed."""

    ticket: Ticket
    token: str
    attempt: int
    """Claim number of this ticket, from 1, without claims that were returned in good order."""


class Queued(Struct, frozen=True, gc=False):
    """The state of a ticket."""

    ticket: Ticket
    attempts: int = 0
    owner: str = ""
    """Token of the holder; empty without one, or if its lease has run out."""
    until: float | None = None
    rests: bool = False
    """Whether its agent waits for a person or a delegate, so that there is nothing to claim."""


class Bell(Protocol):
    """Signals that there may be tickets to claim."""

    async def wait(self) -> None:
        """Wait for a signal since the last one."""
        ...


class Queue(Protocol):
    """The tickets of a store. Leases use the store's clock, deadlines the caller's."""

    async def take(
        self, agents: Sequence[str], token: str, lease: float, limit: int, most: int, now: float
    ) -> list[Taken]:
        """Claim up to `limit` free tickets of these agents and count the claim: the highest priority first, then the
        earliest deadline, then the oldest. Tickets past their claim deadline, resting ones, and those claimed
        `most` times are skipped."""
        ...

    async def renew(self, claims: Sequence[Claim], lease: float) -> list[str]:
        """Extend the leases of these claims; return the tickets that they still hold."""
        ...

    async def give_back(self, claim: Claim, counted: bool) -> bool:
        """Release a claim; unless `counted`, its number is not used up. False if the claim did not hold the ticket."""
        ...

    async def worn_out(self, most: int) -> list[Queued]:
        """Free tickets that were claimed `most` times."""
        ...

    async def retry(self, ticket: str, offered: bool = False) -> bool:
        """Clear the holder and the claim count of a ticket, so that it can be claimed now. Its claim deadline stays
        only if it is `offered` and not accepted yet. False if there is no such ticket."""
        ...

    async def tickets(self, ticket: str | None = None) -> list[Queued]:
        """All tickets, or this one, in claim order."""
        ...

    def listening(self, agents: Sequence[str]) -> AbstractContextManager[Bell]:
        """A bell that signals from now on when there may be tickets for these agents."""
        ...
