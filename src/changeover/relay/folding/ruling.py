"""What events mean for the rules of a team: they lead somewhere, judge a call, or could not be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from changeover.relay.events import RuleFailed, RuleFired
from changeover.relay.fold.calls import find
from changeover.relay.run import Acting, Run, Thinking
from changeover.relay.turn import rule_turn
from changeover.tools.command import Directive

if TYPE_CHECKING:
    from changeover.relay.state import State


def fire(state: State, run: Run, event: RuleFired) -> None:
    if event.goto:
        _lead(state, run, event)
    elif found := find(run, event.call):
        call = found[1]
        call.ruled = (*call.ruled, (event.rule, event.receiver))


def _lead(state: State, run: Run, event: RuleFired) -> None:
    """The agent hands over before its model is asked."""
    if isinstance(run.phase, Thinking):
        run.fired.add(event.rule)
        directive = Directive(goto=event.goto, message=event.message)
        run.phase = Acting(rule_turn(str(state.position), event.agent, directive, event.rule))


def misjudge(state: State, run: Run, event: RuleFailed) -> None:
    run.misjudged.add(event.rule)
