"""The fold of answers to handoffs: rejected, conditional, expired, claimed again, lapsed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from changeover.facts import DelegateResult, HandoffRecord, Mode
from changeover.faults import RefusalFault
from changeover.handoffs.context import merge_variables
from changeover.handoffs.protocol import TRANSITIONS, Signal, advance
from changeover.ids import handoff_id
from changeover.relay.events import (
    AlternativeRefused,
    CircuitFound,
    HandoffConditional,
    HandoffExpired,
    HandoffOffered,
    HandoffRejected,
    TicketLapsed,
    TicketTaken,
)
from changeover.relay.fold.handoffs import OFFERED, pass_back, record_of, rolls_back
from changeover.relay.run import TURNING, Broken, Run, Stopping
from changeover.relay.turn import Asked, Declined, Delegated, Offered, OpenCall, Refusal, Turn, handoff_of, way_of

if TYPE_CHECKING:
    from changeover.relay.state import State


def reject(state: State, run: Run, event: HandoffRejected) -> None:
    if found := run.offered(event.call):
        turn, call, offered = found
        _decline(state, run, call, offered, Signal.REJECT, event.reason)
        if event.own:
            _remember(state, run, call, offered.offer)
        at = (offered.offer, offered.lasts, event.reason)
        person = event.by if offered.verdict is not None else ""
        who, how = (event.suggested, person), (offered.commanded, event.worn_out)
        turn.move(call, Declined(*at, (), *who, *how, tripped=offered.tripped))


def trip(state: State, run: Run, event: CircuitFound) -> None:
    if found := run.offered(event.call):
        turn, call, offered = found
        turn.move(call, replace(offered, tripped=event))


def pass_over(state: State, run: Run, event: AlternativeRefused) -> None:
    """Count an alternative that may not be asked as one that declined."""
    found = run.find(event.call, Declined)
    if found and isinstance(phase := found[1].phase, Declined) and phase.offer.call == event.call:
        reason = f"{phase.reason}; {event.receiver} was not asked: {event.reason}"
        found[0].move(found[1], replace(phase, refused=(*phase.refused, event.receiver), reason=reason))


def condition(state: State, run: Run, event: HandoffConditional) -> None:
    found = run.offered(event.call)
    if not found:
        return
    turn, call, offered = found
    if event.put_off:
        call.conditions = (*call.conditions, event)
    if event.needs_context or event.put_off:
        _decline(state, run, call, offered, Signal.RETURN, event.words)
        at = (offered.offer, offered.lasts, event.words)
        misfits = "; ".join(event.misfits)
        turn.move(call, Declined(*at, event.needs_context, commanded=offered.commanded, misfits=misfits))
    else:
        turn.move(call, replace(offered, needs=event.needs_permission))


def expire(state: State, run: Run, event: HandoffExpired) -> None:
    found = run.find(event.call, (Offered, Delegated))
    phase = handoff_of(found[1]) if found else None
    if not found or phase is None or phase.offer.call != event.call:
        return
    turn, call = found
    run.take_back(event.spent, call.id)
    undone = not isinstance(phase, Declined) and rolls_back(run, phase.offer, "on_timeout")
    if undone:
        state.undoing.failed[event.call] = event.partial
    else:
        run.let_down = f"{event.receiver} did not do it: {event.reason}"
    if isinstance(phase, Delegated):
        record = state.handoffs[phase.index]
        standing = advance(record.state, Signal.EXPIRE)
        state.handoffs[phase.index] = late = replace(record, state=standing, error=event.reason)
        pass_back(state, run, call, phase.offer, event.reason)
        return_nothing(state, run, turn, call, late, event.partial if undone else "")
    elif isinstance(phase, Offered):
        end_offer(state, run, turn, call, Signal.EXPIRE, event.reason)


def end_offer(state: State, run: Run, turn: Turn, call: OpenCall, signal: Signal, reason: str) -> None:
    """End an offer that was not answered, or whose answer is not checked yet, and tell its sender."""
    offered = handoff_of(call)
    assert isinstance(offered, Offered)
    if isinstance(call.phase, Asked):
        run.waiting.hear(state.at)
    if offered.index < 0:
        record = _record_end(state, run, call, offered, signal, reason)
    else:
        before = state.handoffs[offered.index]
        record = replace(before, state=advance(before.state, signal), error=reason)
        state.handoffs[offered.index] = record
    if offered.offer.mode is Mode.DELEGATE:
        return_nothing(state, run, turn, call, record)
        return
    reason = f"{offered.offer.receiver} did not take it: {reason}" if signal is Signal.EXPIRE else reason
    state.answer(run, turn, call, reason, ok=False)
    if turn.deaf and not turn.code:
        # A Function member cannot be told, and would retry forever.
        run.phase = Broken(RefusalFault(turn.agent, reason))


def return_nothing(
    state: State, run: Run, turn: Turn, call: OpenCall, record: HandoffRecord, partial: str = ""
) -> None:
    """Answer the call of a delegate that returns without a result; the record says why."""
    took = round(state.at - record.at, 3)
    call.result = DelegateResult(record.id, record.receiver, False, response=partial, duration=took, error=record.error)
    text = msgspec.json.encode(call.result).decode()
    if isinstance(run.phase, Stopping):
        turn.answer(call, text, ok=False, at=state.at)
    else:
        state.answer(run, turn, call, text, ok=False)


def open_offers(state: State, run: Run, signal: Signal | None = None, reason: str = "") -> list[HandoffRecord]:
    """The open offers of this turn as records, after `signal` if one is given."""
    turn = run.phase.turn if isinstance(run.phase, TURNING) else None
    found = []
    for call in turn.calls.values() if turn else ():
        phase = handoff_of(call)
        if isinstance(phase, Offered) and phase.index < 0:
            standing = advance(OFFERED, signal) if signal else OFFERED
            found.append(replace(record_of(state.id, "", run, call, phase), state=standing, error=reason))
    return found


def _decline(state: State, run: Run, call: OpenCall, offered: Offered, signal: Signal, reason: str) -> None:
    _record_end(state, run, call, offered, signal, reason)
    offer, way = offered.offer, way_of(offered.offer.mode, call)
    before, who = run.declined.get(way), (*offer.declined_by, offer.receiver)
    refused = before.refused if before is not None and before.task == state.task else ()
    run.declined[way] = Refusal(state.task, handoff_id(state.id, offer.call), offer.attempt, who, refused)


def _remember(state: State, run: Run, call: OpenCall, offer: HandoffOffered) -> None:
    """Remember what the receiver rejected, so that its sender does not ask it the same again."""
    way, context = way_of(offer.mode, call), merge_variables(state.variables, offer.variables, offer.merge)
    refusal = run.declined[way]
    run.declined[way] = replace(refusal, refused=(*refusal.refused, (offer.receiver, offer.message, context)))


def _record_end(state: State, run: Run, call: OpenCall, offered: Offered, signal: Signal, reason: str) -> HandoffRecord:
    """Append the record of a handoff that was not accepted; it no longer counts against the limit."""
    run.count_handoff(offered.offer.sender, -1)
    record = replace(record_of(state.id, "", run, call, offered), state=advance(OFFERED, signal), error=reason)
    state.handoffs.append(record)
    return record


def take(state: State, run: Run, event: TicketTaken) -> None:
    _advance_claimed(state, event.ticket, Signal.ACCEPT, Signal.START)
    if run.ticket == event.ticket:
        state.work.status = "running"


def lapse(state: State, run: Run, event: TicketLapsed) -> None:
    _advance_claimed(state, event.ticket, Signal.LAPSE)
    if run.ticket == event.ticket:
        state.work.status = "pending"
        run.worn_out = run.worn_out or event.worn_out


def _advance_claimed(state: State, ticket: str, *signals: Signal) -> None:
    """Advance the state of a claimed handoff, if the ticket is one and its state allows the signals."""
    for index in range(len(state.handoffs) - 1, -1, -1):
        record = state.handoffs[index]
        if record.id == ticket:
            if signals[0] in TRANSITIONS[record.state]:
                state.handoffs[index] = replace(record, state=advance(record.state, *signals))
            return
