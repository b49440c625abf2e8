"""Tickets to put into a queue, and the Scribe that puts, takes and works on them."""

from collections.abc import Sequence
from typing import Any

from changeover.facts import Ticket
from changeover.relay.ports.log import Head, Log
from changeover.relay.ports.queue import Claim, Queued, Take, Taken
from tests.stores.entries import more, opening

LONG, OVER = 60.0, -1.0
"""Leases: one that lasts, and one that has run out when it is taken."""


def ticket(id: str, agent: str = "a", root: str = "", at: float = 1.0, **more: Any) -> Ticket:
    """Of a tree of its own, unless a root is given."""
    return Ticket(id=id, agent=agent, conversation="c", place="c", root=root or f"root of {id}", at=at, **more)


class Scribe:
    """Appends to one conversation, an entry at a time; what was refused may be tried again."""

    def __init__(self, log: Log, conversation: str = "c", working: bool = False) -> None:
        self._log, self._conversation, self._working, self.end = log, conversation, working, 0

    async def write(
        self, *tickets: Ticket, claim: Claim | None = None, rests: Sequence[str] = (), gone: Sequence[str] = ()
    ) -> None:
        entry = more(self.end, "", self._conversation) if self.end else opening(self._conversation)
        head = Head("running", "front", self._working, None, tickets, tuple(rests), tuple(gone))
        await self._log.append(entry, head, None, claim)
        self.end += len(entry.events)


async def take(log: Log, agents: str = "a", **how: Any) -> list[Taken]:
    """Take for agents whose names are letters."""
    terms: dict[str, Any] = {"token": "me", "lease": LONG, "limit": 100, "most": 3, "now": 0.0} | how
    return await log.queue.take(Take(list(agents), **terms))


async def taken(log: Log, agents: str = "a", **how: Any) -> list[str]:
    return [each.ticket.id for each in await take(log, agents, **how)]


async def standing(log: Log, id: str) -> Queued:
    [found] = await log.queue.tickets(id)
    return found
