"""What a person does who is the active member: the question waits in an inbox, and the answer decides."""

from __future__ import annotations

from changeover.agent.roster import Roster
from changeover.facts import RefusalFault
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
        id, message = f"{phase.due}=task", run.spoken.text
        sender = state.handed.sender if state.handed else ""
        return Record(ApprovalRequested(id, state.task, sender, "", state.variables, state.agent, message, kind="task"))
    match verdict.decision:
        case Respond(text=text):
            return Record(FunctionReturned(state.agent, state.task, text, by=verdict.by))
        case Edit(receiver=receiver):
            return Record(FunctionReturned(state.agent, state.task, "", Directive(goto=receiver), verdict.by))
        case Reject(note=note):
            return _give_back(state, run, note, verdict.by, roster)
        case _:
            return _give_back(state, run, "", verdict.by, roster)


def _give_back(state: State, run: Run, note: str, by: str, roster: Roster) -> Record:
    """To whoever handed it over; if nobody did, it ends here."""
    sender = state.handed.sender if state.handed else ""
    if sender in roster.seats and sender != state.agent:
        return Record(FunctionReturned(state.agent, state.task, "", Directive(goto=sender, message=note), by))
    return Record(RunFailed(run.id, RefusalFault(state.agent, note or f"declined{f' by {by}' if by else ''}")))
