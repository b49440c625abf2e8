"""Fallback: when an agent goes on alone, because its handoff failed or it insists on one that cannot be made."""

from __future__ import annotations

from changeover.agent.roster import Roster, Seat
from changeover.faults import Fault, LimitFault, ModelFault, ReceiverFault, RefusalFault
from changeover.ids import split_handoff
from changeover.relay.commands import Record
from changeover.relay.events import FellBack, RunFailed
from changeover.relay.projection.texts import fault_words
from changeover.relay.run import Run
from changeover.relay.state import State


def let_down(state: State, run: Run, seat: Seat, roster: Roster) -> str:
    """Why the active agent has to go on alone; empty if it has not."""
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
