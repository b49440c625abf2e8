"""Whether an answer is what was expected of the handoff that led to it: judged once, repaired once."""

from __future__ import annotations

from collections.abc import Sequence

from changeover.agent.roster import Roster, Seat
from changeover.facts import Expected, Handed, ResultFault
from changeover.relay.commands import Command, JudgeResult, Record
from changeover.relay.events import RepairAsked, RunFailed
from changeover.relay.run import Replied, Run
from changeover.relay.state import State

REPAIRS = 1
"""How often a receiver is told what is wrong with its answer."""


def judge(state: State, run: Run, phase: Replied, handed: Handed, roster: Roster) -> Record | Sequence[Command] | None:
    """What is due before the run may end with this answer; None if nothing is."""
    found = _in_force(state, run, handed)
    if found is None:
        return None
    expected, sender, tool = found
    if not phase.judged:
        return [JudgeResult(f"{phase.at}=result", state.task, phase.text, expected, sender, tool)]
    if not phase.problem:
        return None
    if run.repairs < REPAIRS and isinstance(roster.seats.get(state.agent), Seat):
        return Record(RepairAsked(state.task, phase.problem))
    return Record(RunFailed(run.id, ResultFault(state.agent, phase.problem)))


def _in_force(state: State, run: Run, handed: Handed) -> tuple[Expected, str, str] | None:
    """What is expected of the run's answer: of a delegate by whoever gave the task, whoever answers in the end; else by
    the last handoff of this run."""
    given = run.spoken.given
    if given is not None and given.expected is not None:
        return given.expected, given.sender, given.tool
    if state.leg >= 0 and handed.expected is not None:
        return handed.expected, handed.sender, handed.tool
    return None
