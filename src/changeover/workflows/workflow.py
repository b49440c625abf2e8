"""Workflow, WorkflowStep and Retry: a workflow as users declare it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from inspect import isawaitable, iscoroutinefunction
from typing import Any

import msgspec

from changeover.copies import FrozenDict
from changeover.guards.approval import Approvable, Approval
from changeover.guards.limits import Limits
from changeover.tools.command import Command

Scope = dict[str, Any]
"""What conditions and references read, by name: `inputs`, `steps`, `context`, and with for_each `item` and `index`."""
Expression = str | Callable[[Scope], Any]
"""A JMESPath expression, or in code a pure function of the Scope."""


@dataclass(frozen=True)
class Retry:
    """How often a step that fails is tried again, and how long to wait before that."""

    times: int = 1
    """How often it is tried again."""
    _: KW_ONLY
    wait: float = 0.0
    """In seconds, before the first retry."""
    factor: float = 2.0
    """By which the wait grows with each further retry."""

    def pause(self, attempt: int) -> float:
        """Seconds to wait after this attempt, from 1."""
        return self.wait * self.factor ** (attempt - 1)


@dataclass(frozen=True)
class WorkflowStep:
    """One step of a workflow: an agent, a person or a function does a task, and its answer is the output of the step.

    An answer that is a JSON object, array, number or boolean is read as that value.
    """

    id: str
    """Letters, digits, '-' and '_', at most 64."""
    _: KW_ONLY
    agent: str = ""
    """The id of the member that does it: an agent, which may hand off, or a person."""
    function: str | Callable[[Any], Any] = ""
    """In the place of an agent: the id of a Function member, or a function `fn(ctx)` that returns a JSON value."""
    input: str | Callable[[Scope], str] = ""
    """The task: a text in which braces hold JMESPath, such as "Deploy {inputs.version}", or a function. By default the
    inputs of the workflow and the outputs of the steps that it comes after; with `for_each` the item."""
    context: Mapping[str, Expression] = field(default_factory=FrozenDict)
    """Context variables for the member by name, each as JMESPath or a function."""
    after: Sequence[str] = ()
    """The ids of the steps that have to end first. The step is skipped if all of them were skipped."""
    when: Expression | None = None
    """The condition: the step is skipped if it gives nothing, false, 0 or something empty."""
    for_each: Expression | None = None
    """Gives a list: the step runs once for each `item` of it, and its output is the list of their outputs."""
    concurrency: int | None = None
    """How many items are worked on at once; None for all."""
    retry: int | Retry = 0
    """How often it is tried again if it fails."""
    timeout: float | None = None
    """Seconds for each attempt; None for no limit. The time in which it waits for people does not count."""
    approval: Approvable = None
    """True, a function `(ctx, arguments)` or an Approval(…), if a person has to approve it first."""
    on_rollback: str | Callable[[Any], Any] | None = None
    """What undoes the step if a later one fails for good: the id of a member, or a function `fn(ctx)`."""
    name: str = ""
    """For display; the id if empty."""

    def __post_init__(self) -> None:
        _freeze(self)


@dataclass(frozen=True)
class Workflow:
    """Steps that a team carries out in an order that is known beforehand; steps that do not wait for one another run
    at the same time.

    It is a declaration, which a run never changes. `Team(…, workflows=[…])` reports all its faults as one
    MisconfiguredError.
    """

    id: str
    """Letters, digits, '-' and '_', at most 64; no member of the team has it."""
    _: KW_ONLY
    name: str = ""
    """For display; the id if empty."""
    description: str = ""
    """What it is for."""
    steps: Sequence[WorkflowStep] = ()
    """Its steps, in any order: `after` says which come first."""
    output: Expression | None = None
    """The result, as JMESPath or a function. By default the output of the last step; of several, an object by step."""
    limits: Limits | None = None
    """Limits of a whole run with all its steps; None takes the limits of the team. Steps count as no handoffs."""

    def __post_init__(self) -> None:
        _freeze(self)

    @property
    def title(self) -> str:
        return self.name or self.id

    def step(self, id: str) -> WorkflowStep | None:
        """The step with this id, if there is one."""
        return next((step for step in self.steps if step.id == id), None)


def seat_of(workflow: str, step: str, field: str) -> str:
    """The id under which a function of a step works as a member; no declared member can have it."""
    return f"{workflow}.{step}" if field == "function" else f"{workflow}.{step}.{field}"


def effects(workflow: Workflow) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """The functions of a workflow that have effects, each with its id as a member."""
    for step in workflow.steps:
        for option in ("function", "on_rollback"):
            if callable(code := getattr(step, option)):
                yield seat_of(workflow.id, step.id, option), code


def answering(code: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function of a step as a Function member, which answers with a text: what it returns is written as JSON."""
    if iscoroutinefunction(code):

        async def answer(context: Any) -> Any:
            return _written(await code(context))

        return answer

    def answer_now(context: Any) -> Any:
        given = code(context)
        return _awaited(given) if isawaitable(given) else _written(given)

    return answer_now


async def _awaited(given: Awaitable[Any]) -> Any:
    return _written(await given)


def _written(given: Any) -> Any:
    if given is None or isinstance(given, str | Command):
        return given or ""
    return msgspec.json.encode(given).decode()


def judgements(workflow: Workflow) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions of a workflow without effects, which judge or compute, each with its name in the log of a run."""
    for step in workflow.steps:
        approval = step.approval if isinstance(step.approval, Approval) else Approval(when=_function(step.approval))
        options = {name: getattr(step, name) for name in ("input", "when", "for_each")}
        given = {f"context {name}": each for name, each in step.context.items()}
        asked = {"approval": approval.when, "approval summary": approval.summary}
        for option, code in {**options, **given, **asked}.items():
            if callable(code):
                yield code_name(step.id, option, code), code
    if callable(workflow.output):
        yield code_name("", "output", workflow.output), workflow.output


def code_name(step: str, option: str, code: Callable[..., Any]) -> str:
    """The name of a function: where it is declared, and what it is called."""
    called = getattr(code, "__qualname__", type(code).__qualname__)
    return f"{step} {option}: {called}".strip()


def _function(declared: object) -> Callable[..., Any] | None:
    return declared if callable(declared) else None


def _freeze(declared: Any) -> None:
    """Copy lists and dicts: later changes of the caller's must not reach the declaration."""
    for each in fields(declared):
        value = getattr(declared, each.name)
        if isinstance(value, list):
            object.__setattr__(declared, each.name, tuple(value))
        elif isinstance(value, dict):
            object.__setattr__(declared, each.name, FrozenDict(value))
