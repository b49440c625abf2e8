"""After an offer: the answer, the next receiver or a person after a refusal, and the check of the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from changeover.agent.agent import Function, Person
from changeover.agent.roster import ABSENT, Roster, Seat
from changeover.errors import ExpectationError
from changeover.facts import DELEGATE, TRANSFER, RequestKind
from changeover.faults import RefusalFault, ResultFault
from changeover.guards.approval import Approve, Edit, Reject, Respond, verdict_words
from changeover.guards.breaker import open_words
from changeover.guards.guard import Tripped
from changeover.handoffs.context import merge_variables
from changeover.ids import Mark, Topic, command_id, topic_id
from changeover.messages import View
from changeover.relay.commands import (
    AskReceiver,
    AwaitApproval,
    Command,
    FindReceiver,
    JudgeResult,
    PackContext,
    Record,
)
from changeover.relay.decide import broker
from changeover.relay.decide.context import pack
from changeover.relay.decide.limits import fail
from changeover.relay.decide.offer import Step, from_refusal
from changeover.relay.decide.workflow import handed
from changeover.relay.events import (
    ENGINE,
    ApprovalDecided,
    ApprovalRequested,
    CallRefused,
    FellBack,
    HandoffAccepted,
    HandoffConditional,
    HandoffExpired,
    HandoffOffered,
    HandoffRejected,
    HandoffReturned,
    RepairAsked,
    RunCompleted,
    RunFailed,
)
from changeover.relay.run import Replied, Run, declared_by
from changeover.relay.state import State, context_of
from changeover.relay.turn import Asked, Declined, Offered, OpenCall, Turn


def go_on(state: State, run: Run, turn: Turn, call: OpenCall, roster: Roster) -> Record | Sequence[Command]:
    """What is due for the transfer of a turn when every other call is answered."""
    phase = call.phase
    if type(phase) is Offered and phase.is_fresh and accepts_at_once(phase.offer, roster):
        return Record(acceptance(state, phase.offer))
    if isinstance(phase, Asked):
        return (
            [AwaitApproval(command_id(phase.request.call, Mark.DECISION), state.task, phase.request)]
            if call.id in turn.ready
            else ()
        )
    due = answer(state, run, turn, call, roster)
    return due if isinstance(due, Record) else [due] if due else ()


def acceptance(state: State, offer: HandoffOffered) -> HandoffAccepted:
    """The acceptance of a transfer by its receiver."""
    return HandoffAccepted(offer.call, state.task, offer.receiver, TRANSFER, offer.receiver)


def accepts_at_once(offer: HandoffOffered, roster: Roster) -> bool:
    """True if the receiver accepts an offer without being asked, with nothing to wait for or check."""
    if offer.queued or offer.deadline is not None or offer.receiver in roster.absent:
        return False
    seat = roster.seats.get(offer.receiver)
    return not seat.asks if type(seat) is Seat else type(seat) is Function


def _unpacked(phase: Offered) -> bool:
    """True if the receiver's context still has to be made."""
    return phase.offer.packs and phase.packed is None


def answer(
    state: State, run: Run, turn: Turn, call: OpenCall, roster: Roster
) -> Record | AskReceiver | FindReceiver | JudgeResult | PackContext | None:
    """What is due for a call whose handoff was offered or declined; None if it has to wait."""
    match call.phase:
        case Offered(verdict=None, repair=repair, offer=offer) if repair:
            return _request(state, call, offer, "task", problem=repair)
        case Offered(verdict=None) as phase:
            return _answer_of(state, run, turn, call, phase, roster)
        case Offered(verdict=verdict, index=-1) as phase if verdict:
            return _answer_by(state, phase, verdict)
        case Offered(verdict=verdict) as phase if verdict:
            return _result_by(state, call, phase, verdict)
        case Declined() as phase:
            return _after_refusal(state, run, turn, call, phase, roster)
        case _:
            return None


def _answer_of(
    state: State, run: Run, turn: Turn, call: OpenCall, phase: Offered, roster: Roster
) -> Record | AskReceiver | PackContext | None:
    """The receiver's answer, if its declaration gives it; else the command that packs its context or asks it."""
    offer, seat = phase.offer, roster.member(phase.offer.receiver)
    if reason := _unaskable(phase, roster):
        return _rejected(state, offer, reason, by=ENGINE)
    if isinstance(seat, Person):
        return _request(state, call, offer, "task")
    if phase.needs:
        return _request(state, call, offer, "permission", {"permission": list(phase.needs)})
    if offer.needs_context or offer.needs_permission:
        return _condition(state, offer, offer.needs_context, offer.needs_permission)
    given = handed(state, run.flow, call, offer, roster)[1] if run.flow is not None else offer.variables
    if refusal := _refusal(state, phase, seat, given):
        return refusal
    if _unpacked(phase):
        return pack(state, run, turn, call, phase, roster) if call.id in turn.idle else None
    asks = isinstance(seat, Seat) and (seat.agent.accepts is not None or seat.agent.max_concurrency is not None)
    if not asks and not offer.queued:
        return _accepted(state, phase, offer.receiver)
    return question(state, run, turn, phase) if call.id in turn.idle else None


def _unaskable(phase: Offered, roster: Roster) -> str:
    """Why the receiver is not asked: its circuit is open or it is absent; empty if it is asked."""
    if (found := phase.tripped) is not None:
        return open_words(Tripped(found.receiver, found.failures, found.until))
    return ABSENT if phase.offer.receiver in roster.absent else ""


def question(state: State, run: Run, turn: Turn, phase: Offered) -> AskReceiver:
    """The command that asks the receiver of an offer."""
    offer, context = phase.offer, context_of(state, run, phase.offer.call)
    package = run.spoken.package if turn.code else None
    thread = View(state.thread)
    return AskReceiver(
        command_id(offer.call, Mark.QUESTION), state.task, context, offer, thread, phase.until, package, phase.packed
    )


def _refusal(state: State, phase: Offered, seat: Seat | Function | None, given: dict[str, Any]) -> Record | None:
    """The refusal that follows from the deadline or from the receiver's declaration, if any; `given` are the context
    variables of the offer."""
    offer = phase.offer
    if phase.until is not None and state.at >= phase.until:
        reason = "it was not asked before the deadline"
        return Record(HandoffExpired(offer.call, state.task, offer.receiver, reason, by=ENGINE))
    if seat is None:
        return _rejected(state, offer, "it is no longer in the team", by=ENGINE)
    if isinstance(seat, Function):
        return None
    if not seat.agent.accepts_handoffs:
        return _rejected(state, offer, "it takes no handoffs", by=offer.receiver)
    variables = merge_variables(state.variables, given, offer.merge)
    if lacks := seat.lacks(variables):
        return _condition(state, offer, lacks, misfits=seat.misfits(variables))
    return None


def _accepted(state: State, phase: Offered, by: str, answered: bool = False) -> Record:
    offer = phase.offer
    until = state.at + offer.timeout if offer.queued and offer.timeout is not None else phase.until
    deadline = until if offer.mode is DELEGATE else None
    who = (offer.call, state.task, offer.receiver, offer.mode, by)
    return Record(HandoffAccepted(*who, deadline, answered=answered))


def _rejected(state: State, offer: HandoffOffered, reason: str, suggested: str = "", *, by: str) -> Record:
    return Record(HandoffRejected(offer.call, state.task, offer.receiver, reason, suggested, by))


def _condition(
    state: State,
    offer: HandoffOffered,
    context: tuple[str, ...] = (),
    permission: tuple[str, ...] = (),
    misfits: tuple[str, ...] = (),
) -> Record:
    who, needs = (offer.call, state.task, offer.receiver), (context, permission)
    return Record(HandoffConditional(*who, *needs, offer.brokered, misfits, offer.receiver))


def _answer_by(state: State, phase: Offered, verdict: ApprovalDecided) -> Record:
    """The answer of a person, who is the receiver or was asked for permission."""
    offer, by = phase.offer, verdict.by or "a person"
    match verdict.decision:
        case Approve() | Respond() as decision:
            return _accepted(state, phase, by, isinstance(decision, Respond))
        case Edit(receiver=receiver):
            return _rejected(state, offer, f"handed on to {receiver}", receiver, by=by)
        case Reject(note=note):
            reason = note or f"{verdict_words(verdict.decision)} by a person"
            return Record(HandoffRejected(offer.call, state.task, offer.receiver, reason, by=by, own=True))


def _result_by(state: State, call: OpenCall, phase: Offered, verdict: ApprovalDecided) -> Record | JudgeResult:
    """The result of a delegate that is a person, after it was checked against the expectations."""
    offer, decision = phase.offer, verdict.decision
    who, by = (offer.call, state.task, offer.receiver), verdict.by or offer.receiver
    if not isinstance(decision, Respond):  # asked for another answer, the person gives none
        return Record(HandoffReturned(*who, success=False, error=verdict_words(decision), by=by))
    if offer.expected is not None and phase.problem is None:
        wish = declared_by(offer.expected, offer.sender, call.call.name)
        id = topic_id(offer.call, Topic.REPAIR if phase.repair else Topic.RESULT)
        return JudgeResult(id, state.task, decision.text, wish, offer.call)
    if phase.problem and not phase.repair:
        return Record(RepairAsked(state.task, phase.problem, offer.call))
    error = str(ExpectationError(offer.receiver, phase.problem)) if phase.problem else ""
    return Record(HandoffReturned(*who, success=not error, response=decision.text, error=error, by=by))


def _after_refusal(
    state: State, run: Run, turn: Turn, call: OpenCall, phase: Declined, roster: Roster
) -> Record | FindReceiver | None:
    """After a refusal: offer to the next receiver, find one, tell the sender, or ask a person."""
    offer = phase.offer
    if named := _named(phase, roster):
        return from_refusal(state, run, (turn, call), Step(named, run.spoken.queued), "run", roster)
    if run.brokers(turn):
        if (step := broker.step(run, call, phase, roster)) is None:
            return _tell_sender(state, turn, call, phase)
        return from_refusal(state, run, (turn, call), step, "", roster)
    last = offer.attempt + len(phase.refused) >= roster.attempts or phase.worn_out
    if not last and not phase.needs:
        if following := broker.candidate(turn, call, phase, roster):
            return from_refusal(state, run, (turn, call), Step(following, run.spoken.queued), "agents", roster)
        if turn.code and offer.required and call.chosen is None:
            return broker.search(state, run, turn, call, offer.required) if call.id in turn.idle else None
    return _none_left(state, run, turn, call, last, roster)


def _none_left(state: State, run: Run, turn: Turn, call: OpenCall, last: bool, roster: Roster) -> Record:
    """No receiver is left: code is told of an open circuit; the sender falls back, a person is asked, or the sender is
    told."""
    phase = call.phase
    assert isinstance(phase, Declined)
    if turn.code and phase.tripped is not None:
        return fail(run, RefusalFault(turn.agent, phase.reason, circuit=phase.tripped.circuit))
    if roster.fallback and (last or not phase.needs) and not turn.quiet:
        if not run.fell_back:
            return Record(FellBack(state.task, f"{phase.offer.receiver} did not take it: {phase.reason}"))
    elif (last and not turn.rule) or (turn.code and phase.offer.required and not phase.needs):
        return _escalate(state, call, phase)
    return _tell_sender(state, turn, call, phase)


def _named(phase: Declined, roster: Roster) -> str:
    """The receiver that a person named as the next one, if any."""
    if phase.verdict is not None and isinstance(phase.verdict.decision, Edit):
        return phase.verdict.decision.receiver
    return phase.suggested if phase.by and phase.suggested in roster.present else ""


def _tell_sender(state: State, turn: Turn, call: OpenCall, phase: Declined) -> Record:
    """Tell the sender that no receiver accepted."""
    offer = phase.offer
    if offer.mode is DELEGATE:
        error = f"{offer.receiver} did not take it: {phase.reason}"
        who = (offer.call, state.task, offer.receiver)
        return Record(HandoffReturned(*who, success=False, error=error, declined=True, by=ENGINE))
    if turn.deaf and not turn.code:
        return _escalate(state, call, phase)
    return Record(CallRefused(call.id, state.task, _refusal_words(phase), "declined", offer.receiver))


def _refusal_words(phase: Declined) -> str:
    receiver = phase.offer.receiver
    if phase.needs:
        known = f"{', '.join(phase.needs)}{f' ({phase.misfits})' if phase.misfits else ''}"
        return f"{receiver} takes it only if it knows {known}; hand off again and give that, or go on"
    return f"{receiver} did not take it: {phase.reason}; you still have the task"


def _escalate(state: State, call: OpenCall, phase: Declined) -> Record:
    """No receiver accepted: a person picks one, answers, or gives the task back."""
    offer = phase.offer
    about = {"declined": [*offer.declined_by, offer.receiver, *phase.refused], "reason": phase.reason}
    return _request(state, call, offer, "escalation", about)


def _request(
    state: State,
    call: OpenCall,
    offer: HandoffOffered,
    kind: RequestKind,
    about: dict[str, Any] | None = None,
    problem: str = "",
) -> Record:
    """Request a decision of a person about an offer, or another answer because of a problem with the first."""
    id, who = topic_id(offer.call, Topic.REPAIR if problem else kind), (offer.sender, call.call.name)
    asked = about if about is not None else offer.variables
    message = asked_for(offer.message or (state.run.spoken.text if state.run else ""), problem)
    return Record(ApprovalRequested(id, state.task, *who, asked, offer.receiver, message, kind=kind))


def asked_for(message: str, problem: str) -> str:
    """The message of a request to a person; with the problem, if the first answer did not meet the expectations."""
    return f"{message}\n\n{problem}" if problem else message


REPAIRS = 1
"""Number of times that a receiver may correct an answer that does not meet the expectations."""


def end(state: State, run: Run, turn: Turn, call: OpenCall, output: str) -> Record | Sequence[Command]:
    """What is due when a call ends the run with its output: the check of the output first, if one is expected."""
    wish = run.wish
    if wish is None or turn.judged == "":
        return Record(RunCompleted(run.id, output))
    if turn.judged is None:
        return [JudgeResult(topic_id(call.id, Topic.END), state.task, output, wish, call.id)]
    if run.repairs < REPAIRS and not turn.quiet:
        return Record(CallRefused(call.id, state.task, turn.judged, "result"))
    return Record(RunFailed(run.id, ResultFault(state.agent, turn.judged)))


def judge(state: State, run: Run, phase: Replied, roster: Roster) -> Record | Sequence[Command] | None:
    """What is due before the run may end with this answer: its check, a repair or a failure; None if nothing is."""
    wish = run.wish
    if wish is None:
        return None
    if not phase.judged:
        return [JudgeResult(topic_id(phase.at, Topic.RESULT), state.task, phase.text, wish)]
    if not phase.problem:
        return None
    if run.repairs < REPAIRS and isinstance(roster.seats.get(state.agent), Seat | Person):
        return Record(RepairAsked(state.task, phase.problem))
    return Record(RunFailed(run.id, ResultFault(state.agent, phase.problem)))
