"""Checks of workflows before they run: every fault at once, each with its remedy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import inf

from changeover.guards.approval import approval_faults
from changeover.guards.limits import limit_faults
from changeover.handoffs.callback import arity_faults
from changeover.ids import SLUG
from changeover.workflows.expression import brace_faults, fault, placeholders, references
from changeover.workflows.flow import before
from changeover.workflows.workflow import Retry, Workflow, WorkflowStep

FIELDS = ("output", "text", "status")
"""What references can read of a step."""
ROOTS = ("inputs", "steps", "context")
ITEM = ("item", "index")
"""What references can read of a run, and with for_each of an item."""


def workflow_faults(workflows: object, functions: Collection[str], members: Collection[str]) -> list[str]:
    """The faults of these workflows of a team, one text each; `functions` are the ids of its Function members."""
    if not isinstance(workflows, Sequence) or isinstance(workflows, str):
        return [f"workflows={workflows!r} is not a list of workflows: Team(…, workflows=[Workflow(…)])"]
    found = [f"{each!r} is no workflow; give Workflow(…)" for each in workflows if not isinstance(each, Workflow)]
    known = [each for each in workflows if isinstance(each, Workflow)]
    ids = Counter(each.id for each in known if isinstance(each.id, str))
    found += [f"{n} workflows are called {id!r}; give each an id of its own" for id, n in ids.items() if n > 1]
    return found + [words for each in known for _, words in faults_by_step(each, functions, members)]


def faults_by_step(
    workflow: Workflow, functions: Collection[str], members: Collection[str]
) -> Iterator[tuple[int | None, str]]:
    """The faults of one workflow, each with the index of its step; None for a fault of the workflow as a whole."""
    who = f"workflow {workflow.id!r}"
    if workflow.id in members:
        yield None, f"a member and a workflow are called {workflow.id!r}; give one another id"
    for each in _faults(workflow):
        yield None, f"{who} {each}"
    steps = workflow.steps if _has_steps(workflow) else ()
    afters = {step.id: step.after for step in steps if _is_names(step.after)}
    for place, step in enumerate(steps):
        for each in _step_faults(step, functions, members, afters):
            yield place, f"{who} step {step.id!r} {each}"
    for each in _formula_faults("output", workflow.output, set(afters), afters, ()) if steps else ():
        yield None, f"{who} {each}"


def _has_steps(workflow: Workflow) -> bool:
    steps = workflow.steps
    return isinstance(steps, Sequence) and bool(steps) and all(isinstance(each, WorkflowStep) for each in steps)


def _faults(workflow: Workflow) -> Iterator[str]:
    """Faults of a workflow as a whole."""
    yield from _id_faults(workflow)
    for option in ("name", "description"):
        if not isinstance(value := getattr(workflow, option), str):
            yield f"has {option}={value!r}; give a text"
    yield from limit_faults(workflow.limits)
    if not _has_steps(workflow):
        yield f"has steps={workflow.steps!r}; give a list of WorkflowStep(…)s"
        return
    ids = Counter(step.id for step in workflow.steps)
    yield from (f"has {n} steps called {id!r}; give each an id of its own" for id, n in ids.items() if n > 1)
    yield from _order_faults({step.id: step.after for step in workflow.steps if _is_names(step.after)})


def _id_faults(declared: Workflow | WorkflowStep) -> Iterator[str]:
    if not isinstance(declared.id, str) or not SLUG.fullmatch(declared.id):
        yield "has an invalid id; use letters, digits, '-' and '_', at most 64"


def _order_faults(afters: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Steps that wait for themselves, and those that can never begin because they come after such a step."""
    caught = [id for id in afters if id in before(afters, id)]
    rounds = {frozenset(other for other in caught if other in before(afters, id)) for id in caught}
    for each in sorted(rounds, key=sorted):
        yield f"has steps that wait for one another: {', '.join(sorted(each))}"
    for id in afters:
        if id not in caught and (blocked := [each for each in before(afters, id) if each in caught]):
            yield f"has the step {id!r}, which is never reached: it comes after {', '.join(sorted(blocked))}"


def _step_faults(
    step: WorkflowStep, functions: Collection[str], members: Collection[str], afters: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    yield from _id_faults(step)
    yield from _member_faults(step, functions, members)
    if step.id not in afters:
        yield f"has after={step.after!r}; give a list of ids of steps"
    else:
        unknown = [each for each in step.after if each not in afters]
        yield from (
            f"comes after {each!r}, and there is no such step; choose among {_listed(afters)}" for each in unknown
        )
    yield from approval_faults(step.approval)
    yield from _number_faults(step)
    earlier = set(before(afters, step.id)) if step.id in afters else set()
    item = ITEM if step.for_each is not None else ()
    yield from _formula_faults("when", step.when, earlier, afters, ())
    yield from _formula_faults("for_each", step.for_each, earlier, afters, ())
    if isinstance(step.input, str):
        yield from (f"has an input in which {each}" for each in brace_faults(step.input))
        for expression in placeholders(step.input):
            yield from _expression_faults("input", expression, earlier, afters, item)
    else:
        yield from _formula_faults("input", step.input, earlier, afters, item)
    if not isinstance(step.context, Mapping) or not all(isinstance(name, str) for name in step.context):
        yield f"has context={step.context!r}; give expressions by the names of variables"
    else:
        for name, formula in step.context.items():
            yield from _formula_faults(f"context {name}", formula, earlier, afters, item)


def _member_faults(step: WorkflowStep, functions: Collection[str], members: Collection[str]) -> Iterator[str]:
    if bool(step.agent) == bool(step.function):
        yield "needs an agent or a function, one of the two"
    if step.agent and step.agent not in members:
        yield f"has the agent {step.agent!r}, which is not in the team; choose among {_listed(members)}"
    if isinstance(step.function, str) and step.function and step.function not in functions:
        yield f"has the function {step.function!r}, which is no Function of the team; there are: {_listed(functions)}"
    if isinstance(step.on_rollback, str) and step.on_rollback not in members:
        yield f"has on_rollback={step.on_rollback!r}, which is not in the team; choose among {_listed(members)}"
    for option in ("function", "on_rollback"):
        code = getattr(step, option)
        if code is not None and not isinstance(code, str) and not callable(code):
            yield f"has {option}={code!r}; give the id of a member, or a function of the context"
        yield from arity_faults(option, code, "context")


def _number_faults(step: WorkflowStep) -> Iterator[str]:
    if not _is_number(step.timeout, above=0) and step.timeout is not None:
        yield f"has timeout={step.timeout!r}; give seconds above 0, or None for no limit"
    if step.concurrency is not None and not (_is_whole(step.concurrency) and step.concurrency >= 1):
        yield f"has concurrency={step.concurrency!r}; give 1 or more, or None for no limit"
    retry = step.retry if isinstance(step.retry, Retry) else Retry(step.retry)
    if not _is_whole(retry.times) or retry.times < 0:
        yield f"has retry={step.retry!r}; give how often it is tried again, or Retry(…)"
    for option in ("wait", "factor"):
        if not _is_number(value := getattr(retry, option), above=-1e-9):
            yield f"has a retry with {option}={value!r}; give a number, 0 or more"


def _formula_faults(
    option: str, formula: object, earlier: Collection[str], known: Collection[str], item: Sequence[str]
) -> Iterator[str]:
    if isinstance(formula, str):
        yield from _expression_faults(option, formula, earlier, known, item)
    elif formula is not None and not callable(formula):
        yield f"has {option}={formula!r}; give JMESPath, or a function of what the steps gave"
    else:
        yield from arity_faults(option, formula, "scope")


def _expression_faults(
    option: str, expression: str, earlier: Collection[str], known: Collection[str], item: Sequence[str]
) -> Iterator[str]:
    """The faults of an expression that may read the outputs of these earlier steps."""
    if wrong := fault(expression):
        yield f"has {option}={expression!r}, which is no JMESPath: {wrong}"
        return
    for path in sorted(references(expression)):
        if problem := _reference_fault(path, earlier, known, item):
            yield f"has {option}={expression!r}: {problem}"


def _reference_fault(
    path: tuple[str, ...], earlier: Collection[str], known: Collection[str], item: Sequence[str]
) -> str:
    root, *rest = path
    if root not in (*ROOTS, *item):
        return f"{root!r} cannot be read here; there are: {', '.join((*ROOTS, *item))}"
    if root != "steps" or not rest:
        return ""
    step = rest[0]
    if step not in known:
        return f"there is no step {step!r}; there are: {_listed(known)}"
    if step not in earlier:
        return f"the step {step!r} does not come before it; name it in after=…"
    if len(rest) > 1 and rest[1] not in FIELDS:
        return f"a step gives no {rest[1]!r}; it gives: {', '.join(FIELDS)}"
    return ""


def _is_names(value: object) -> bool:
    listed = isinstance(value, Sequence) and not isinstance(value, str)
    return listed and all(isinstance(each, str) for each in value)  # type: ignore[attr-defined]


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object, above: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and above < value < inf


def _listed(ids: Collection[str]) -> str:
    return ", ".join(sorted(set(ids))) or "none"
