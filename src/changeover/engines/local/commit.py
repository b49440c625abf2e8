"""What comes from outside: a user speaks, somebody cancels, a caller asks how a conversation stands."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

from changeover.engines.local.conversation import Live
from changeover.engines.recording import record
from changeover.errors import Busy, Conflict, ConversationNotFound, KeyConflict, LeaseLost, Owned, WrittenByNewer
from changeover.handoffs.package import HandoffPackage, fingerprint
from changeover.relay.events import CancelRequested, Entry, Event, RunResumed, Started, UserSpoke
from changeover.relay.queue import Claim
from changeover.relay.sanitize import event_of
from changeover.relay.state import State

if TYPE_CHECKING:
    from changeover.engines.local.engine import LocalEngine

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
        await engine.log.append(entry, None, None, claim)
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
