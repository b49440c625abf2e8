"""Approvals: decisions by a person, by the program's `ask`, or by expiry."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from changeover.engines.local.commit import put, readable
from changeover.engines.local.conversation import Live
from changeover.errors import ApprovalError
from changeover.facts import ApprovalRequest
from changeover.guards.approval import Approve, Decision, Reject, verdict_words
from changeover.ids import call_of
from changeover.relay.commands import AwaitApproval
from changeover.relay.events import ApprovalDecided
from changeover.relay.perform.approvals import misfit
from changeover.relay.ports import World
from changeover.relay.run import Acting, Awaiting
from changeover.relay.state import State
from changeover.relay.turn import Asked

if TYPE_CHECKING:
    from changeover.engines.local.engine import LocalEngine

logger = logging.getLogger("changeover.approvals")


async def decide(engine: LocalEngine, id: str, decision: Decision, by: str, roles: Sequence[str] = ()) -> None:
    """Record what a person with these roles decided, and go on from there."""
    live = await engine.lives.get(id.rsplit(":", 2)[0])
    async with live.lock:
        await engine.lives.refresh(live)
        await rule(engine, live, id, ApprovalDecided("", "", decision, by), roles)
        if live.missed:
            await engine.go_on(live)  # it was decided before, and perhaps nobody here has heard it yet
    await engine.tell(live)
    if live.state.root != live.state.id:
        await engine.take_up(live.state.root)


async def rule(engine: LocalEngine, live: Live, id: str, made: ApprovalDecided, roles: Sequence[str]) -> None:
    """Record a decision about the request of this id. The first one holds: who comes later is told so. The caller
    holds the lock."""
    _, call, digest = id.rsplit(":", 2)
    decided = replace(made, call=call, digest=digest)
    while True:
        await readable(engine, live)
        request = _pending(live.state, call)
        if request is None:
            return await _told(engine, live.state, id, decided)
        if request.digest != digest:
            raise ApprovalError(f"this is not what awaits a decision: that is {request.id}", approval=id)
        if wrong := unauthorised(request, decided.by, roles) or misfit(engine.world, request, decided.decision):
            raise ApprovalError(f"this decision cannot hold: {wrong}", approval=id)
        decided = replace(decided, roles=tuple(role for role in request.roles if role in roles))
        if await put(engine, live, f"{call}!", [decided]):
            return None


def unauthorised(request: ApprovalRequest, by: str, roles: Sequence[str]) -> str:
    """Why this one may not decide; nothing if it may."""
    if not request.roles or not set(request.roles).isdisjoint(roles):
        return ""
    has = f"has only {', '.join(roles)}" if roles else "has no role"
    return f"it takes one of the roles {', '.join(request.roles)}, and {by or 'who decides'} {has}"


async def _told(engine: LocalEngine, state: State, id: str, decided: ApprovalDecided) -> None:
    """Nothing waits for this decision: say why. The very same decision once more is no mistake."""
    position = await engine.log.find(state.id, f"{decided.call}!")
    before = None
    if position is not None:
        [entry, *_] = await engine.log.read(state.id, position)
        before = next((event for event in entry.events if isinstance(event, ApprovalDecided)), None)
    if before is None:
        raise ApprovalError(f"nothing awaits a decision as {id}: nobody asked, or the run ended", approval=id)
    if replace(before, roles=()) != decided:
        by = "by nobody in time" if before.expired else f"by {before.by or 'somebody'}"
        raise ApprovalError(f"this was {verdict_words(before.decision)} already, {by}", approval=id)


def _pending(state: State, call: str) -> ApprovalRequest | None:
    """What awaits a decision under this id."""
    match state.run.phase if state.run else None:
        case Awaiting(request=request):
            return request if request.call == call else None
        case Acting(turn=turn):
            found = turn.calls.get(call_of(call))
            asked = found.phase.request if found and isinstance(found.phase, Asked) else None
            return asked if asked and asked.call == call else None
        case _:
            return None


async def await_decision(engine: LocalEngine, live: Live, command: AwaitApproval) -> ApprovalDecided:
    """Let the program decide if it can, else wait until nobody can decide any more."""
    expiry = asyncio.ensure_future(_expiry(engine.world, command.request))
    try:
        if engine.world.ask is not None and (decided := await _asked(engine.world, command, expiry)):
            return decided
        live.declined.add(command.id)
        await engine.tell(live)
        return await expiry
    finally:
        live.declined.discard(command.id)
        expiry.cancel()


async def _asked(
    world: World, command: AwaitApproval, expiry: asyncio.Future[ApprovalDecided]
) -> ApprovalDecided | None:
    """What the program says, unless it takes too long over it."""
    asking = asyncio.ensure_future(_ask(world, command.request))
    try:
        both: list[asyncio.Future[Any]] = [expiry, asking]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        return asking.result() if asking.done() else expiry.result()
    finally:
        asking.cancel()


async def _ask(world: World, request: ApprovalRequest) -> ApprovalDecided | None:
    assert world.ask is not None
    try:
        answer = world.ask(request)
        decision = await answer if inspect.isawaitable(answer) else answer
        if decision is None:
            return None
        if isinstance(decision, Decision) and not misfit(world, request, decision):
            return ApprovalDecided(request.call, request.digest, decision, "ask")
        logger.error("ask=… gave %r about %s, which cannot hold; a person is awaited", decision, request.id)
    except Exception:
        logger.exception("ask=… failed on %s; a person is awaited", request.id)
    return None


async def _expiry(world: World, request: ApprovalRequest) -> ApprovalDecided:
    if request.expires_at is None:
        await asyncio.Event().wait()  # for ever
        raise AssertionError("nothing sets it")
    await world.clock.sleep_until(request.expires_at)
    decision = Approve() if request.on_expiry == "approve" else Reject("nobody decided in time")
    return ApprovalDecided(request.call, request.digest, decision, expired=True)
