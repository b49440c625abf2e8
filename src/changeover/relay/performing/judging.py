"""Judging an answer as an effect: the form it must have, and functions of the user's that say whether it is good."""

from __future__ import annotations

from functools import partial
from typing import Any

from changeover.agent.moves import DelegateTo, Transfer
from changeover.agent.roster import Roster
from changeover.relay.commands import JudgeResult
from changeover.relay.events import ResultJudged
from changeover.relay.perform.callbacks import in_thread
from changeover.relay.performing.mishaps import TROUBLE, let_go, words_of
from changeover.relay.sanitize import text_of
from changeover.relay.world import World


async def judge_result(world: World, command: JudgeResult) -> ResultJudged:
    """Whether the answer is what was expected, and if not, what is wrong with it."""
    from changeover.handoffs.expectations import complaint, judged_later, misfit, value_of

    expects = _expects(world.roster, command)
    try:
        problem: str = await in_thread(partial(misfit, expects, command.text))
        for judge in () if problem else judged_later(expects):
            problem = problem or complaint(judge, await judge(value_of(expects, command.text)))
    except TROUBLE as error:  # the user's code: a result that it stumbles over is no good result
        let_go(error)
        problem = f"it could not be judged: {words_of(error)}"
    return ResultJudged(command.task, text_of(problem), command.call)


def _expects(roster: Roster, command: JudgeResult) -> Any:
    """The declaration by which it was handed over, with its functions; if that is gone, what was written down."""
    move = roster.move_of(command.sender, command.tool)
    declared: Any = None
    if isinstance(move, Transfer):
        declared = move.handoff.expects
    elif isinstance(move, DelegateTo):
        declared = move.delegate.expects
    if declared is not None:
        return declared
    from changeover.handoffs.package import Expectations

    return Expectations(output_schema=command.expected.schema, success_criteria=command.expected.criteria)
