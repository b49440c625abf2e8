"""What an entry takes of what the whole tree of a run may spend: model turns before they are made, and handoffs."""

from __future__ import annotations

from collections.abc import Sequence

from changeover.agent.roster import Roster, Seat
from changeover.errors import Exhausted
from changeover.relay.events import Event, LimitReached
from changeover.relay.ports import Reserve
from changeover.relay.run import Run, Thinking
from changeover.relay.state import State

Standing = tuple[Run | None, int, int, bool]
"""A run, the turns and handoffs that it has taken, and whether it has delegates."""

NOTHING: Standing = (None, 0, 0, False)


def in_tree(state: State) -> bool:
    """Whether others spend of the same: a root without delegates alone knows what it may spend."""
    return state.depth > 0 or (state.run is not None and state.run.delegates)


def standing(state: State, roster: Roster) -> Standing:
    """What a conversation has taken by now: the turns that were made, and the one that is due."""
    run = state.run
    if run is None:
        return NOTHING
    due = type(run.phase) is Thinking and type(roster.seats.get(state.agent)) is Seat
    return run, run.turns + due, run.handoffs, run.delegates


def reserve_of(before: Standing, state: State, roster: Roster) -> Reserve | None:
    """What was taken since then; nothing to say if it is nothing, or concerns nobody else.

    A root alone knows what it may spend. Once it delegates, all that it has taken is counted where the others look.
    """
    if state.depth == 0:
        return _of_root(before, state, roster)
    run, turns, handoffs, _ = standing(state, roster)
    earlier, turns_before, handoffs_before, _ = before
    if run is None:
        if earlier is None:
            return None
        run, turns, handoffs = earlier, earlier.turns, earlier.handoffs  # a turn that was not made is given back
    elif run is not earlier:
        turns_before, handoffs_before = run.turns, run.handoffs
    turns, handoffs = turns - turns_before, handoffs - handoffs_before
    return _reserve(run, state, roster, turns, handoffs) if turns or handoffs else None


def _of_root(before: Standing, state: State, roster: Roster) -> Reserve | None:
    if state.run is None or not state.run.delegates:
        return None
    run, turns, handoffs, _ = standing(state, roster)
    assert run is not None
    earlier, turns_before, handoffs_before, delegated = before
    if run is not earlier or not delegated:
        spent = run.below
        return _reserve(run, state, roster, turns + spent.turns, handoffs + spent.handoffs, anew=True)
    turns, handoffs = turns - turns_before, handoffs - handoffs_before
    return _reserve(run, state, roster, turns, handoffs) if turns or handoffs else None


def _reserve(run: Run, state: State, roster: Roster, turns: int, handoffs: int, anew: bool = False) -> Reserve:
    limits = run.spoken.limits or roster.limits
    # Whoever is told of a limit needs a last turn to answer: one is kept for each agent above this one.
    kept = state.depth if limits.on_limit == "tell" else 0
    return Reserve(turns, handoffs, limits.max_turns - kept, limits.max_handoffs, anew)


def heeding(events: Sequence[Event], limit: Exhausted) -> list[Event]:
    """These events, and that the tree may not spend what follows from them: that is not for this conversation to know,
    so the verdict is an event."""
    reached = LimitReached(limit.limit, limit.figure, limit.left)
    others = [event for event in events if not (isinstance(event, LimitReached) and event.limit == limit.limit)]
    return [*others, reached]
