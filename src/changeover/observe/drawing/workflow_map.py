"""WorkflowMap: a workflow as text for a terminal, or as places of its steps and routes of the arrows between them."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from changeover.observe.drawing.course import one_line
from changeover.observe.drawing.diagram import AFTER_APPROVAL, branches
from changeover.observe.drawing.layers import Box, Link
from changeover.observe.drawing.layout import Point, Rect, laid_out
from changeover.workflows.expression import placeholders, references
from changeover.workflows.plan import Formula, Plan, StepPlan

WIDTH, HEIGHT = 184.0, 62.0
"""The size of the box of a step, in pixels: room for its name, its member and its state."""


PHRASES = {"input": "input:", "each of": "for each of", "retries": "retries:", "time": "at most", "undo": "undone by"}
"""The first words of a detail beside the drawing, where no column holds them."""


class PlacedStep(Struct, frozen=True):
    """A step and its box."""

    id: str
    name: str
    member: str
    details: tuple[str, ...]
    """What is special about it, in words."""
    box: Rect
    many: bool = False
    """True if it runs once for each item of a list."""


class PlacedLink(Struct, frozen=True):
    """An arrow from a step to one that comes after it."""

    source: str
    target: str
    points: tuple[Point, ...]
    """The corners of its line."""


class WorkflowMap(Struct, frozen=True):
    """Steps and arrows, in pixels from the top left."""

    width: float
    height: float
    steps: tuple[PlacedStep, ...]
    links: tuple[PlacedLink, ...]


def workflow_map(plan: Plan) -> WorkflowMap:
    """The steps of a workflow in columns, each to the right of those that it comes after."""
    known = {step.id for step in plan.steps}
    links = [Link(each, step.id) for step in plan.steps for each in step.after if each in known]
    # Layouts go from top to bottom: with boxes on their side, and all places turned back, from left to right.
    layout = laid_out([Box(step.id, HEIGHT, WIDTH) for step in plan.steps], links)
    return WorkflowMap(
        layout.height,
        layout.width,
        tuple(
            PlacedStep(
                step.id,
                step.name or step.id,
                member_words(step.member),
                tuple(f"{PHRASES.get(what, what)} {words}" for what, words in details(step)),
                _turned(layout.boxes[step.id]),
                bool(step.for_each),
            )
            for step in plan.steps
        ),
        tuple(
            PlacedLink(link.source, link.target, tuple((y, x) for x, y in route.points))
            for link, route in zip(links, layout.routes, strict=True)
        ),
    )


def _turned(box: Rect) -> Rect:
    return Rect(box.y, box.x, box.height, box.width)


def workflow_text(plan: Plan) -> str:
    """A workflow for a terminal: its steps, each below those that it comes after, and the steps that follow each."""
    about = f": {one_line(plan.name)}" if plan.name else ""
    lines = [f"workflow {plan.id}{about}", *([one_line(plan.description)] if plan.description else []), ""]
    for step in in_order(plan):
        name = f" ({one_line(step.name)})" if step.name else ""
        rows = [f"{what:<8}  {words}" for what, words in details(step)]
        rows += [f"then      {each.id}" for each in plan.steps if step.id in each.after]
        lines += [f"{step.id}{name}: {member_words(step.member)}", *branches(rows), ""]
    return "\n".join(lines[:-1])


def in_order(plan: Plan) -> list[StepPlan]:
    """The steps, each behind those that it comes after; steps that wait for one another come last."""
    left, done = list(plan.steps), list[StepPlan]()
    while left:
        known = {step.id for step in done}
        ready = [step for step in left if known.issuperset(step.after)] or left
        done += ready
        left = [step for step in left if step not in ready]
    return done


def details(step: StepPlan) -> Iterator[tuple[str, str]]:
    """What a step declares, each with a word for it."""
    if step.input:
        yield "input", words(step.input)
    if step.when:
        yield "when", words(step.when)
    if step.for_each:
        at_once = f", {step.concurrency} at once" if step.concurrency else ""
        yield "each of", f"{words(step.for_each)}{at_once}"
    if step.approval is not None:
        roles = f" by {' or '.join(step.approval.roles)}" if step.approval.roles else ""
        yield "runs", f"{AFTER_APPROVAL}{roles}"
    if step.retry is not None and step.retry.times:
        pause = f", first after {step.retry.wait:g} s" if step.retry.wait else ""
        yield "retries", f"{step.retry.times}{pause}"
    if step.timeout is not None:
        yield "time", f"{step.timeout:g} s"
    if step.undo:
        yield "undo", member_words(step.undo)


def member_words(member: str) -> str:
    """The id of a member; a function of the workflow itself has no name."""
    return "a function" if "." in member else member


def words(formula: Formula) -> str:
    """An expression as it is written; of a function, its name."""
    if isinstance(formula, str):
        return one_line(formula)
    name = formula.function.rpartition(": ")[2].rpartition(".")[2]
    return "a function" if name == "<lambda>" else f"{name}()"


def input_names(plan: Plan) -> list[str]:
    """The names of the inputs that the expressions of a workflow read, as far as they can be seen; functions may read
    more."""
    found: dict[str, None] = {}
    for step in plan.steps:
        texts = placeholders(step.input) if isinstance(step.input, str) else []
        formulas = [*texts, step.when, step.for_each, *step.context.values()]
        for expression in (each for each in (*formulas, plan.output) if each and isinstance(each, str)):
            for root, *rest in sorted(references(expression)):
                if root == "inputs" and rest:
                    found.setdefault(rest[0])
    return list(found)
