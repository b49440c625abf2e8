"""How much a task may take, where that is not said but found out: by its words, or by a model that judges it."""

from __future__ import annotations

from collections.abc import Sequence

from changeover.agent.roster import Roster
from changeover.guards.limits import Limits
from changeover.guards.tiers import classify
from changeover.relay.commands import Command, JudgeTask, Record
from changeover.relay.events import TierChosen
from changeover.relay.run import Run
from changeover.relay.state import State


def choose(state: State, run: Run, limits: Limits, roster: Roster) -> Record | Sequence[Command]:
    """The limits of a run that has just begun."""
    found = classify(run.spoken.text, roster.capabilities)
    if limits.auto == "judge":
        return [JudgeTask(f"{run.id}=tier", state.task, state.id, run.id, run.spoken.text, limits, found)]
    return Record(TierChosen(run.id, found.tier, found.reason, limits.as_tier(found.tier)))


def awaited(state: State, command: str) -> bool:
    """Whether it is still to be found out by this command."""
    return state.run is not None and command == f"{state.run.id}=tier" and not state.run.tier
