"""What the writer is asked to do about tickets, apart from what entries do to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from changeover.relay.queue import Claim, Taken
from changeover.stores.sql.jobs import LARGEST
from changeover.stores.sql.side_jobs import Beside

T = TypeVar("T")


class QueueJob(Beside[T]):
    """Something about tickets."""

    __slots__ = ()

    def __init__(self, result: T, tickets: Sequence[str] = ()) -> None:
        super().__init__(result, share=1 / LARGEST)
        self.tickets = tickets


class Take(QueueJob[list[Taken]]):
    """Claim what is most urgent."""

    __slots__ = ("agents", "lease", "limit", "most", "now", "token")

    def __init__(self, agents: Sequence[str], token: str, lease: float, limit: int, most: int, now: float) -> None:
        super().__init__([])
        self.agents, self.token, self.lease, self.limit = agents, token, lease, limit
        self.most, self.now = most, now


class Renew(QueueJob[list[str]]):
    """Hold tickets for longer."""

    __slots__ = ("claims", "lease")

    def __init__(self, claims: Sequence[Claim], lease: float) -> None:
        super().__init__([], [claim.ticket for claim in claims])
        self.claims, self.lease = claims, lease


class GiveBack(QueueJob[bool]):
    """Let anybody take a ticket."""

    __slots__ = ("claim", "counted")

    def __init__(self, claim: Claim, counted: bool) -> None:
        super().__init__(False, (claim.ticket,))
        self.claim, self.counted = claim, counted


class Retry(QueueJob[bool]):
    """Let anybody take a ticket, as if nobody ever had."""

    __slots__ = ("offered",)

    def __init__(self, ticket: str, offered: bool) -> None:
        super().__init__(False, (ticket,))
        self.offered = offered
