"""How a run that cannot go on ends: at once, or after its delegates are called back."""

from __future__ import annotations

from changeover.agent.roster import Roster
from changeover.facts import Fault, FunctionFault, LimitFault, LimitName
from changeover.guards.limits import Limits
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
    limits = run.spoken.limits or roster.limits
    figure = getattr(limits, limit)
    reason = REASONS[limit].format(figure)
    # A Function member cannot be told, and would go on for ever.
    of_function = isinstance(run.phase, Acting) and run.phase.turn.quiet
    if limits.on_limit != "tell" or of_function:
        if not roster.fallback or of_function:
            return fail(run, LimitFault(limit, figure))
        if not run.fell_back:
            return Record(FellBack(state.task, reason))
    id, receiver = call
    return Record(CallRefused(id, state.task, f"refused: {reason}; answer yourself", "limit", receiver))


def alone(state: State, run: Run, turn: Turn, call: tuple[str, str]) -> Record:
    """Code wants to go to this receiver, where nobody hands off to anybody."""
    id, receiver = call
    if turn.quiet:
        reason = f"a Command to {receiver!r}, but each agent of this team works alone"
        return fail(run, FunctionFault(state.agent, reason))
    return Record(CallRefused(id, state.task, "refused: each agent of this team works alone", "ignored", receiver))


def handoffs_left(state: State, run: Run, limits: Limits) -> int:
    """How many handoffs this run may still make."""
    left = limits.max_handoffs - run.handoffs - run.below.handoffs
    if "max_handoffs" in state.limits:
        left = min(left, state.granted - run.handoffs)
    return left


REASONS: dict[LimitName, str] = {
    "max_handoffs": "the run has made all its {} handoffs",
    "max_depth": "delegates may be nested {} deep, and you are at the bottom",
}
