"""The fold of requests to people: calls to approve, handoffs to accept, tasks to answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from changeover.agent.moves import GENERIC_TOOL
from changeover.facts import ApprovalRequest, DelegateResult, Mode
from changeover.faults import Circuit, RefusalFault
from changeover.guards.approval import Approve, Edit, Reject, Respond
from changeover.ids import call_of, handoff_id
from changeover.messages import Assistant, Note
from changeover.relay.events import ApprovalDecided, ApprovalRequested, ApprovalWaived
from changeover.relay.run import Acting, Awaiting, Broken, Replied, Run, Stopping, Thinking
from changeover.relay.turn import FRESH, Asked, Declined, Directed, Fresh, Offered, OpenCall, Turn, way_of

if TYPE_CHECKING:
    from changeover.relay.state import State


def ask(state: State, run: Run, event: ApprovalRequested) -> None:
    request, state.work.status = request_of(state.id, event, state.at), "waiting"
    if isinstance(run.phase, Thinking):
        run.phase = Awaiting(run.phase.due, request)
    elif found := run.find(event.call):
        turn, call = found
        before = call.phase if isinstance(call.phase, Offered | Declined | Directed) else None
        if not isinstance(before, Offered | Declined):
            call.void_unless(event.receiver)
        turn.move(call, Asked(request, before, event.rule))
    else:
        return
    run.waiting.ask(state.at)


def request_of(conversation: str, event: ApprovalRequested, at: float) -> ApprovalRequest:
    """The request as people read it."""
    return ApprovalRequest(
        conversation=conversation,
        call=event.call,
        agent=event.agent,
        tool=event.tool,
        arguments=event.arguments,
        receiver=event.receiver,
        message=event.message,
        at=at,
        expires_at=event.expires_at,
        on_expiry=event.on_expiry,
        kind=event.kind,
        roles=event.roles,
    )


def waive(state: State, run: Run, event: ApprovalWaived) -> None:
    if found := run.find(event.call, (Fresh, Directed)):
        turn, call = found
        if event.receiver is not None:
            call.void_unless(event.receiver)
        _let_pass(call, event.rule)
        turn.idle[call.id] = call


def _let_pass(call: OpenCall, rule: str) -> None:
    """Mark the approval that a rule demands as settled or, without a rule, that of the call's declaration."""
    if rule:
        call.passed = (*call.passed, rule)
    else:
        call.cleared = True


def rule(state: State, run: Run, event: ApprovalDecided) -> None:
    state.work.go_on()
    if isinstance(run.phase, Awaiting):
        if _is_about(run.phase.request, event):
            run.verdict, run.phase = event, Thinking(run.phase.due)
            run.waiting.hear(state.at)
        return
    if isinstance(run.phase, Stopping) or not (found := run.find(event.call, Asked)):
        return
    turn, call = found
    asked = call.phase
    assert isinstance(asked, Asked)
    if not _is_about(asked.request, event):
        return
    run.waiting.hear(state.at)
    match asked.before:
        case None | Directed():
            _clear(state, run, turn, call, asked, event)
        case Offered() as offered:
            waited = offered.waited + state.at - asked.request.at
            turn.move(call, replace(offered, verdict=event, waited=waited))
        case Declined() as declined:
            _settle(state, run, turn, call, declined, event)


def _is_about(request: ApprovalRequest, event: ApprovalDecided) -> bool:
    return (request.call, request.digest) == (event.call, event.digest)


def _clear(state: State, run: Run, turn: Turn, call: OpenCall, asked: Asked, event: ApprovalDecided) -> None:
    """Apply a decision about a call: whether it may run, or whether a finished one may lead elsewhere."""
    match event.decision:
        case Respond(text=text):
            return _leave_undone(state, run, turn, call, event, text)
        case Reject(note=note):
            return _leave_undone(state, run, turn, call, event, refusal(event, note))
        case Edit() as edit:
            call.edit = edit
            if edit.arguments is not None and asked.before is None:
                call.call = replace(call.call, args=edit.arguments, malformed="")
        case Approve():
            pass
    _let_pass(call, asked.rule)
    call.bound = _bound(asked.request, event.decision)
    call.permitted = call.permitted or not asked.rule
    return turn.move(call, asked.before if isinstance(asked.before, Directed) else FRESH)


def _bound(request: ApprovalRequest, decision: Approve | Edit) -> str | None:
    """The receiver that an approval holds for: the one that was shown, unless the person named another."""
    if not isinstance(decision, Edit):
        return request.receiver
    if decision.receiver:
        return decision.receiver
    named = request.tool == GENERIC_TOOL and decision.arguments is not None
    return None if named else request.receiver  # the arguments of the generic tool name the receiver


def _leave_undone(state: State, run: Run, turn: Turn, call: OpenCall, event: ApprovalDecided, text: str) -> None:
    """Answer a call that was not approved with the reason, or with the person's response."""
    ok, who = isinstance(event.decision, Respond), event.by or "a person"
    if ok:
        run.gain()
    if turn.deaf:
        return _end(state, run, turn, call, (who, text, ok))
    if turn.rule and ok:
        state.add(Note(text, who))
    return state.answer(run, turn, call, text, ok)


def _settle(state: State, run: Run, turn: Turn, call: OpenCall, phase: Declined, event: ApprovalDecided) -> None:
    """Apply a person's decision about a handoff that no receiver accepted."""
    if isinstance(event.decision, Edit):
        return turn.move(call, replace(phase, verdict=event))
    ok, text = isinstance(event.decision, Respond), settled(event)
    who, way = event.by or "a person", way_of(phase.offer.mode, call)
    if (before := run.declined.get(way)) is not None:
        run.declined[way] = replace(before, refused=())  # the person has the sender decide anew
    if ok:
        run.gain()
    if phase.offer.mode is Mode.DELEGATE:
        handoff = handoff_id(state.id, phase.offer.call)
        call.result = DelegateResult(handoff, who, ok, text if ok else "", error="" if ok else text)
        return state.answer(run, turn, call, msgspec.json.encode(call.result).decode(), ok)
    if not turn.quiet:
        return state.answer(run, turn, call, f"{who} answered: {text}" if ok else text, ok)
    found = phase.tripped.circuit if phase.tripped else None
    return _end(state, run, turn, call, (who, text, ok), found)


def _end(
    state: State, run: Run, turn: Turn, call: OpenCall, said: tuple[str, str, bool], circuit: Circuit | None = None
) -> None:
    """End the run of code or of a Function member with the person's decision, because it cannot be told; `circuit` is
    the open one of the last receiver."""
    who, text, ok = said
    turn.answer(call, text, ok)
    if ok:
        state.add(Assistant(who, text))
    run.phase = Replied(text, state.position) if ok else Broken(RefusalFault(turn.agent, text, circuit=circuit))


def settled(event: ApprovalDecided) -> str:
    """A person's decision about a handoff that no receiver accepted, as a text for its sender."""
    if isinstance(event.decision, Respond):
        return event.decision.text
    note = event.decision.note if isinstance(event.decision, Reject) else ""
    by = f" by {event.by}" if event.by else ""
    return f"given back{by}: {note}" if note else f"given back{by}"


def refusal(event: ApprovalDecided, note: str) -> str:
    """The text that a model reads about a call that was not approved."""
    if event.expired:
        return "not approved: nobody decided in time"
    by = f" by {event.by}" if event.by else ""
    return f"not approved{by}: {note}" if note else f"not approved{by}"


def pending_request(state: State, call: str) -> ApprovalRequest | None:
    """The request of this call that awaits a decision."""
    match state.run.phase if state.run else None:
        case Awaiting(request=request):
            return request if request.call == call else None
        case Acting(turn=turn):
            found = turn.calls.get(call_of(call))
            asked = found.phase.request if found and isinstance(found.phase, Asked) else None
            return asked if asked and asked.call == call else None
        case _:
            return None
