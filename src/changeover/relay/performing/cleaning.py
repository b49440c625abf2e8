"""Cleaning up as an effect: the function that a handoff declared is called until it succeeds."""

from __future__ import annotations

import logging

from changeover.agent.moves import Transfer
from changeover.relay.commands import CleanUp
from changeover.relay.events import RollbackDone, RollbackFailed
from changeover.relay.perform.callbacks import called
from changeover.relay.performing.mishaps import TROUBLE, let_go, words_of
from changeover.relay.world import World

logger = logging.getLogger("changeover.handoffs")

LONGEST = 300.0
"""In seconds: no longer is waited before it is tried again."""


async def clean_up(world: World, command: CleanUp) -> RollbackDone | RollbackFailed:
    """Undo what the receiver did; it may have been tried before, and its idempotency key is the same then."""
    call, handoff = command.id.partition("<")[0], command.rollback.handoff
    move = world.roster.move_of(handoff.sender, handoff.tool)
    clean = move.handoff.on_rollback if isinstance(move, Transfer) else None
    if clean is None:
        return RollbackDone(call)
    try:
        await called(clean, command.rollback)
    except TROUBLE as error:
        let_go(error)
        logger.exception("cleaning up after %s failed and is tried again", handoff.id)
        wait = min(world.backoff * 2.0 ** (command.attempt - 1), LONGEST)
        return RollbackFailed(call, words_of(error), world.clock.now() + wait)
    return RollbackDone(call)
