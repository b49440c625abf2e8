"""What comes from outside: a user speaks, a caller asks how a conversation stands."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from changeover.engines.live import Live
from changeover.errors import Conflict, ConversationNotFound, EngineError, LeaseLost, Owned
from changeover.relay.events import Entry, Event, RunResumed, Started, UserSpoke
from changeover.relay.state import State

if TYPE_CHECKING:
    from changeover.engines.local import LocalEngine


async def say(engine: LocalEngine, live: Live, spoken: UserSpoke, key: str) -> int:
    """Record what a user said, once for each key, and return its run. The caller holds the lock."""
    key = key and f"key:{key}"  # whatever users choose, it is not the id of a command
    while True:
        if live.stale or live.state.unreadable:
            await _readable(engine, live)
        if key and (position := await engine.log.find(live.state.id, key)) is not None:
            live.stale = live.stale or position >= live.state.position
            await engine.go_on(live)
            return position or 1  # at 0 stands the beginning of the conversation itself
        said = await _said(engine, live, spoken, key)
        if said is not None:
            return said


async def _said(engine: LocalEngine, live: Live, spoken: UserSpoke, key: str) -> int | None:
    """One try to record it; None if the conversation moved on meanwhile."""
    state = live.state
    if engine.elsewhere(state.id):
        return await _leave_word(engine, live, spoken, key)
    events: list[Event] = [spoken] if state.position else [Started(state.root), spoken]
    run = state.position + len(events) - 1
    try:
        commands = await engine.record(live, key or f"said@{run}", events)
    except Conflict:
        return None
    except LeaseLost:
        await asyncio.sleep(engine.patience / 10)
        return None
    except Owned:
        return await _leave_word(engine, live, spoken, key)
    engine.dispatch(live, commands)
    return run


async def again(engine: LocalEngine, live: Live) -> int:
    """The run that is under way or was the last; one that failed is begun again where it failed."""
    while True:
        await _readable(engine, live)
        run, failed = _last_run(live.state)
        if not failed:
            return run
        try:
            commands = await engine.record(live, f"again@{live.state.position}", [RunResumed(run)])
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
    return state.last.run.id, state.last.fault is not None


async def _leave_word(engine: LocalEngine, live: Live, spoken: UserSpoke, key: str) -> int | None:
    """Put a message into the inbox of a conversation that another process works on, and follow it there."""
    await engine.lives.refresh(live)
    state = live.state
    cause = key or f"said@{state.position}"
    entry = Entry(state.id, state.root, state.position, cause, engine.world.clock.now(), (spoken,))
    try:
        await engine.log.append(entry, None)
    except Conflict:
        return None
    except LeaseLost:
        await asyncio.sleep(engine.patience / 10)
        return None
    engine.follow(live)
    return state.position


async def _readable(engine: LocalEngine, live: Live) -> None:
    """See that the state is what the log says, and that this version understands it."""
    if live.stale:
        await engine.lives.refresh(live)
    if live.state.unreadable:
        raise EngineError(
            f"{live.state.id!r} holds an event that a newer version of changeover wrote"
            f" ({live.state.unreadable}); go on with that version"
        )
