"""Tickets as their submitter sees them: submit, status, result and retry."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec.structs import replace

from changeover.errors import EngineError, HandoffNotFound, error_of
from changeover.facts import HandoffRecord, HandoffResult, Mode, Ticket, TicketStatus
from changeover.facts import State as Standing
from changeover.handoffs.package import HandoffPackage
from changeover.handoffs.protocol import TRANSITIONS, Signal
from changeover.ids import worker_of
from changeover.relay.events import UserSpoke
from changeover.relay.package import handoff_of
from changeover.relay.ports import Log
from changeover.relay.result import handoffs_of, result_of
from changeover.relay.run import Outcome, Run
from changeover.relay.state import State
from changeover.relay.tickets import is_offered

if TYPE_CHECKING:
    from changeover.engines.local.engine import LocalEngine


async def submit(engine: LocalEngine, conversation: str, spoken: UserSpoke, key: str) -> Ticket:
    """Record that a package waits to be claimed; its ticket, whatever has become of it since."""
    (conversation, run), _ = await engine.speak(conversation, spoken, key, alone=True)
    live = await engine.lives.get(conversation)
    state = live.state
    ref = f"{state.id}@{run}"
    # The first of the run: if its receiver rejects it, there are others after it.
    record = next((each for each in handoffs_of(state) if each.run_id == ref), None)
    if record is None:
        raise HandoffNotFound(ref)
    for each in live.pending:
        if isinstance(each, Ticket) and each.id == record.id:
            return each
    place = f"{state.id}/{record.id.rpartition(':')[2]}" if record.mode is Mode.DELEGATE else state.id
    return Ticket(
        id=record.id, agent=record.receiver, conversation=state.id, place=place, root=state.root, at=record.at
    )


async def status(engine: LocalEngine, id: str) -> TicketStatus:
    """How a ticket stands, by the log and the queue; raises HandoffNotFound if there never was one of this id."""
    conversation = id.rpartition(":")[0]
    state = State(conversation).fold(await engine.log.read(conversation))
    found = await engine.log.queue.tickets(id)
    queued = found[0] if found else None
    record = _record(state, id)
    standing = record.state if record else _of_run(state, id)
    return TicketStatus(
        id=id,
        agent=record.receiver if record else state.agent,
        state=standing,
        conversation_id=conversation,
        owner=worker_of(queued.owner) if queued else "",
        attempts=queued.attempts if queued else 0,
        rests=queued.rests if queued else False,
        at=queued.ticket.at if queued else record.at if record else 0.0,
        deadline=queued.ticket.deadline if queued else None,
        reason=record.error if record else "",
    )


async def result(engine: LocalEngine, id: str) -> HandoffResult:
    """Wait for what comes of a ticket, in whatever process."""
    conversation = id.rpartition(":")[0]
    state = State(conversation).fold(await engine.log.read(conversation))
    _record(state, id) or _of_run(state, id)  # raises if there is none
    changes = engine.log.changes(state.root, state.seq)
    while (found := await _result(engine, state, id)) is None:
        if (entry := await anext(changes, None)) is None:
            raise EngineError(f"the store was closed while {id} was awaited; it goes on, and can be asked for again")
        if entry.conversation == conversation and entry.position >= state.position:
            state = State(conversation).fold(await engine.log.read(conversation))
    return found


async def _result(engine: LocalEngine, state: State, id: str) -> HandoffResult | None:
    """What came of it, if it is over."""
    outcome = _outcome(state, id)
    if outcome is not None and outcome.run.spoken.package is not None:
        package = HandoffPackage.from_dict(outcome.run.spoken.package)
        came = handoff_of(result_of(state.id, outcome), package, outcome.run.spoken.no_takers is not None)
        return came if came.error or came.reason else replace(came, error=_error(state.id, outcome))
    record = _record(state, id)
    if record is None:
        return _of_message(state, id, outcome) if outcome else None
    if record.mode is Mode.TRANSFER:
        return _of_handoff(record, state.id, outcome) if outcome else None
    if set(TRANSITIONS[record.state]) - {Signal.RETURN} or (_run(state, id) and record.state is Standing.REJECTED):
        return None
    child = State(f"{state.id}/{id.rpartition(':')[2]}")
    child.fold(await engine.log.read(child.id))
    return _of_handoff(record, state.id, child.last)


def _of_handoff(record: HandoffRecord, conversation: str, outcome: Outcome | None) -> HandoffResult:
    return HandoffResult(
        handoff_id=record.id,
        agent=record.receiver,
        state=record.state,
        result=outcome.output if outcome else "",
        error=record.error or (_error(conversation, outcome) if outcome else ""),
        iterations=outcome.run.turns if outcome else 0,
        duration=outcome.at - record.at if outcome else 0.0,
        conversation_id=conversation,
    )


def _of_message(state: State, id: str, outcome: Outcome) -> HandoffResult:
    return HandoffResult(
        handoff_id=id,
        agent=outcome.agent,
        state=_standing(outcome),
        result=outcome.output,
        error=_error(state.id, outcome),
        iterations=outcome.run.turns,
        duration=outcome.at - outcome.run.at,
        conversation_id=state.id,
    )


def _error(conversation: str, outcome: Outcome) -> str:
    return str(error_of(outcome.fault, result_of(conversation, outcome))) if outcome.fault else ""


def _record(state: State, id: str) -> HandoffRecord | None:
    return next((each for each in reversed(handoffs_of(state)) if each.id == id), None)


def _run(state: State, id: str) -> Run | None:
    """The run under way, if the ticket belongs to it."""
    record, run = _record(state, id), state.run
    return run if run is not None and (run.ticket == id or (record is not None and record.run_id == run.ref)) else None


def _outcome(state: State, id: str) -> Outcome | None:
    """How the run ended that the ticket belongs to."""
    record = _record(state, id)
    for outcome in reversed(state.outcomes.values()):
        if outcome.run.ticket == id or (record is not None and record.run_id == outcome.run.ref):
            return outcome
    return None


def _of_run(state: State, id: str) -> Standing:
    """How what a user said to an agent stands that is served by claims."""
    if state.run is not None and state.run.ticket == id:
        return Standing.WORKING
    outcome = _outcome(state, id)
    if outcome is None:
        raise HandoffNotFound(id)
    return _standing(outcome)


def _standing(outcome: Outcome) -> Standing:
    if outcome.cancelled:
        return Standing.RETURNED
    return Standing.FAILED if outcome.fault else Standing.COMPLETE


async def retry(log: Log, id: str) -> bool:
    """Let anybody take a ticket now, as if nobody ever had; False if there is none to take."""
    conversation = id.rpartition(":")[0]
    state = State(conversation).fold(await log.read(conversation))
    return await log.queue.retry(id, is_offered(state, id))


async def in_time(engine: LocalEngine, id: str, timeout: float | None) -> HandoffResult:
    """What comes of a ticket, if it comes within so many seconds."""
    try:
        return await asyncio.wait_for(result(engine, id), timeout)
    except TimeoutError:
        raise TimeoutError(f"{id} did not end within {timeout} s; it goes on, and can be asked for again") from None


def id_of(ticket: Ticket | str) -> str:
    return ticket.id if isinstance(ticket, Ticket) else ticket
