"""Taking what waits to be claimed; and what was taken too often without coming to an end is put before a person."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from changeover.engines.local.claims import note, offer_at
from changeover.engines.local.commit import put
from changeover.errors import UNREADABLE
from changeover.facts import Ticket
from changeover.relay.events import HandoffRejected, TicketLapsed
from changeover.relay.queue import Claim, Taken, token_of

if TYPE_CHECKING:
    from changeover.engines.local.engine import LocalEngine


async def take(engine: LocalEngine, agents: Sequence[str], by: str, lease: float, limit: int) -> list[Taken]:
    """Claim what is most urgent."""
    most, token = engine.world.roster.attempts, token_of(by, os.urandom(6).hex())
    taken = await engine.log.queue.take(agents, token, lease, limit, most, engine.world.clock.now())
    if len(taken) < limit:
        async with kept(engine, taken):
            await sweep(engine)
    return taken


@asynccontextmanager
async def kept(engine: LocalEngine, all_taken: Sequence[Taken]) -> AsyncIterator[None]:
    """See that what was taken is not held by nobody: if whoever took it is stopped before they have it, it goes back,
    as if they had never taken it."""
    try:
        yield
    except BaseException:
        backs = (engine.log.queue.give_back(Claim(each.ticket.id, each.token), counted=False) for each in all_taken)
        await asyncio.gather(*backs, return_exceptions=True)  # what cannot be given back, its lease frees
        raise


async def sweep(engine: LocalEngine) -> None:
    """Ask a person about what workers took again and again, and none of them finished."""
    for queued in await engine.log.queue.worn_out(engine.world.roster.attempts):
        reason = f"{queued.attempts} workers took it, and none finished it"
        with suppress(*UNREADABLE):  # perhaps a newer version asks; what else waits must not wait for that
            if not await _decline(engine, queued.ticket, reason):
                await _escalate(engine, queued.ticket, reason)


async def _decline(engine: LocalEngine, ticket: Ticket, reason: str) -> bool:
    """End an offer that nobody answered; False if it was answered."""
    live = await engine.lives.get(ticket.conversation)
    async with live.lock:
        if (found := await offer_at(engine, live, ticket)) is None:
            return False
        offer = found[2].offer
        declined = HandoffRejected(offer.call, live.state.task, offer.receiver, reason, worn_out=True)
        await put(engine, live, f"{offer.call}^", [declined])
    await engine.tell(live)
    return True


async def _escalate(engine: LocalEngine, ticket: Ticket, reason: str) -> None:
    live = await engine.lives.get(ticket.conversation)
    # By where its log ends: several may sweep at once, and one of them says it.
    cause = f"worn:{ticket.id}@{live.state.position}"
    await note(engine, ticket, cause, [TicketLapsed(ticket.id, reason, worn_out=True)])
