"""Jobs: requests to the writer, and how their callers get the results."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

from changeover.relay.events import Entry
from changeover.relay.ports import Circuits, Head, Reserve
from changeover.relay.projection.admission import about_tickets
from changeover.relay.projection.rows import Rows
from changeover.relay.queue import Claim
from changeover.stores.codec import encode

T = TypeVar("T")

LARGEST = 1_000
"""How many jobs go into one transaction at most."""


class Job(Generic[T]):
    """Something to write for a conversation; the loop that asked for it waits for the outcome."""

    __slots__ = ("circuits", "conversation", "error", "future", "result", "root", "tickets", "tried")

    def __init__(self, conversation: str, root: str, result: T) -> None:
        self.conversation, self.root, self.result = conversation, root, result
        self.future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.error: Exception | None = None
        self.tickets: Sequence[str] = ()
        """Those that it is about."""
        self.circuits: Circuits | None = None
        """Those that it is about, if it is about any."""
        self.tried = False
        """Whether it may be done already, by a commit of which nobody heard."""


class Append(Job[None]):
    """Record an entry."""

    __slots__ = ("body", "claim", "entry", "epoch", "head", "reserve", "rows")

    def __init__(
        self,
        entry: Entry,
        head: Head | None,
        reserve: Reserve | None,
        claim: Claim | None,
        circuits: Circuits | None,
        rows: Rows | None,
    ) -> None:
        self.body, events = encode(entry.events)
        super().__init__(entry.conversation, entry.root, None)
        self.entry, self.head, self.reserve, self.claim = entry, head, reserve, claim
        self.rows = rows if rows is None or events is entry.events else rows.storable()
        self.circuits = circuits
        self.epoch = 0
        """The epoch of the lease under which it was asked for."""
        if about_tickets(head, claim):
            self.tickets = _tickets(head, claim)


class Own(Job[bool]):
    """Own a conversation."""

    __slots__ = ()

    def __init__(self, conversation: str) -> None:
        super().__init__(conversation, conversation, False)


class Release(Job[bool]):
    """Own a conversation no longer, if its log still ends there."""

    __slots__ = ("due", "position", "rests")

    def __init__(self, conversation: str, position: int, rests: str, due: float | None) -> None:
        super().__init__(conversation, conversation, True)
        self.position, self.rests, self.due = position, rests, due
        if rests:
            self.tickets = (rests,)


def _tickets(head: Head | None, claim: Claim | None) -> list[str]:
    ids = [claim.ticket] if claim else []
    return [*ids, *(ticket.id for ticket in head.tickets), *head.rests, *head.gone] if head else ids


def tell(jobs: Iterable[Job[Any]]) -> None:
    """Give everybody who waits the outcome: one message to each loop, however many wait there."""
    by_loop: defaultdict[asyncio.AbstractEventLoop, list[Job[Any]]] = defaultdict(list)
    for job in jobs:
        by_loop[job.future.get_loop()].append(job)
    for loop, told in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, told)
        except RuntimeError:
            continue  # this loop is closed, and nobody waits there any more


def _resolve(jobs: list[Job[Any]]) -> None:
    for job in jobs:
        if job.future.done():
            continue  # whoever asked was cancelled
        if job.error is None:
            job.future.set_result(job.result)
        else:
            job.future.set_exception(job.error)
