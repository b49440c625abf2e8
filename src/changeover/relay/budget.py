"""Budgets: what a run has left of its limits, and what an entry reserves of the budget that a tree shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from changeover.agent.roster import Roster, Seat
from changeover.errors import Exhausted, limit_words
from changeover.faults import LimitFault, LimitName
from changeover.guards.limits import Limits
from changeover.relay.events import ENGINE, Event, HandoffAccepted, HandoffRejected, LimitReached
from changeover.relay.ports.log import Reserve
from changeover.relay.run import Run, Thinking
from changeover.relay.state import State


class Consumption(NamedTuple):
    """What a run has consumed by itself; empty without a run."""

    run: Run | None = None
    turns: int = 0
    handoffs: int = 0
    tokens: int = 0
    cost: float | None = 0.0
    agents: frozenset[str] = frozenset()
    delegates: bool = False


NOTHING = Consumption()


def in_tree(state: State) -> bool:
    """True if other conversations share the budget; a root without delegates has its own."""
    return state.depth > 0 or (state.run is not None and state.run.delegates)


def consumed(state: State, roster: Roster) -> Consumption:
    """What a conversation has consumed, with the turn that is due."""
    run = state.run
    if run is None:
        return NOTHING
    due = type(run.phase) is Thinking and type(roster.seats.get(state.agent)) is Seat
    return _taken(run, run.turns + due)


def _taken(run: Run, turns: int) -> Consumption:
    tokens = run.input_tokens + run.output_tokens
    return Consumption(run, turns, run.handoffs, tokens, run.cost, frozenset(run.agents), run.delegates)


def reserve_of(before: Consumption, state: State, roster: Roster) -> Reserve | None:
    """What was consumed since `before`, to reserve on the root's row; None if nothing was, or the budget is not shared.

    A root without delegates keeps its own count. Once it delegates, its whole consumption is added to the root's row.
    """
    if state.depth == 0:
        return _of_root(before, state, roster)
    now = consumed(state, roster)
    if now.run is None:
        if before.run is None:
            return None
        now = _taken(before.run, before.run.turns)  # a turn that was reserved and not made is released
    elif now.run is not before.run:
        before = _taken(now.run, now.run.turns)._replace(agents=frozenset())
    return _difference(before, now, state, roster)


def _of_root(before: Consumption, state: State, roster: Roster) -> Reserve | None:
    if state.run is None or not state.run.delegates:
        return None
    now = consumed(state, roster)
    if now.run is before.run and before.delegates:
        return _difference(before, now, state, roster)
    below, usage = state.run.below, state.run.usage
    so_far = Consumption(state.run, -below.turns, -below.handoffs, now.tokens - usage.total_tokens)
    return _reserve(so_far, now._replace(cost=state.run.whole_cost), state, roster, anew=True)


def _difference(before: Consumption, now: Consumption, state: State, roster: Roster) -> Reserve | None:
    # The counts of a run only grow, except for the turn that is due.
    return _reserve(before, now, state, roster) if before != now else None


def _reserve(before: Consumption, now: Consumption, state: State, roster: Roster, anew: bool = False) -> Reserve:
    run = now.run
    assert run is not None
    limits = run.limits or roster.limits
    # An agent that is told of a limit needs a last turn to answer: one is kept for each agent above this one.
    kept = state.depth if limits.on_limit == "tell" else 0
    return Reserve(
        now.turns - before.turns,
        now.handoffs - before.handoffs,
        limits.max_turns - kept,
        limits.max_handoffs,
        anew,
        now.tokens - before.tokens,
        None if now.cost is None or before.cost is None else now.cost - before.cost,
        tuple(sorted(now.agents - before.agents)),
        # An agent that was told of an exhausted budget may reply once more.
        None if "max_tokens" in state.limits else limits.max_tokens,
        None if "max_cost" in state.limits else limits.max_cost,
        limits.max_agents,
    )


def with_limit(events: Sequence[Event], limit: Exhausted) -> list[Event]:
    """The events with one for the limit that the store found exhausted; a conversation cannot compute the budget of its
    tree."""
    reached = LimitReached(limit.limit, limit.figure, limit.left, limit.spent, limit.agents)
    others = [event for event in events if not (isinstance(event, LimitReached) and event.limit == limit.limit)]
    if limit.limit != "max_agents":
        return [*others, reached]
    return [reached, *(_declined(event, limit) for event in others)]


def _declined(event: Event, limit: Exhausted) -> Event:
    """Reject the acceptance of an agent that the run does not have yet."""
    if not isinstance(event, HandoffAccepted) or event.receiver in limit.agents:
        return event
    reason = limit_words(limit.limit, limit.figure, None)
    return HandoffRejected(event.call, event.task, event.receiver, reason, by=ENGINE)


def handoffs_left(state: State, run: Run, limits: Limits) -> int:
    """Number of handoffs that this run may still make."""
    left = limits.max_handoffs - run.handoffs - run.below.handoffs
    if "max_handoffs" in state.limits:
        left = min(left, state.granted - run.handoffs)
    return left


def crowded(state: State, run: Run, receiver: str, limits: Limits) -> bool:
    """True if this receiver would be one agent more than the run may have."""
    if limits.max_agents is None or receiver in run.agents:
        return False
    found = state.limits.get("max_agents")
    known = run.agents.union(found.agents) if found else run.agents
    return receiver not in known and len(known) >= limits.max_agents


def exceeded(state: State, run: Run, limits: Limits, receiver: str, nested: bool) -> LimitName | None:
    """The limit that one more handoff to this receiver would exceed; `nested` if it would be a delegate."""
    if run.flow is None and handoffs_left(state, run, limits) <= 0:
        return "max_handoffs"
    if limits.max_agents is not None and crowded(state, run, receiver, limits):
        return "max_agents"
    return "max_depth" if nested and state.depth >= limits.max_depth else None


def spent_up(state: State, run: Run, limits: Limits) -> LimitFault | None:
    """The limit that one more model call would exceed."""
    most = state.work.max_iterations
    if most and run.turns >= most:
        return LimitFault("max_iterations", most)
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
