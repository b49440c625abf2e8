"""Events of workflows: begun with its definition, steps begun, spread, skipped and failed, rollback begun."""

from __future__ import annotations

from typing import Any

from changeover.faults import Fault
from changeover.relay.events.runs import Recordable
from changeover.workflows.plan import Plan


class WorkflowBegan(Recordable, frozen=True, tag="workflow_began"):
    """A run of a workflow began; it keeps this definition to its end."""

    task: int
    plan: Plan
    """The workflow with all its steps; functions are in it by name."""


class StepSpread(Recordable, frozen=True, tag="step_spread"):
    """The items of a step with `for_each` are known; the step runs once for each."""

    task: int
    step: str
    """The id of the step."""
    count: int
    """Number of items."""
    items: list[Any] | None = None
    """The items, if a function gave them; else the expression finds them again in the outputs of earlier steps."""


class StepBegan(Recordable, frozen=True, tag="step_began"):
    """An attempt at a step began, or at one item of it; the position of this event names its call and handoff."""

    task: int
    step: str
    """The id of the step."""
    item: int = 0
    """Index of the item, with `for_each`."""
    attempt: int = 1
    """Number of the attempt, from 1."""
    not_before: float = 0.0
    """When the member may begin; 0 for at once."""
    undo: bool = False
    """True if it undoes the step, because a later one failed for good."""


class StepSkipped(Recordable, frozen=True, tag="step_skipped"):
    """A step is not carried out, because of its condition or because all steps before it were skipped."""

    task: int
    step: str
    """The id of the step."""
    reason: str


class StepFailed(Recordable, frozen=True, tag="step_failed"):
    """An attempt at a step failed. It is tried again, unless it was the last."""

    task: int
    step: str
    """The id of the step."""
    reason: str
    item: int = 0
    """Index of the item, with `for_each`."""
    attempt: int = 0
    """Number of the attempt; 0 if the step could not begin."""
    final: bool = False
    """True if the step has failed for good."""
    undo: bool = False
    """True if the attempt was to undo the step."""


class RollbackBegan(Recordable, frozen=True, tag="rollback_began"):
    """The workflow fails: the steps that are done are undone first, the last one first."""

    run: int
    fault: Fault
    """Why the workflow fails."""
