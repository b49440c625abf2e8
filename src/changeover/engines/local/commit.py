"""The engine's writes: callers' inputs and outcomes are folded, decided upon and appended to the log."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence, Set
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING

from msgspec.structs import replace

from changeover.engines.local.conversation import Live
from changeover.engines.local.waits import End, works
from changeover.errors import (
    Busy,
    CircuitsOpen,
    ClaimLost,
    Conflict,
    ConversationNotFound,
    Exhausted,
    KeyConflict,
    LeaseLost,
    Owned,
    WrittenByNewer,
)
from changeover.guards.guard import Tripped
from changeover.handoffs.package import HandoffPackage, fingerprint
from changeover.relay.budget import NOTHING, in_tree, reserve_of, standing
from changeover.relay.circuits import circuits_of, heeded
from changeover.relay.commands import Command
from changeover.relay.decide.decision import NOBODY, settle
from changeover.relay.events import (
    ApprovalDecided,
    CancelRequested,
    Entry,
    Event,
    RollbackRequested,
    RunCancelled,
    RunFailed,
    RunResumed,
    RunStopped,
    Started,
    UserSpoke,
)
from changeover.relay.ports import Head
from changeover.relay.projection.changes import Reading
from changeover.relay.projection.projection import Projection, rows_of
from changeover.relay.queue import Claim
from changeover.relay.result import head_of, spent_in
from changeover.relay.sanitize import event_of
from changeover.relay.state import State
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
    reading = Projection(state) if log.projects else Reading(state) if roster.breaks else None
    batch, outstanding = settle(state, roster, at, events, tripped, reading.apply if reading else None)
    commands = holdings.here(state, outstanding) if has_tickets(state) else outstanding
    if not batch:
        return commands
    entry = Entry(state.id, state.root, position, cause, at, tuple(batch))
    live.stale, epoch, live.attempt = True, engine.epoch, cause if engine.observer else ""
    head = _head(engine, live, commands, tickets, ended)
    circuits = circuits_of(state.id, reading.changes, roster, log.breakers.calm) if reading and roster.breaks else None
    rows = reading.finish() if isinstance(reading, Projection) else None
    try:
        await log.append(entry, head, reserve_of(before, state, roster), claim, circuits, rows)
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


ROOT = Started()
LONGEST = 512
"""How many bytes of a key stand in the log as they are."""


async def say(
    engine: LocalEngine, live: Live, spoken: UserSpoke, key: str, opening: Started = ROOT, alone: bool = False
) -> int:
    """Record what was said, once for each key, and return its run; raises Busy if it has to be `alone` and is not. The
    caller holds the lock."""
    cause = key and _cause(key)
    while True:
        await readable(engine, live)
        # Where nothing is recorded, no key is: should that have changed meanwhile, the append will say so.
        if key and live.state.position and (position := await engine.log.find(live.state.id, cause)) is not None:
            live.stale = live.stale or position >= live.state.position
            await engine.go_on(live)
            run = position or 1  # at 0 stands the beginning of the conversation itself
            _compare(live.state, run, spoken, key)
            return run
        if alone and (live.state.run or live.state.inbox):
            raise Busy(live.state.id)
        events: list[Event] = [spoken] if live.state.position else [opening, spoken]
        run = live.state.position + len(events) - 1
        if await put(engine, live, cause or f"said@{run}", events):
            return run


def _cause(key: str) -> str:
    """The key as the log has it: whatever users choose, it is not the id of a command."""
    # Databases find it by an index, which holds no text of any length and, in PostgreSQL, not every character.
    whole = key.encode("utf-8", "surrogatepass")
    return f"key:{key if len(whole) <= LONGEST and key.isprintable() else sha256(whole).hexdigest()}"


def _compare(state: State, run: int, spoken: UserSpoke, key: str) -> None:
    """Raise KeyConflict if the key was given to something else before."""
    if spoken.given is not None:
        return  # our own key: what a delegate is given says how much time has passed
    said = dict(state.inbox).get(run)
    if said is None and state.run is not None and state.run.id == run:
        said = state.run.spoken
    if said is None and (outcome := state.outcomes.get(run)):
        said = outcome.run.spoken
    if said is not None and _meant(said) != _meant(spoken):
        raise KeyConflict(key.removeprefix("offer:"), said.text)


def _meant(spoken: UserSpoke) -> tuple[object, ...]:
    """What two inputs have in common that are the same."""
    package = fingerprint(HandoffPackage.from_dict(spoken.package)) if spoken.package else ""
    return spoken.text, spoken.agent, spoken.context, spoken.files, package, spoken.no_takers


async def call_off(engine: LocalEngine, live: Live, request: CancelRequested, opening: Started | None = None) -> bool:
    """Record that a run, or all, are wanted no longer; False if none is under way. The caller holds the lock."""
    while True:
        await readable(engine, live)
        state = live.state
        if state.position and not _concerned(state, request.run):
            return False
        if not state.position and opening is None:
            raise ConversationNotFound(state.id)
        events: list[Event] = [opening, request] if opening and not state.position else [request]
        if await put(engine, live, f"cancel@{state.position}", events):
            return True


def _concerned(state: State, run: int) -> bool:
    """Whether this run, or any if it is 0, is under way or about to be."""
    current = [state.run.id] if state.run else []
    return any(run in (0, each) for each in (*current, *(id for id, _ in state.inbox)))


async def again(engine: LocalEngine, live: Live) -> int:
    """The run that is under way or was the last; one that failed is begun again where it failed."""
    while True:
        await readable(engine, live)
        run, failed = _last_run(live.state)
        if not failed:
            return run
        try:
            commands = await record(engine, live, f"again@{live.state.position}", [RunResumed(run)])
        except Conflict:
            continue
        except (Owned, LeaseLost):
            await asyncio.sleep(engine.patience / 10)
            continue
        engine.dispatch(live, commands)
        return run


def _last_run(state: State) -> tuple[int, bool]:
    """The run that is under way, or the next, or the last; and whether it has failed."""
    if state.run is not None:
        return state.run.id, False
    if state.inbox:
        return state.inbox[0][0], False
    if state.last is None:
        raise ConversationNotFound(state.id)
    return state.last.run.id, state.last.resumable


async def put(engine: LocalEngine, live: Live, cause: str, events: Sequence[Event], claim: Claim | None = None) -> bool:
    """One try to record an input and to go on from it; False if the conversation moved on meanwhile.

    If another process works on the conversation, the input is left there as word, and followed.
    """
    position = live.state.position
    # Before it is folded: what only the log makes readable would be something else in memory, or break there.
    events = [event_of(event) for event in events]
    try:
        if not engine.elsewhere(live.state.id):
            engine.dispatch(live, await record(engine, live, cause, events, claim))
            return True
    except Conflict:
        return False
    except LeaseLost:
        await asyncio.sleep(engine.patience / 10)
        return False
    except Owned:
        pass
    await engine.lives.refresh(live)
    return live.state.position == position and await _leave_word(engine, live, cause, events, claim)


async def _leave_word(
    engine: LocalEngine, live: Live, cause: str, events: Sequence[Event], claim: Claim | None
) -> bool:
    """Put an input into the log of a conversation that another process works on, and follow it there."""
    state = live.state
    entry = Entry(state.id, state.root, state.position, cause, engine.world.clock.now(), tuple(events))
    try:
        rows = None
        if engine.log.projects:
            # Another State: this conversation's own takes the entry in when it is read back.
            rows = rows_of(State(state.id).fold(await engine.log.read(state.id)), entry)
        await engine.log.append(entry, None, None, claim, rows=rows)
    except Conflict:
        live.stale = True
        return False
    except LeaseLost:
        await asyncio.sleep(engine.patience / 10)
        return False
    engine.follow(live)
    return True


async def readable(engine: LocalEngine, live: Live) -> None:
    """See that the state is what the log says, and that this version understands it."""
    if live.stale:
        await engine.lives.refresh(live)
    if live.state.unreadable:
        raise WrittenByNewer(live.state.id, live.state.unreadable)
