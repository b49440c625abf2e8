"""What a person does who is the active member, or who is asked since nobody does what it owes: the question waits in
an inbox, and the answer decides."""

from __future__ import annotations

from typing import Literal

from changeover.agent.roster import Roster
from changeover.faults import RefusalFault
from changeover.guards.approval import Edit, Reject, Respond
from changeover.relay.commands import Record
from changeover.relay.events import ApprovalRequested, FunctionReturned, RunFailed
from changeover.relay.run import Run, Thinking
from changeover.relay.state import State
from changeover.tools.command import Directive


def think(state: State, run: Run, phase: Thinking, roster: Roster) -> Record:
    """Ask the person, or do as the person said."""
    verdict = run.verdict
    if verdict is None:
        sender, kind = state.handed.sender if state.handed else "", _kind(run)
        about = {"reason": "whoever took it did not finish it"} if run.worn_out else state.variables
        id, who = f"{phase.due}={kind}", (sender, "", about, state.agent)
        return Record(ApprovalRequested(id, state.task, *who, run.spoken.text, kind=kind))
    match verdict.decision:
        case Respond(text=text):
            return Record(FunctionReturned(state.agent, state.task, text, by=verdict.by))
        case Edit(receiver=receiver):
            return Record(FunctionReturned(state.agent, state.task, "", Directive(goto=receiver), verdict.by))
        case Reject(note=note):
            return _give_back(state, run, note, verdict.by, roster)
        case _:
            return _give_back(state, run, "", verdict.by, roster)


def _kind(run: Run) -> Literal["task", "escalation"]:
    return "escalation" if run.worn_out else "task"


def _give_back(state: State, run: Run, note: str, by: str, roster: Roster) -> Record:
    """To whoever handed it over; if nobody did, it ends here."""
    sender = state.handed.sender if state.handed else ""
    given = state.leg < 0 and run.spoken.given is not None  # then the sender waits elsewhere, and is told there
    if sender in roster.seats and sender != state.agent and not given:
        return Record(FunctionReturned(state.agent, state.task, "", Directive(goto=sender, message=note), by))
    return Record(RunFailed(run.id, RefusalFault(state.agent, note or f"declined{f' by {by}' if by else ''}")))
