"""What an entry takes of what the whole tree of a run may spend: model turns before they are made, and handoffs."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from changeover.agent.roster import Roster, Seat
from changeover.relay.events import Event, RunStarted
from changeover.relay.ports import Reserve
from changeover.relay.run import Run, Thinking
from changeover.relay.state import State


class Standing(Struct, frozen=True, gc=False):
    """What a conversation had taken before an entry."""

    run: Run | None
    turns: int
    handoffs: int


NOBODY = Standing(None, 0, 0)


def standing(state: State, roster: Roster) -> Standing:
    """What it has taken by now: the turns that were made, and the one that is due."""
    run = state.run
    if run is None:
        return NOBODY
    due = isinstance(run.phase, Thinking) and isinstance(roster.seats.get(state.agent), Seat)
    return Standing(run, run.turns + due, run.handoffs)


def reserve_of(before: Standing, state: State, roster: Roster, events: Sequence[Event]) -> Reserve | None:
    """What these events took since then; nothing to say if it is nothing."""
    after = standing(state, roster)
    run = after.run or before.run
    if run is None:
        return None
    anew = state.depth == 0 and any(type(event) is RunStarted for event in events)
    if anew and after.run is not None:
        turns, handoffs = after.turns, after.handoffs
    elif after.run is None:  # it ended, and gives back the turn that was not made
        turns, handoffs = run.turns - before.turns, run.handoffs - before.handoffs
    elif before.run is None:  # taken up again, or begun by a delegate, which has spent nothing yet
        turns, handoffs = after.turns - run.turns, 0
    else:
        turns, handoffs = after.turns - before.turns, after.handoffs - before.handoffs
    if not (turns or handoffs or anew):
        return None
    limits = run.spoken.limits or roster.limits
    # Whoever is told of a limit needs a last turn to answer: one is kept for each agent above this one.
    kept = state.depth if limits.on_limit == "tell" else 0
    return Reserve(turns, handoffs, limits.max_turns - kept, limits.max_handoffs, anew)
