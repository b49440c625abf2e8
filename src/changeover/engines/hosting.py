"""Work under a claim, done by this engine: the receiver is asked, then its agent works where the log says it stands."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from changeover.engines.answering import ask_receiver
from changeover.engines.holding import End, Held, stop_working
from changeover.engines.local import claims
from changeover.errors import ClaimLost, EngineError
from changeover.relay.events import HandoffAccepted
from changeover.relay.queue import Claim, Taken

if TYPE_CHECKING:
    from changeover.engines.local.engine import LocalEngine

logger = logging.getLogger("changeover.engine")


async def work(engine: LocalEngine, taken: Taken, by: str) -> End:
    """Do what was claimed, until it is done, waits for somebody else, or is not ours any more."""
    held = Held(taken.ticket, Claim(taken.ticket.id, taken.token))
    try:
        if await _takes(engine, taken, by, held):
            while not held.over.done():
                if not _at_work(engine, held):  # whoever had it before may be about to let go of it
                    await engine.take_up(taken.ticket.place)
                await asyncio.wait([held.over], timeout=engine.patience / 4)
            return held.over.result()
    except ClaimLost:
        end = End.LOST
    except EngineError as error:  # its lease runs out, and somebody takes it once more
        logger.warning("%s cannot be worked on: %s", taken.ticket.id, error)
        end = End.LOST
    else:
        end = End.DONE
    engine.holdings.let_go([taken.ticket.id], end)
    return end


async def _takes(engine: LocalEngine, taken: Taken, by: str, held: Held) -> bool:
    """Whether the agent takes the task, which it may be asked first."""
    asked = await claims.offered(engine, taken.ticket)
    if asked is None:
        await claims.take_up(engine, taken, by, held)
        return True
    engine.holdings.hold(held)
    live = await engine.lives.get(taken.ticket.conversation)
    try:
        said = await ask_receiver(engine, live, asked)
        said = replace(said, by=by) if isinstance(said, HandoffAccepted) else said
        await claims.answer(engine, taken, lambda _: said)
    finally:
        live.promised.pop(asked.id, None)
    return isinstance(said, HandoffAccepted)


def _at_work(engine: LocalEngine, held: Held) -> bool:
    """Whether something goes on here for this ticket."""
    live = engine.lives.here(held.ticket.place)
    return live is not None and bool(live.flight) and not live.asleep


async def give_up(engine: LocalEngine, taken: Taken, by: str, reason: str) -> None:
    """Stop working on it and let others go on, unless they do already."""
    engine.holdings.let_go([taken.ticket.id], End.BACK)
    await stop_working(engine, taken.ticket)
    try:
        await claims.give_back(engine, taken, by, reason)
    except ClaimLost:
        return


async def lose(engine: LocalEngine, taken: Taken) -> None:
    """Stop working on what is somebody else's."""
    engine.holdings.let_go([taken.ticket.id], End.LOST)
    await stop_working(engine, taken.ticket)
    await engine.take_up(taken.ticket.place)  # whoever waits for it here learns how others go on
