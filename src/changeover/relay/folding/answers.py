"""What events mean for handoffs that were not simply accepted: rejected, given conditions, too late."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from changeover.facts import DelegateResult, HandoffRecord, Mode, RefusalFault
from changeover.handoffs.protocol import Signal, advance
from changeover.relay.events import HandoffConditional, HandoffExpired, HandoffRejected
from changeover.relay.folding.calls import find
from changeover.relay.passing import OFFERED, record_of
from changeover.relay.run import TURNING, Broken, Refusal, Run, Stopping
from changeover.relay.turn import Asked, Declined, Delegated, Offered, OpenCall, Turn, way_of

if TYPE_CHECKING:
    from changeover.relay.state import State


def reject(state: State, run: Run, event: HandoffRejected) -> None:
    if found := _offered(run, event.call):
        turn, call, offered = found
        _decline(state, run, call, offered, Signal.REJECT, event.reason)
        at = (offered.offer, offered.lasts, event.reason)
        turn.move(call, Declined(*at, (), event.suggested, event.by, offered.commanded))


def condition(state: State, run: Run, event: HandoffConditional) -> None:
    found = _offered(run, event.call)
    if not found:
        return
    turn, call, offered = found
    if event.needs_context:
        reason = f"it has to know {', '.join(event.needs_context)}"
        _decline(state, run, call, offered, Signal.RETURN, reason)
        at = (offered.offer, offered.lasts, reason)
        turn.move(call, Declined(*at, event.needs_context, commanded=offered.commanded))
    else:
        turn.move(call, replace(offered, needs=event.needs_permission))


def expire(state: State, run: Run, event: HandoffExpired) -> None:
    found = find(run, event.call, (Offered, Delegated))
    if not found:
        return
    turn, call = found
    run.take_back(event.spent)
    if isinstance(phase := call.phase, Offered) and phase.offer.call == event.call:
        _note(state, run, call, phase, Signal.EXPIRE, event.reason)
        if phase.offer.mode is Mode.TRANSFER:
            return leave_with_sender(state, run, turn, call, f"{event.receiver} did not take it: {event.reason}")
    elif isinstance(phase, Delegated) and phase.offer.call == event.call:
        record = state.handoffs[phase.index]
        standing = advance(record.state, Signal.EXPIRE)
        state.handoffs[phase.index] = replace(record, state=standing, error=event.reason)
    else:
        return None
    took = round(state.at - state.handoffs[-1 if isinstance(phase, Offered) else phase.index].at, 3)
    id = f"{state.id}:{event.call}"
    call.result = DelegateResult(id, event.receiver, False, duration=took, error=event.reason)
    text = msgspec.json.encode(call.result).decode()
    if isinstance(run.phase, Stopping):
        turn.answer(call, text, ok=False)
    else:
        state.answer(run, turn, call, text, ok=False)
    return None


def open_offers(state: State, run: Run, signal: Signal | None = None, reason: str = "") -> list[HandoffRecord]:
    """The handoffs of this turn that nobody has answered yet, after this befell them."""
    turn = run.phase.turn if isinstance(run.phase, TURNING) else None
    found = []
    for call in turn.calls.values() if turn else ():
        phase = call.phase.before if isinstance(call.phase, Asked) else call.phase
        if isinstance(phase, Offered) and phase.index < 0:
            standing = advance(OFFERED, signal) if signal else OFFERED
            found.append(replace(record_of(state.id, "", run, call, phase), state=standing, error=reason))
    return found


def leave_with_sender(state: State, run: Run, turn: Turn, call: OpenCall, reason: str) -> None:
    """A transfer comes to nothing, and whoever asked for it is told. A Function member cannot be, and would ask for it
    again and again."""
    state.answer(run, turn, call, reason, ok=False)
    if turn.quiet and not turn.code:
        run.phase = Broken(RefusalFault(turn.agent, reason))


def _offered(run: Run, id: str) -> tuple[Turn, OpenCall, Offered] | None:
    found = find(run, id, Offered)
    if found and isinstance(phase := found[1].phase, Offered) and phase.offer.call == id and phase.index < 0:
        return *found, phase
    return None


def _decline(state: State, run: Run, call: OpenCall, offered: Offered, signal: Signal, reason: str) -> None:
    _note(state, run, call, offered, signal, reason)
    offer = offered.offer
    who = (*offer.declined_by, offer.receiver)
    run.declined[way_of(offer.mode, call)] = Refusal(state.task, f"{state.id}:{offer.call}", offer.attempt, who)


def _note(state: State, run: Run, call: OpenCall, offered: Offered, signal: Signal, reason: str) -> None:
    """Keep the record of a handoff that came to nothing, and so is none that a limit counts."""
    run.handoffs -= 1
    record = record_of(state.id, "", run, call, offered)
    state.handoffs.append(replace(record, state=advance(OFFERED, signal), error=reason))
