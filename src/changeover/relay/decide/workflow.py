"""The next decision of a workflow: which step begins, is skipped, tried again or undone; and what members get."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from changeover.agent.moves import Intent
from changeover.agent.roster import Roster
from changeover.facts import Mode
from changeover.faults import StepFault
from changeover.guards.approval import Approval
from changeover.handoffs.json_value import json_copy
from changeover.relay.commands import Record, SeekApproval
from changeover.relay.decide.limits import fail
from changeover.relay.decide.offer import Proposal, propose
from changeover.relay.events import (
    CallRefused,
    HandoffOffered,
    RollbackBegan,
    RunCompleted,
    RunFailed,
    StepBegan,
    StepFailed,
    StepSkipped,
    StepSpread,
    WorkflowBegan,
)
from changeover.relay.run import Run, Stopping
from changeover.relay.sanitize import text_of
from changeover.relay.state import State
from changeover.relay.turn import OpenCall, Turn
from changeover.workflows.expression import filled, search, shown
from changeover.workflows.flow import Flow, Piece, Progress
from changeover.workflows.plan import Code, Formula, StepPlan, plan_of
from changeover.workflows.workflow import Retry, Workflow, judgements

LONGEST_MESSAGE = 2_000
"""Characters of a task that its offer shows. The log of the member has the whole; here it would be a second copy."""
ONCE = Retry(0)


class Misjudged(Exception):
    """An expression or function of a step gave no usable value."""


def begin(state: State, workflow: Workflow) -> Record:
    """Begin a run of the workflow, with the definition that it keeps."""
    return Record(WorkflowBegan(state.task, plan_of(workflow)))


def advance(state: State, run: Run, flow: Flow, roster: Roster) -> Record | None:
    """The next decision about the steps; None if every step that can be under way is."""
    if flow.failures:
        return _judge(state, flow, *flow.failures[0])
    if flow.fault is not None:
        return _undo(state, run, flow)
    if flow.broken:
        return fail(run, StepFault(flow.plan.id, flow.broken, flow.steps[flow.broken].error))
    if flow.again:
        return _begin(state, flow, flow.again[0])
    if flow.ready:
        return _open(state, flow, next(iter(flow.ready.values())), roster)
    return _complete(state, run, flow, roster) if flow.is_over else None


def roll_back(run: Run, phase: Stopping) -> Record | None:
    """The rollback that is due before the run fails, if any. No step is under way any more."""
    flow = run.flow
    if flow is None or phase.fault is None or flow.fault is not None or flow.undoable is None:
        return None
    return Record(RollbackBegan(run.id, phase.fault))


def _judge(state: State, flow: Flow, piece: Piece, undo: bool) -> Record:
    """Record the failure of a piece, and whether it is tried again."""
    retry = flow.steps[piece.step].plan.retry or ONCE
    final = piece.refused or piece.tries > retry.times
    return Record(StepFailed(state.task, piece.step, piece.error, piece.index, piece.attempt, final, undo))


def _undo(state: State, run: Run, flow: Flow) -> Record | None:
    """Undo what was done, one piece at a time, the last first; then the run fails."""
    assert flow.fault is not None
    if flow.calls:
        return None
    piece = flow.again[0] if flow.again else flow.undoable
    return Record(RunFailed(run.id, flow.fault)) if piece is None else _begin(state, flow, piece, undo=True)


def _begin(state: State, flow: Flow, piece: Piece, undo: bool = False) -> Record:
    retry = flow.steps[piece.step].plan.retry or ONCE
    pause = retry.pause(piece.tries) if piece.tries else 0.0
    not_before = state.at + pause if pause else 0.0
    return Record(StepBegan(state.task, piece.step, piece.index, piece.attempt + 1, not_before, undo))


def _open(state: State, flow: Flow, step: Progress, roster: Roster) -> Record:
    """Begin a step, or its next item; unless it is skipped, or its items have to be found first."""
    plan = step.plan
    if step.todo:
        return _begin(state, flow, step.todo[-1])
    if flow.skips(step):
        return Record(StepSkipped(state.task, plan.id, "all steps before it were skipped"))
    try:
        if plan.when and not _value(state, flow, step, "when", plan.when, roster):
            return Record(StepSkipped(state.task, plan.id, "its condition is not met"))
        if not plan.for_each:
            return Record(StepBegan(state.task, plan.id))
        items = _items(state, flow, step, roster)
        recorded = items if isinstance(plan.for_each, Code) else None
        return Record(StepSpread(state.task, plan.id, len(items), recorded))
    except Misjudged as error:
        return Record(StepFailed(state.task, plan.id, str(error), final=True))


def _complete(state: State, run: Run, flow: Flow, roster: Roster) -> Record:
    """End the run; a declared result is recorded, the default is in the log already."""
    if not flow.plan.output:
        return Record(RunCompleted(run.id))
    try:
        scope = {**flow.results(), "context": state.variables}
        return Record(RunCompleted(run.id, text_of(shown(_found("output", flow.plan.output, scope, flow, roster)))))
    except Misjudged as error:
        return fail(run, StepFault(flow.plan.id, "output", str(error)))


def offer_step(state: State, run: Run, turn: Turn, call: OpenCall, roster: Roster) -> Record | SeekApproval:
    """Offer an attempt at a step to its member, after a person approved it if one has to."""
    assert turn.flow is not None
    flow, (piece, undo) = turn.flow, turn.flow.calls[call.id]
    step = flow.steps[piece.step].plan
    try:
        text, variables = errand(state, flow, call, roster)
        approval = None if undo or call.cleared else _approval(step, flow, roster)
    except Misjudged as error:
        return Record(CallRefused(call.id, state.task, str(error), "step", step.member))
    told = text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]}… ({len(text):,} characters)"
    pause = max(0.0, piece.not_before - state.at)
    timeout = None if step.timeout is None else step.timeout + pause
    intent = Intent(step.undo if undo else step.member, told, mode=Mode.DELEGATE, timeout=timeout)
    proposal = Proposal(turn, call, None, intent, "step", call.id, approval=approval, guarded=False)
    due = propose(state, run, proposal, roster)
    return replace(due, call=replace(call.call, args=variables)) if isinstance(due, SeekApproval) else due


def handed(
    state: State, flow: Flow, call: OpenCall, offer: HandoffOffered, roster: Roster
) -> tuple[str, dict[str, Any]]:
    """The task and context variables of a member to which a step was offered; those of the offer if a function that
    gives them is no longer declared."""
    try:
        return errand(state, flow, call, roster)
    except Misjudged:
        return offer.message, offer.variables


def errand(state: State, flow: Flow, call: OpenCall, roster: Roster) -> tuple[str, dict[str, Any]]:
    """The task and context variables of the member that an attempt at a step is for. Raises Misjudged."""
    found = flow.findings.errands.get(call.id)
    if found is None:
        found = flow.findings.errands[call.id] = _errand(state, flow, call, roster)
    return found


def _errand(state: State, flow: Flow, call: OpenCall, roster: Roster) -> tuple[str, dict[str, Any]]:
    piece, undo = flow.calls[call.id]
    plan, scope = flow.steps[piece.step].plan, _scope(state, flow, piece, roster)
    variables = {name: _found(f"context {name}", each, scope, flow, roster) for name, each in plan.context.items()}
    if undo:
        task = f"Undo what the step {plan.id!r} did. Its result was:\n\n{piece.text}"
        return task, {**variables, "step": plan.id, "output": piece.output}
    if call.edit is not None and call.edit.arguments is not None:
        variables = call.edit.arguments
    return text_of(_task(flow, plan, scope, roster)), variables


def _task(flow: Flow, plan: StepPlan, scope: dict[str, Any], roster: Roster) -> str:
    """The text that the member gets."""
    if isinstance(plan.input, Code):
        return shown(_found("input", plan.input, scope, flow, roster))
    if plan.input:
        try:
            return filled(plan.input, scope)
        except ValueError as error:
            raise Misjudged(f"its input cannot be filled in: {error}") from None
    if plan.for_each:  # not the whole list for each item of it
        return shown(scope["item"])
    told = [shown(flow.inputs)]
    told += [f"The step {id!r} gave:\n{text}" for id in plan.after if (text := flow.steps[id].text)]
    return "\n\n".join(filter(None, told))


def _scope(state: State, flow: Flow, piece: Piece, roster: Roster) -> dict[str, Any]:
    """The values that the expressions of one piece of a step read."""
    step = flow.steps[piece.step]
    scope = {**flow.scope_of(piece.step), "context": state.variables}
    if step.plan.for_each:
        items = _items(state, flow, step, roster)
        scope["item"], scope["index"] = items[piece.index] if piece.index < len(items) else None, piece.index
    return scope


def _items(state: State, flow: Flow, step: Progress, roster: Roster) -> list[Any]:
    """The items of a step, found once in each process unless the log has them."""
    if step.items is not None:
        return step.items
    items = flow.findings.items.get(step.plan.id)
    if items is None:
        found = _value(state, flow, step, "for_each", step.plan.for_each, roster)
        if not isinstance(found, list):
            raise Misjudged(f"its for_each gave {_kind(found)}, not a list")
        items = flow.findings.items[step.plan.id] = found
    return items


def _value(state: State, flow: Flow, step: Progress, option: str, formula: Formula, roster: Roster) -> Any:
    return _found(option, formula, {**flow.scope_of(step.plan.id), "context": state.variables}, flow, roster)


def _found(option: str, formula: Formula, scope: dict[str, Any], flow: Flow, roster: Roster) -> Any:
    """The value that an expression or a function gives for this scope. Raises Misjudged."""
    try:
        if isinstance(formula, Code):
            return json_copy(_function(formula, flow, roster)(scope))
        return search(formula, scope)
    except Misjudged:
        raise
    except Exception as error:
        raise Misjudged(f"its {option} could not be judged: {type(error).__name__}: {error}"[:1_000]) from None


def _function(code: Code, flow: Flow, roster: Roster) -> Callable[..., Any]:
    """The function that the team declares under the recorded name."""
    declared = roster.workflows.get(flow.plan.id)
    found = dict(judgements(declared)).get(code.function) if declared is not None else None
    if found is None:
        raise Misjudged(f"it began with the function {code.function!r}, which the team does not declare any more")
    return found


def _approval(step: StepPlan, flow: Flow, roster: Roster) -> Approval | None:
    consent = step.approval
    if consent is None:
        return None
    return Approval(
        expires=consent.expires,
        on_expiry=consent.on_expiry,
        roles=consent.roles,
        when=_function(consent.when, flow, roster) if consent.when is not None else None,
        summary=_function(consent.summary, flow, roster) if isinstance(consent.summary, Code) else consent.summary,
    )


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
