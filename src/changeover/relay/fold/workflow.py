"""The fold of workflows: steps begun, spread, skipped and failed. `Turn.answer` gives the answers to the flow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from changeover.ids import call_id
from changeover.messages import Assistant, Call
from changeover.relay.events import (
    RollbackBegan,
    StepBegan,
    StepFailed,
    StepSkipped,
    StepSpread,
    WorkflowBegan,
)
from changeover.relay.fold.rollback import close_turn
from changeover.relay.run import Acting, Run, Stopping, Thinking
from changeover.relay.turn import OpenCall, flow_turn
from changeover.workflows.expression import shown
from changeover.workflows.flow import Flow

if TYPE_CHECKING:
    from changeover.relay.state import State


def begin(state: State, run: Run, event: WorkflowBegan) -> None:
    if isinstance(run.phase, Thinking):
        spoken = run.spoken
        inputs = spoken.text if spoken.inputs is None else spoken.inputs
        flow = run.flow = Flow(event.plan, inputs)
        run.phase = Acting(flow_turn(state.agent, flow))
        run.agents.discard(state.agent)  # its members work, the workflow does not


def spread(state: State, run: Run, event: StepSpread) -> None:
    if run.flow is not None:
        run.flow.spread(event.step, event.count, event.items, state.at)


def begin_step(state: State, run: Run, event: StepBegan) -> None:
    if run.flow is None or not isinstance(run.phase, Acting):
        return
    turn, id = run.phase.turn, call_id(state.position, 0)
    if run.flow.begin(event.step, event.item, id, event.not_before, event.undo, state.at):
        turn.open(OpenCall(id, Call("", event.step), (len(turn.asked), 0)))


def skip_step(state: State, run: Run, event: StepSkipped) -> None:
    if run.flow is not None:
        run.flow.skip(event.step, state.at)


def fail_step(state: State, run: Run, event: StepFailed) -> None:
    if run.flow is None:
        return
    if event.attempt:
        run.flow.judge(event.reason, event.final, state.at)
    else:
        run.flow.fail(event.step, event.reason, state.at)


def roll_back(state: State, run: Run, event: RollbackBegan) -> None:
    if run.flow is not None and isinstance(run.phase, Stopping):
        close_turn(state, run, "the workflow failed")
        run.flow.undo(event.fault)
        run.phase = Acting(flow_turn(state.agent, run.flow))


def resume(state: State, run: Run, flow: Flow, step: str) -> None:
    """Go on with a run that had ended: with one step and all that follow it, or with all that is not done."""
    flow.resume(step)
    run.phase = Acting(flow_turn(state.agent, flow))


def complete(state: State, run: Run, flow: Flow, output: str | None) -> None:
    """End the run with this result, or with the outputs of its last steps."""
    text = result_text(flow, output)
    if text:
        state.add(Assistant(state.agent, text))
    state.end(run, text, None)


def result_text(flow: Flow, output: str | None) -> str:
    """The result of a workflow: the one that was recorded, else what its last steps gave."""
    if output is not None:
        return output
    last = flow.last
    return last[0].text if len(last) == 1 else shown({step.plan.id: step.output for step in last})
