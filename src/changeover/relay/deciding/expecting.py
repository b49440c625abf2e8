"""Whether an answer is what was expected of the handoff that led to it: judged once, repaired once."""

from __future__ import annotations

from collections.abc import Sequence

from changeover.agent.roster import Roster, Seat
from changeover.facts import Expected
from changeover.faults import ResultFault
from changeover.relay.commands import Command, JudgeResult, Record
from changeover.relay.events import CallRefused, RepairAsked, RunCompleted, RunFailed
from changeover.relay.run import Replied, Run
from changeover.relay.state import State
from changeover.relay.turn import OpenCall, Turn

REPAIRS = 1
"""How often a receiver is told what is wrong with its answer."""


def end(state: State, run: Run, turn: Turn, call: OpenCall, output: str) -> Record | Sequence[Command]:
    """What is due when a call says that the run ends with its output."""
    found = _in_force(state, run)
    if found is None or turn.judged == "":
        return Record(RunCompleted(run.id, output))
    if turn.judged is None:
        return [JudgeResult(f"{call.id}=end", state.task, output, *found, call.id)]
    if run.repairs < REPAIRS and not turn.quiet:
        return Record(CallRefused(call.id, state.task, turn.judged, "result"))
    return Record(RunFailed(run.id, ResultFault(state.agent, turn.judged)))


def judge(state: State, run: Run, phase: Replied, roster: Roster) -> Record | Sequence[Command] | None:
    """What is due before the run may end with this answer; None if nothing is."""
    found = _in_force(state, run)
    if found is None:
        return None
    if not phase.judged:
        return [JudgeResult(f"{phase.at}=result", state.task, phase.text, *found)]
    if not phase.problem:
        return None
    if run.repairs < REPAIRS and isinstance(roster.seats.get(state.agent), Seat):
        return Record(RepairAsked(state.task, phase.problem))
    return Record(RunFailed(run.id, ResultFault(state.agent, phase.problem)))


def _in_force(state: State, run: Run) -> tuple[Expected, str, str] | None:
    """What is expected of the run's answer, and by whose tool: of a delegate by whoever gave the task, whoever answers
    in the end; else by the last handoff of this run."""
    given, handed = run.spoken.given, state.handed
    if given is not None and given.expected is not None:
        return given.expected, given.sender, given.tool
    if state.leg >= 0 and handed is not None and handed.expected is not None:
        return handed.expected, handed.sender, handed.tool
    return None
