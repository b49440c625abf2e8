"""What events mean for a handoff that was rejected, accepted on conditions, expired, claimed again or lapsed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from changeover.facts import DelegateResult, HandoffRecord, Mode
from changeover.faults import RefusalFault
from changeover.handoffs.protocol import TRANSITIONS, Signal, advance
from changeover.ids import handoff_id
from changeover.relay.events import (
    AlternativeRefused,
    CircuitFound,
    HandoffConditional,
    HandoffExpired,
    HandoffRejected,
    TicketLapsed,
    TicketTaken,
)
from changeover.relay.fold.calls import find
from changeover.relay.fold.handoffs import OFFERED, record_of
from changeover.relay.run import TURNING, Broken, Refusal, Run, Stopping
from changeover.relay.turn import Asked, Declined, Delegated, Offered, OpenCall, Turn, handoff_of, way_of

if TYPE_CHECKING:
    from changeover.relay.state import State


def reject(state: State, run: Run, event: HandoffRejected) -> None:
    if found := _offered(run, event.call):
        turn, call, offered = found
        _decline(state, run, call, offered, Signal.REJECT, event.reason)
        at = (offered.offer, offered.lasts, event.reason)
        turn.move(call, Declined(*at, (), event.suggested, event.by, offered.commanded, event.worn_out))


def trip(state: State, run: Run, event: CircuitFound) -> None:
    if found := _offered(run, event.call):
        turn, call, offered = found
        turn.move(call, replace(offered, tripped=event))


def pass_over(state: State, run: Run, event: AlternativeRefused) -> None:
    """Who must not be asked counts as one that declined."""
    found = find(run, event.call, Declined)
    if found and isinstance(phase := found[1].phase, Declined) and phase.offer.call == event.call:
        reason = f"{phase.reason}; {event.receiver} was not asked: {event.reason}"
        found[0].move(found[1], replace(phase, refused=(*phase.refused, event.receiver), reason=reason))


def condition(state: State, run: Run, event: HandoffConditional) -> None:
    found = _offered(run, event.call)
    if not found:
        return
    turn, call, offered = found
    if event.put_off:
        call.conditions = (*call.conditions, event)
    if event.needs_context or event.put_off:
        _decline(state, run, call, offered, Signal.RETURN, event.words)
        at = (offered.offer, offered.lasts, event.words)
        turn.move(call, Declined(*at, event.needs_context, commanded=offered.commanded))
    else:
        turn.move(call, replace(offered, needs=event.needs_permission))


def expire(state: State, run: Run, event: HandoffExpired) -> None:
    found = find(run, event.call, (Offered, Delegated))
    phase = handoff_of(found[1]) if found else None
    if not found or phase is None or phase.offer.call != event.call:
        return
    turn, call = found
    run.take_back(event.spent)
    if isinstance(phase, Delegated):
        record = state.handoffs[phase.index]
        standing = advance(record.state, Signal.EXPIRE)
        state.handoffs[phase.index] = replace(record, state=standing, error=event.reason)
        bring_nothing(state, run, turn, call, record, event.reason)
    elif isinstance(phase, Offered):
        come_to_nothing(state, run, turn, call, Signal.EXPIRE, event.reason)


def come_to_nothing(state: State, run: Run, turn: Turn, call: OpenCall, signal: Signal, reason: str) -> None:
    """An offer is over that nobody answered, or whose answer is still being judged: whoever made it is told."""
    offered = handoff_of(call)
    assert isinstance(offered, Offered)
    if isinstance(call.phase, Asked):
        run.waiting.hear(state.at)
    if offered.index < 0:
        record = _note(state, run, call, offered, signal, reason)
    else:
        record = state.handoffs[offered.index]
        state.handoffs[offered.index] = replace(record, state=advance(record.state, signal), error=reason)
    if offered.offer.mode is Mode.DELEGATE:
        bring_nothing(state, run, turn, call, record, reason)
        return
    told = f"{offered.offer.receiver} did not take it: {reason}" if signal is Signal.EXPIRE else reason
    state.answer(run, turn, call, told, ok=False)
    if turn.deaf and not turn.code:
        # A Function member cannot be told, and would ask for it again and again.
        run.phase = Broken(RefusalFault(turn.agent, told))


def bring_nothing(state: State, run: Run, turn: Turn, call: OpenCall, record: HandoffRecord, error: str) -> None:
    """A delegate comes back without a result."""
    took = round(state.at - record.at, 3)
    call.result = DelegateResult(record.id, record.receiver, False, duration=took, error=error)
    text = msgspec.json.encode(call.result).decode()
    if isinstance(run.phase, Stopping):
        turn.answer(call, text, ok=False)
    else:
        state.answer(run, turn, call, text, ok=False)


def open_offers(state: State, run: Run, signal: Signal | None = None, reason: str = "") -> list[HandoffRecord]:
    """The handoffs of this turn that nobody has answered yet, after this befell them."""
    turn = run.phase.turn if isinstance(run.phase, TURNING) else None
    found = []
    for call in turn.calls.values() if turn else ():
        phase = handoff_of(call)
        if isinstance(phase, Offered) and phase.index < 0:
            standing = advance(OFFERED, signal) if signal else OFFERED
            found.append(replace(record_of(state.id, "", run, call, phase), state=standing, error=reason))
    return found


def _offered(run: Run, id: str) -> tuple[Turn, OpenCall, Offered] | None:
    found = find(run, id, Offered)
    if found and isinstance(phase := found[1].phase, Offered) and phase.offer.call == id and phase.index < 0:
        return *found, phase
    return None


def _decline(state: State, run: Run, call: OpenCall, offered: Offered, signal: Signal, reason: str) -> None:
    _note(state, run, call, offered, signal, reason)
    offer = offered.offer
    who = (*offer.declined_by, offer.receiver)
    run.declined[way_of(offer.mode, call)] = Refusal(state.task, handoff_id(state.id, offer.call), offer.attempt, who)


def _note(state: State, run: Run, call: OpenCall, offered: Offered, signal: Signal, reason: str) -> HandoffRecord:
    """Keep the record of a handoff that came to nothing, and so is none that a limit counts."""
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
    """Where the handoff stands that was claimed, if it was one and if it can."""
    for index in range(len(state.handoffs) - 1, -1, -1):
        record = state.handoffs[index]
        if record.id == ticket:
            if signals[0] in TRANSITIONS[record.state]:
                state.handoffs[index] = replace(record, state=advance(record.state, *signals))
            return
