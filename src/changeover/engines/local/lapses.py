"""Lapses: claims whose lease ran out are recorded, and a person is asked about tickets that were claimed too often."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING

from changeover.errors import UNREADABLE, ClaimLost, EngineError
from changeover.facts import Ticket
from changeover.relay.inputs.claims import DeclineOffer, Lapse
from changeover.relay.ports.queue import Queued

if TYPE_CHECKING:
    from changeover.engines.local.dispatcher import Dispatcher

logger = logging.getLogger("changeover.engine")

LAPSED = "its worker did not renew its lease"
BEYOND = (*UNREADABLE, ClaimLost)
"""Errors of a ticket that is left to a newer version, or that has ended: they must not stop the work on others."""


class Lapses:
    """Looks at the queue when the lease of a claim that was made here runs out, and when it is asked to sweep."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher, self._log = dispatcher, dispatcher.log
        self._known: dict[str, int] = {}
        """Tickets whose lapse needs no second look, with the number of claims at that time."""
        self._due, self._sooner = inf, asyncio.Event()
        """When the next look is due, by the time of the loop; the event is set when that becomes earlier."""
        self._task: asyncio.Task[None] | None = None

    def watch(self, lease: float) -> None:
        """Look when a lease that begins now runs out, and from then on whenever another one does."""
        due = self._dispatcher.loop.time() + lease
        if due < self._due:
            self._due = due
            self._sooner.set()
        if self._task is None or self._task.done():
            self._task = self._dispatcher.begin(self._look_when_due())

    async def _look_when_due(self) -> None:
        try:
            while self._due < inf:
                if await self._is_due():
                    self._due = inf  # a claim that is made from here on says when it is due
                    left = await self._log.queue.lease_left()  # first: what lapses between the two is seen
                    if left is not None:
                        self._due = min(self._due, self._dispatcher.loop.time() + left)
                    await self._look()
        except EngineError as error:
            self._due = inf
            logger.warning("claims that lapse are noticed later: %s", error)

    async def _is_due(self) -> bool:
        """Wait until the next look is due; False if it became due earlier meanwhile, so that the caller waits again."""
        self._sooner.clear()
        try:
            await asyncio.wait_for(self._sooner.wait(), self._due - self._dispatcher.loop.time())
        except TimeoutError:
            return True
        return False

    async def sweep(self) -> None:
        """Record claims that lapsed, and ask a person about tickets that were claimed too often."""
        most = self._dispatcher.directory.world.roster.attempts
        for queued in await self._look():
            if queued.attempts >= most:
                with suppress(*BEYOND):
                    await self._wear_out(queued)

    async def _look(self) -> list[Queued]:
        """Record claims that lapsed; returns their tickets."""
        lapsed = await self._log.queue.lapsed(1, self._dispatcher.directory.world.roster.team)
        self._known = {id: self._known.get(id, 0) for queued in lapsed if (id := queued.ticket.id)}
        for queued in lapsed:
            if self._known.get(queued.ticket.id) != queued.attempts:
                with suppress(*BEYOND):
                    await self.record(queued.ticket)
                    self._known[queued.ticket.id] = queued.attempts
        return lapsed

    def forget(self, ticket: str) -> None:
        """Look at a ticket again, because it was accepted: perhaps after its lease ran out."""
        self._known.pop(ticket, None)

    async def record(self, ticket: Ticket) -> None:
        """Record a lapse where the agent works and, for a delegate, where its sender waits, unless it is known. Nothing
        goes on from there: the ticket waits for the next worker."""
        for conversation in dict.fromkeys((ticket.place, ticket.conversation)):
            live = await self._dispatcher.conversations.get(conversation)
            async with live.lock:
                await self._dispatcher.recorder.note(live, Lapse(conversation, ticket, LAPSED))
            await self._dispatcher.notify(live)

    async def _wear_out(self, queued: Queued) -> None:
        ticket, reason = queued.ticket, f"{queued.attempts} workers took it, and none finished it"
        if await self._dispatcher.claims.offer(ticket) is not None:
            await self._dispatcher.put(DeclineOffer(ticket, reason))
            return
        await self._dispatcher.claims.begin_delegate(ticket)
        await self._dispatcher.put(Lapse(ticket.place, ticket, reason, worn_out=True))
