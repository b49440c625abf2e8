"""Workflows in documents: steps, their conditions and references, retries and limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from changeover.documents.handoff_document import APPROVAL
from changeover.documents.record import Field, Record
from changeover.documents.settings_document import LIMITS
from changeover.documents.shape import (
    COUNT,
    ID,
    NUMBER,
    SECONDS,
    TEXT,
    TEXT_OR_FUNCTION,
    TEXTS,
    TIMEOUT,
    WHOLE,
    Inexpressible,
    Scope,
    Shape,
    list_of,
    map_of,
)
from changeover.documents.yaml_value import DocumentError, YamlValue
from changeover.workflows.workflow import Retry, Workflow, WorkflowStep
from changeover.workflows.workflow_faults import faults_by_step

RETRY_RECORD = Record(
    "a mapping with times",
    {
        "times": Field(WHOLE, "How often the step is tried again."),
        "wait": Field(SECONDS, "Seconds before the first retry."),
        "factor": Field(NUMBER, "By which the wait grows with each further retry."),
    },
)
_RETRY = RETRY_RECORD.shape(Retry)


def _read_retry(value: YamlValue, scope: Scope) -> int | Retry:
    found: int | Retry = _RETRY.read(value, scope) if value.is_mapping() else value.integer()
    return found


def _write_retry(value: Any, scope: Scope) -> Any:
    return (_RETRY if isinstance(value, Retry) else WHOLE).write(value, scope)


RETRY = Shape(_read_retry, _write_retry, {"anyOf": [WHOLE.schema, _RETRY.schema]})
MEMBER = replace(TEXT, schema=ID.schema)
"""The id of a member, which is checked with the whole workflow: its other faults are reported together with it."""
FORMULAS = map_of(TEXT_OR_FUNCTION, "a mapping of names to JMESPath")

STEP = Record(
    "a step with an id",
    {
        "id": Field(TEXT, "The id of the step, unique in its workflow."),
        "agent": Field(MEMBER, "The member that does it: an agent or a person."),
        "function": Field(TEXT_OR_FUNCTION, "In the place of an agent: the id of a Function member, or a function."),
        "input": Field(TEXT_OR_FUNCTION, "The task: a text with JMESPath in braces, or a function."),
        "context": Field(FORMULAS, "Context variables for the member, each as JMESPath or a function."),
        "after": Field(TEXTS, "The ids of the steps that have to end first."),
        "when": Field(TEXT_OR_FUNCTION, "The condition, as JMESPath or a function."),
        "for_each": Field(TEXT_OR_FUNCTION, "Gives the list for each of whose items the step runs."),
        "concurrency": Field(COUNT, "How many items are worked on at once."),
        "retry": Field(RETRY, "How often the step is tried again if it fails."),
        "timeout": Field(TIMEOUT, "Seconds for each attempt."),
        "approval": Field(APPROVAL, "Whether a person has to approve it first."),
        "on_rollback": Field(TEXT_OR_FUNCTION, "What undoes the step: the id of a member, or a function."),
        "name": Field(TEXT, "For display."),
    },
    ("id",),
)
WORKFLOW = Record(
    "a workflow with steps",
    {
        "name": Field(TEXT, "For display."),
        "description": Field(TEXT, "What it is for."),
        "steps": Field(list_of(STEP.shape(WorkflowStep), "a list of steps"), "The steps, in any order."),
        "output": Field(TEXT_OR_FUNCTION, "The result, as JMESPath or a function."),
        "limits": Field(LIMITS, "Limits of a whole run."),
    },
    ("steps",),
)


def read_workflow(name: str, value: YamlValue, scope: Scope) -> Workflow:
    """The workflow that stands under this name, without faults."""

    def faults(workflow: Workflow) -> Iterator[str | DocumentError]:
        steps = value.entry("steps", WORKFLOW.expected).items("a list of steps")
        for place, fault in faults_by_step(workflow, scope.ids, scope.ids):
            yield fault if place is None else steps[place].error(fault)

    return WORKFLOW.made(value, scope, lambda given: Workflow(name, **given), faults)


def write_workflow(workflow: Any, scope: Scope) -> dict[str, Any]:
    """The document of a workflow, without its id."""
    if not isinstance(workflow, Workflow):
        raise Inexpressible(f"a value of type {type(workflow).__name__} is no workflow")
    return WORKFLOW.document(workflow, Workflow(workflow.id), scope)
