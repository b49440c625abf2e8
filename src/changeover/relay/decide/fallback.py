"""Fallback: what is decided when work cannot go on as planned.

An agent goes on alone if its handoff failed, or if it insists on one that cannot be made. If workers claimed a task too
often, the open calls of its turn are given up, so that a person can be asked.
"""

from __future__ import annotations

from changeover.agent.roster import Roster, Seat
from changeover.faults import Fault, LimitFault, ModelFault, ReceiverFault, RefusalFault
from changeover.ids import call_id, split_handoff
from changeover.relay.commands import Record
from changeover.relay.events import (
    ENGINE,
    CallRefused,
    FellBack,
    HandoffRejected,
    RollbackRequested,
    RunFailed,
    ToolFinished,
)
from changeover.relay.projection.texts import fault_words
from changeover.relay.run import Run
from changeover.relay.state import State
from changeover.relay.turn import Answered, Asked, Begun, Declined, Delegated, Fanned, Offered, OpenCall, Turn

WORN_OUT = "no worker that claimed it finished it"


def let_down(state: State, run: Run, seat: Seat, roster: Roster) -> str:
    """Why the active agent has to go on alone; empty if it does not have to."""
    if run.strikes <= roster.second_chances:
        return run.let_down
    match fault_of(state, run, seat, roster):
        case ReceiverFault(receiver=receiver):
            return f"no agent is called {receiver!r}"
        case RefusalFault(reason=reason):
            return reason.removeprefix("refused: ")
        case _:
            return ""


def fault_of(state: State, run: Run, seat: Seat, roster: Roster) -> Fault:
    """The fault of a model whose calls were wrong too often."""
    mistake = run.mistake
    if mistake is not None and mistake.why == "guard":
        return RefusalFault(state.agent, mistake.reason, mistake.cycle)
    if mistake is not None and mistake.why in ("receiver", "command"):
        # A model can hand off to the receivers of its tools, code to any member.
        possible = seat.transfers if mistake.why == "receiver" else roster.present
        return ReceiverFault(state.agent, mistake.receiver, possible)
    return ModelFault(state.agent, mistake.reason if mistake else "its calls could not be carried out")


def unless_sender_goes_on(state: State, decision: Record, roster: Roster) -> Record:
    """The decision; if it fails a run because the receiver of a transfer failed, the sender goes on alone instead.

    A limit of the run ends it. Code, Function members and people cannot go on alone.
    """
    event = decision.event
    if not isinstance(event, RunFailed) or isinstance(event.fault, LimitFault) or state.leg < 0:
        return decision
    record = state.handoffs[state.leg]
    sender = record.sender
    if sender not in roster.present or not isinstance(roster.seats[sender], Seat):
        return decision
    call, why = split_handoff(record.id)[1], fault_words(event.fault)
    return Record(FellBack(state.task, why, call, sender, roster.pulls(sender), event.fault))


def given_up(state: State, turn: Turn) -> Record | None:
    """The next open call that is given up; None if none is left."""
    for call in turn.calls.values():
        if (due := _give_up(state, turn, call)) is not None:
            return due
    return None


def _give_up(state: State, turn: Turn, call: OpenCall) -> Record | None:
    """Give up a call: withdraw an offer, recall a delegate, refuse everything else."""
    match call.phase:
        case Answered() | Asked():  # a person is asked already
            return None
        case Delegated(recalled=recalled, offer=offer):
            return None if recalled else Record(RollbackRequested(offer.call, WORN_OUT, ENGINE, cleans=True))
        case Offered(index=-1, offer=offer) if turn.deaf:  # the asker cannot be told, so a person is asked
            return Record(HandoffRejected(offer.call, state.task, offer.receiver, WORN_OUT, by=ENGINE, worn_out=True))
        case Offered(offer=offer):
            return Record(RollbackRequested(offer.call, WORN_OUT, ENGINE, cleans=True))
        case Declined() if turn.deaf:
            return None
        case Begun():
            return Record(ToolFinished(call.id, state.task, "", ok=False, unknown=True))
        case Fanned(sent=sent, directive=directive):
            branch = call_id(call.id, sent)
            return _refused(state, branch) if sent < len(directive.sends) else None
        case _:
            return _refused(state, call.id)


def _refused(state: State, call: str) -> Record:
    return Record(CallRefused(call, state.task, f"ignored: {WORN_OUT}", "ignored"))
