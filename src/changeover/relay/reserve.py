"""What an entry takes of what the whole tree of a run may spend: model turns before they are made, and handoffs."""

from __future__ import annotations

from collections.abc import Sequence

from changeover.agent.roster import Roster, Seat
from changeover.errors import Exhausted
from changeover.relay.events import Event, LimitReached
from changeover.relay.ports import Reserve
from changeover.relay.run import Run, Thinking
from changeover.relay.state import State

Standing = tuple[Run | None, int, int]
"""A run, and the turns and handoffs that it has taken."""


def standing(state: State, roster: Roster) -> Standing:
    """What a conversation has taken by now: the turns that were made, and the one that is due."""
    run = state.run
    if run is None:
        return None, 0, 0
    due = type(run.phase) is Thinking and type(roster.seats.get(state.agent)) is Seat
    return run, run.turns + due, run.handoffs


def reserve_of(before: Standing, state: State, roster: Roster) -> Reserve | None:
    """What was taken since then; nothing to say if it is nothing."""
    run, turns, handoffs = standing(state, roster)
    earlier, turns_before, handoffs_before = before
    anew = False
    if run is None:
        if earlier is None:
            return None
        run, turns, handoffs = earlier, earlier.turns, earlier.handoffs  # a turn that was not made is given back
    elif run is not earlier:
        # Begun in a root, where nothing is spent yet; or taken up again, or begun by a delegate.
        anew = state.depth == 0 and not run.resumed
        turns_before, handoffs_before = (0, 0) if anew else (run.turns, run.handoffs)
    turns, handoffs = turns - turns_before, handoffs - handoffs_before
    if not (turns or handoffs or anew):
        return None
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
