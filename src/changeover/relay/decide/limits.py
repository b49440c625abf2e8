"""What happens when a limit forbids a step: the agent is told, the team falls back, or the run fails."""

from __future__ import annotations

from changeover.agent.roster import Roster
from changeover.faults import Fault, FunctionFault, LimitFault, LimitName
from changeover.relay.commands import Record
from changeover.relay.events import CallRefused, FellBack, RunFailed, RunStopped
from changeover.relay.run import Acting, Run
from changeover.relay.state import State
from changeover.relay.turn import Turn


def fail(run: Run, fault: Fault) -> Record:
    """The run fails."""
    busy = isinstance(run.phase, Acting) and run.phase.turn.delegated
    return Record(RunStopped(run.id, fault) if busy else RunFailed(run.id, fault))


def over_limit(state: State, run: Run, call: tuple[str, str], limit: LimitName, roster: Roster) -> Record:
    """One more than may be, by this call to this receiver: the agent is told, or the run fails."""
    limits = run.limits or roster.limits
    figure = getattr(limits, limit)
    reason = REASONS[limit].format(figure)
    # A Function member cannot be told, and would go on for ever.
    turn = run.phase.turn if isinstance(run.phase, Acting) else None
    if turn is not None and turn.rule:
        return Record(CallRefused(call[0], state.task, f"refused: {reason}", "limit", call[1]))
    of_function = turn is not None and turn.quiet
    if limits.on_limit != "tell" or of_function:
        if not roster.fallback or of_function:
            return fail(run, LimitFault(limit, figure))
        if not run.fell_back:
            return Record(FellBack(state.task, reason))
    id, receiver = call
    return Record(CallRefused(id, state.task, f"refused: {reason}; answer yourself", "limit", receiver))


def may_hand_off(state: State, turn: Turn, roster: Roster) -> bool:
    """Whether whoever asks may have others do something: code may unless nobody may."""
    return roster.handoffs_enabled if turn.code else roster.hands_off(state.root, turn.agent)


def alone(state: State, run: Run, turn: Turn, call: tuple[str, str]) -> Record:
    """Code wants to go to this receiver, where nobody hands off to anybody."""
    id, receiver = call
    if turn.deaf:
        reason = f"a Command to {receiver!r}, but each agent of this team works alone"
        return fail(run, FunctionFault(state.agent, reason))
    return Record(CallRefused(id, state.task, "refused: each agent of this team works alone", "ignored", receiver))


def overdue(state: State, run: Run) -> Record:
    """The time of the whole run is over."""
    found = state.limits["timeout"]
    return fail(run, LimitFault("timeout", found.figure, found.spent))


REASONS: dict[LimitName, str] = {
    "max_handoffs": "the run has made all its {} handoffs",
    "max_agents": "{} agents may work in the run, and that would be one more",
    "max_depth": "delegates may be nested {} deep, and you are at the bottom",
}
