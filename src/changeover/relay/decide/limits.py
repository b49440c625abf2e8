"""Refusals by limits, switched-off handoffs and earlier rejections: the agent is told, the team falls back, or the run
fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from changeover.agent.roster import Roster
from changeover.faults import Fault, FunctionFault, LimitFault, LimitName
from changeover.handoffs.context import merge_variables
from changeover.relay.commands import Record
from changeover.relay.events import CallRefused, FellBack, RunFailed, RunStopped
from changeover.relay.run import Acting, Run
from changeover.relay.state import State
from changeover.relay.turn import Turn, way_of

if TYPE_CHECKING:
    from changeover.relay.decide.offer import Proposal


def fail(run: Run, fault: Fault) -> Record:
    """Fail the run; its delegates are called back first, and the steps of a workflow are undone."""
    busy = isinstance(run.phase, Acting) and run.phase.turn.delegated
    busy = busy or (run.flow is not None and run.flow.fault is None and run.flow.undoable is not None)
    return Record(RunStopped(run.id, fault) if busy else RunFailed(run.id, fault))


def over_limit(state: State, run: Run, call: tuple[str, str], limit: LimitName, roster: Roster) -> Record:
    """Refuse a call with its receiver because of a limit: the agent is told, the team falls back, or the run fails."""
    limits = run.limits or roster.limits
    figure = getattr(limits, limit)
    reason = REASONS[limit].format(figure)
    # A Function member cannot be told, and would retry forever.
    turn = run.phase.turn if isinstance(run.phase, Acting) else None
    if turn is not None and (turn.rule or run.undoes):
        return Record(CallRefused(call[0], state.task, f"refused: {reason}", "limit", call[1], limit=limit))
    of_function = turn is not None and turn.quiet
    if limits.on_limit != "tell" or of_function:
        if not roster.fallback or of_function:
            return fail(run, LimitFault(limit, figure))
        if not run.fell_back:
            return Record(FellBack(state.task, reason))
    id, receiver = call
    told = f"refused: {reason}; answer yourself"
    return Record(CallRefused(id, state.task, told, "limit", receiver, limit=limit))


def may_hand_off(state: State, turn: Turn, roster: Roster) -> bool:
    """True if the agent of the turn may hand off here; code may wherever the team may."""
    return roster.handoffs_enabled if turn.code else roster.hands_off(state.root, turn.agent)


def alone(state: State, run: Run, turn: Turn, call: tuple[str, str]) -> Record:
    """Refuse a Command in a conversation whose agents work alone."""
    id, receiver = call
    if turn.deaf:
        reason = f"a Command to {receiver!r}, but each agent of this team works alone"
        return fail(run, FunctionFault(state.agent, reason))
    return Record(CallRefused(id, state.task, "refused: each agent of this team works alone", "ignored", receiver))


def refused_before(state: State, run: Run, proposal: Proposal, receiver: str) -> Record | None:
    """Refuse to ask a receiver that has rejected the same task; a person may name it again."""
    turn, call, intent = proposal.turn, proposal.call, proposal.intent
    if turn.quiet or call.edit is not None or proposal.origin not in ("call", "command"):
        return None
    before = run.declined.get(way_of(intent.mode, call))
    if before is None or before.task != state.task:
        return None
    context = merge_variables(state.variables, intent.variables, intent.merge)
    if (receiver, intent.message, context) not in before.refused:
        return None
    reason = f"refused: {receiver} has rejected this task; give it to another agent, or go on yourself"
    return Record(CallRefused(call.id, state.task, reason, "guard", receiver))


def overdue(state: State, run: Run) -> Record:
    """Fail a run whose time is over."""
    found = state.limits["timeout"]
    return fail(run, LimitFault("timeout", found.figure, found.spent))


REASONS: dict[LimitName, str] = {
    "max_handoffs": "the run has made all its {} handoffs",
    "max_agents": "{} agents may work in the run, and that would be one more",
    "max_depth": "delegates may be nested {} deep, and you are at the bottom",
}
