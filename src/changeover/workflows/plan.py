"""Plan: a workflow as data, which the log of a run keeps. Functions are in it by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from changeover.guards.approval import Approval, OnExpiry, approval_of
from changeover.workflows.workflow import Retry, Workflow, WorkflowStep, code_name, seat_of


class Code(Struct, frozen=True, omit_defaults=True, gc=False):
    """A function of the declaration, which the team has under this name."""

    function: str


Formula = str | Code
"""A JMESPath expression or a function."""


class Consent(Struct, frozen=True, omit_defaults=True, gc=False):
    """The approval that a step needs."""

    expires: float | None = None
    on_expiry: OnExpiry = "reject"
    roles: tuple[str, ...] = ()
    summary: str | Code = ""
    when: Code | None = None


class StepPlan(Struct, frozen=True, omit_defaults=True, gc=False):
    """One step."""

    id: str
    member: str
    """The member that does it."""
    input: Formula = ""
    """A text with JMESPath in braces, or a function; empty for the default input."""
    context: dict[str, Formula] = {}
    after: tuple[str, ...] = ()
    when: Formula = ""
    for_each: Formula = ""
    concurrency: int = 0
    """Number of items that are worked on at once; 0 for all."""
    retry: Retry | None = None
    timeout: float | None = None
    approval: Consent | None = None
    undo: str = ""
    """The member that undoes it."""
    name: str = ""


class Plan(Struct, frozen=True, omit_defaults=True, gc=False):
    """A workflow with all its steps."""

    id: str
    steps: tuple[StepPlan, ...]
    name: str = ""
    output: Formula = ""
    description: str = ""

    @property
    def title(self) -> str:
        return self.name or self.id


def plan_of(workflow: Workflow) -> Plan:
    """The workflow as data."""
    steps = tuple(_step(workflow.id, step) for step in workflow.steps)
    output = _formula("", "output", workflow.output)
    return Plan(workflow.id, steps, workflow.name, output, workflow.description)


def _step(workflow: str, step: WorkflowStep) -> StepPlan:
    retry = step.retry if isinstance(step.retry, Retry) else Retry(step.retry) if step.retry else None
    return StepPlan(
        step.id,
        step.agent or _member(workflow, step.id, "function", step.function),
        _formula(step.id, "input", step.input),
        {name: _formula(step.id, f"context {name}", each) for name, each in step.context.items()},
        tuple(step.after),
        _formula(step.id, "when", step.when),
        _formula(step.id, "for_each", step.for_each),
        step.concurrency or 0,
        retry,
        step.timeout,
        _consent(step.id, approval_of(step.approval)),
        _member(workflow, step.id, "on_rollback", step.on_rollback or ""),
        step.name,
    )


def _member(workflow: str, step: str, option: str, declared: str | Callable[[Any], Any]) -> str:
    return declared if isinstance(declared, str) else seat_of(workflow, step, option)


def _formula(step: str, option: str, declared: str | Callable[..., Any] | None) -> Formula:
    if callable(declared):
        return Code(code_name(step, option, declared))
    return declared or ""


def _consent(step: str, approval: Approval | None) -> Consent | None:
    if approval is None:
        return None
    return Consent(
        approval.expires,
        approval.on_expiry,
        tuple(approval.roles),
        _formula(step, "approval summary", approval.summary),
        Code(code_name(step, "approval", approval.when)) if approval.when is not None else None,
    )
