"""How far a run has come with what it may spend, as far as its own log says."""

from __future__ import annotations

from changeover.faults import LimitFault
from changeover.guards.limits import Limits
from changeover.relay.run import Run
from changeover.relay.state import State


def handoffs_left(state: State, run: Run, limits: Limits) -> int:
    """How many handoffs this run may still make."""
    left = limits.max_handoffs - run.handoffs - run.below.handoffs
    if "max_handoffs" in state.limits:
        left = min(left, state.granted - run.handoffs)
    return left


def crowded(state: State, run: Run, receiver: str, limits: Limits) -> bool:
    """Whether the run has as many agents as it may, and this would be one more."""
    if limits.max_agents is None or receiver in run.agents:
        return False
    found = state.limits.get("max_agents")
    known = run.agents.union(found.agents) if found else run.agents
    return receiver not in known and len(known) >= limits.max_agents


def spent_up(state: State, run: Run, limits: Limits) -> LimitFault | None:
    """The limit that a further call of a model would exceed."""
    given = run.spoken.given
    if given is not None and given.max_iterations and run.turns >= given.max_iterations:
        return LimitFault("max_iterations", given.max_iterations)
    if "max_turns" in state.limits or run.turns + run.below.turns >= limits.max_turns:
        return LimitFault("max_turns", limits.max_turns)
    return _over_time(state) or _over_tokens(state, run, limits) or _over_cost(state, run, limits)


def _over_time(state: State) -> LimitFault | None:
    found = state.limits.get("timeout")
    return LimitFault("timeout", found.figure, found.spent) if found else None


def _over_tokens(state: State, run: Run, limits: Limits) -> LimitFault | None:
    if limits.max_tokens is None:
        return None
    found = state.limits.get("max_tokens")
    if found is None and run.tokens < limits.max_tokens:
        return None
    return LimitFault("max_tokens", limits.max_tokens, found.spent if found else run.tokens)


def _over_cost(state: State, run: Run, limits: Limits) -> LimitFault | None:
    if limits.max_cost is None:
        return None
    found, cost = state.limits.get("max_cost"), run.whole_cost
    if found is None and cost is not None and cost < limits.max_cost:
        return None
    return LimitFault("max_cost", limits.max_cost, found.spent if found else cost)
