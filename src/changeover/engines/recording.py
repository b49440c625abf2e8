"""Fold what happened, and commit it: only what is committed may have effects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from itertools import islice
from typing import TYPE_CHECKING

from msgspec.structs import replace

from changeover.engines.holding import End
from changeover.engines.local.conversation import Live
from changeover.engines.local.waits import works
from changeover.errors import CircuitsOpen, ClaimLost, Conflict, Exhausted
from changeover.guards.guard import Tripped
from changeover.relay.budget import NOTHING, in_tree, reserve_of, standing
from changeover.relay.circuits import circuits_of, heeded, in_hand
from changeover.relay.commands import Command
from changeover.relay.events import (
    ApprovalDecided,
    CancelRequested,
    Entry,
    Event,
    RollbackRequested,
    RunCancelled,
    RunFailed,
    RunStopped,
)
from changeover.relay.ports import Head
from changeover.relay.queue import Claim
from changeover.relay.result import head_of, spent_in
from changeover.relay.settle import NOBODY, settle
from changeover.relay.stream import recorded
from changeover.relay.tickets import has_tickets, open_tickets

if TYPE_CHECKING:
    from changeover.engines.local.engine import LocalEngine

ABANDONING = frozenset({ApprovalDecided, CancelRequested, RollbackRequested, RunStopped, RunFailed, RunCancelled})
"""Events after which something that is in flight may not be wanted any more."""


async def record(
    engine: LocalEngine,
    live: Live,
    cause: str,
    events: Sequence[Event],
    claim: Claim | None = None,
    tripped: Mapping[str, Tripped] = NOBODY,
) -> Sequence[Command]:
    """Record these events and all that is decided from them; what is left to perform. The caller holds the lock, and
    the ticket that it claims, if what it records depends on that."""
    state, world = live.state, engine.world if engine.directory.known else await engine.directory.look()
    roster, holdings, log = world.roster, engine.holdings, engine.log
    claim, tickets = claim or holdings.claim_for(state), open_tickets(state)
    position, agent, ended, at = state.position, state.agent, len(state.outcomes), world.clock.now()
    before = standing(state, roster) if in_tree(state) else NOTHING
    hands = in_hand(state, events) if roster.breaks else None
    batch, outstanding = settle(state, roster, at, events, tripped)
    commands = holdings.here(state, outstanding) if has_tickets(state) else outstanding
    if not batch:
        return commands
    entry = Entry(state.id, state.root, position, cause, at, tuple(batch))
    live.stale, epoch, live.attempt = True, engine.epoch, cause if engine.observer else ""
    head = _head(engine, live, commands, tickets, ended)
    circuits = circuits_of(hands, state, roster, batch, log.breakers.calm) if hands is not None else None
    try:
        await log.append(entry, head, reserve_of(before, state, roster), claim, circuits)
    except ClaimLost:
        if claim is not None:
            holdings.let_go([claim.ticket], End.LOST)
        raise
    except (Exhausted, CircuitsOpen) as refusal:
        await engine.lives.refresh(live)
        if live.state.position != position:
            raise Conflict(state.id, position, cause) from None
        heeding, found = heeded(events, tripped, refusal)
        return await record(engine, live, cause, heeding, claim, found)
    live.epoch = epoch
    _committed(engine, live, head, ended)
    state.seq = entry.seq + len(batch) - 1
    if live.flight or live.asleep or live.readers or engine.observer is not None:
        _heed(engine, live, entry, agent)
    return commands


def _head(engine: LocalEngine, live: Live, commands: Sequence[Command], before: Set[str], ended: int) -> Head:
    """How the conversation stands now, with what was and is to be claimed in it."""
    state, working = live.state, works(live, commands)
    head = head_of(state, working, None if working else engine.resting.due(live, commands))
    if (more := len(state.outcomes) - ended) > 0:
        # From the end: a conversation may have had thousands of runs before.
        head = replace(head, spent=spent_in(islice(reversed(state.outcomes.values()), more)))
    return engine.holdings.with_tickets(head, live, commands, before) if before or has_tickets(state) else head


def _committed(engine: LocalEngine, live: Live, head: Head, ended: int) -> None:
    """What is in memory is in the log; what that means for tickets that are held here, and for those who wait."""
    state = live.state
    live.stale, live.known, live.attempt, live.owned = False, state.position, "", head.working
    if head.gone or head.rests:
        engine.holdings.let_go(head.gone, End.DONE)
        engine.holdings.let_go(head.rests, End.RESTS)
    if len(state.outcomes) > ended:
        live.note_ends(len(state.outcomes) - ended)


def _heed(engine: LocalEngine, live: Live, entry: Entry, agent: str) -> None:
    """What follows from an entry for those who sleep, work and read along."""
    if live.asleep:
        engine.resting.rouse(live)
    if live.flight and (live.missed or not ABANDONING.isdisjoint(map(type, entry.events))):
        engine.abandon(live)
    if live.readers or engine.observer is not None:
        told = list(recorded([entry], agent))
        live.publish(told)
        if engine.observer is not None:
            live.untold += told
