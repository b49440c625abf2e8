"""What is wrong with a workflow is reported before it runs, all of it together."""

from typing import Any

import pytest

from changeover import Agent, Function, Team
from changeover.agent.agent import Member
from changeover.errors import MisconfiguredError
from changeover.testing import ScriptedModel
from changeover.workflows import Retry, Workflow, WorkflowStep
from changeover.workflows.expression import references


def faults(*steps: Any, **options: Any) -> tuple[str, ...]:
    """The faults of a team with a workflow of these steps."""
    members: list[Member] = [Agent("chef"), Function("taste", lambda ctx: "good")]
    with pytest.raises(MisconfiguredError) as caught:
        Team(members, model=ScriptedModel({}), workflows=[Workflow("flow", steps=steps, **options)])
    return caught.value.faults


def test_cycles_unknown_agents_unreachable_steps_and_wrong_references_are_reported_together():
    assert faults(
        WorkflowStep("a", agent="chef", after=["c"]),
        WorkflowStep("b", agent="chef", after=["a"]),
        WorkflowStep("c", agent="nobody", after=["b"]),
        WorkflowStep("d", agent="chef", after=["c", "z"]),
        WorkflowStep("e", agent="chef", when="steps.gone.output"),
        WorkflowStep("f", agent="chef", input="{steps.e.output} {steps.e.outptu} {nothing}", after=["e"]),
        WorkflowStep("e", function="chef"),
        output="steps.nowhere.output",
    ) == (
        "workflow 'flow' has 2 steps called 'e'; give each an id of its own",
        "workflow 'flow' has steps that wait for one another: a, b, c",
        "workflow 'flow' has the step 'd', which is never reached: it comes after a, b, c",
        "workflow 'flow' step 'c' has the agent 'nobody', which is not in the team; choose among chef, taste",
        "workflow 'flow' step 'd' comes after 'z', and there is no such step; choose among a, b, c, d, e, f",
        "workflow 'flow' step 'e' has when='steps.gone.output': there is no step 'gone'; there are: a, b, c, d, e, f",
        "workflow 'flow' step 'f' has input='steps.e.outptu': a step gives no 'outptu'; it gives: output, text, status",
        "workflow 'flow' step 'f' has input='nothing': 'nothing' cannot be read here; there are: inputs, steps, context",
        "workflow 'flow' step 'e' has the function 'chef', which is no Function of the team; there are: taste",
        "workflow 'flow' has output='steps.nowhere.output': there is no step 'nowhere'; there are: a, b, c, d, e, f",
    )


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no member": ({"agent": ""}, "needs an agent or a function, one of the two"),
    "two members": ({"function": "taste"}, "needs an agent or a function, one of the two"),
    "a reference to a later step": (
        {"when": "steps.later.output"},
        "has when='steps.later.output': the step 'later' does not come before it; name it in after=…",
    ),
    "no JMESPath": ({"when": "steps..x"}, "has when='steps..x', which is no JMESPath: "),
    "a negation of half a path": (
        {"when": "!inputs.ready"},
        "has when='!inputs.ready', which is no JMESPath: write !(…) around all that is negated",
    ),
    "an item without for_each": ({"input": "{item}"}, "has input='item': 'item' cannot be read here; there are: "),
    "a lone brace": ({"input": "a } b"}, "has an input in which the '}' has no partner; "),
    "a condition that is a number": ({"when": 3}, "has when=3; give JMESPath, or a function of what the steps gave"),
    "a timeout of nothing": ({"timeout": 0}, "has timeout=0; give seconds above 0, or None for no limit"),
    "half a retry": ({"retry": 0.5}, "has retry=0.5; give how often it is tried again, or Retry(…)"),
    "a wait that goes back": ({"retry": Retry(1, wait=-1)}, "has a retry with wait=-1; give a number, 0 or more"),
    "no items at once": ({"concurrency": 0}, "has concurrency=0; give 1 or more, or None for no limit"),
    "an unknown rollback": ({"on_rollback": "gone"}, "has on_rollback='gone', which is not in the team; "),
    "a text for a list": ({"after": "later"}, "has after='later'; give a list of ids of steps"),
    "an approval that is a text": ({"approval": "yes"}, "has approval='yes'; give True, a function or Approval(…)"),
    "an id with a space": ({"id": "a b"}, "has an invalid id; use letters, digits, '-' and '_', at most 64"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_option_of_a_step_is_named_with_what_to_give(wrong: str):
    options, told = WRONG[wrong]
    step = WorkflowStep(**{"id": "a", "agent": "chef", **options})
    [fault] = faults(step, WorkflowStep("later", agent="chef"))
    assert fault.startswith(f"workflow 'flow' step {step.id!r} {told}")


def test_a_workflow_needs_steps_and_an_id_of_its_own():
    assert faults() == ("workflow 'flow' has steps=(); give a list of WorkflowStep(…)s",)
    flow = Workflow("chef", steps=[WorkflowStep("a", agent="chef")])
    with pytest.raises(MisconfiguredError, match="a member and a workflow are called 'chef'; give one another id"):
        Team([Agent("chef")], model=ScriptedModel({}), workflows=[flow])


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("steps.a.output.b", {("steps", "a", "output", "b")}),
        ('steps."a-b".output[0].c', {("steps", "a-b", "output")}),
        ("steps.a.output[?ok].name | [0]", {("steps", "a", "output")}),
        ("length(steps.a.output) > `3` && inputs.x", {("steps", "a", "output"), ("inputs", "x")}),
        ("{a: steps.a.text, b: context.c}", {("steps", "a", "text"), ("context", "c")}),
        ("steps.*.output", {("steps",)}),
    ],
)
def test_the_references_of_an_expression_are_its_paths_into_the_scope(expression: str, found: set[tuple[str, ...]]):
    assert references(expression) == found


async def test_an_unknown_workflow_option_or_input_is_refused_before_anything_is_recorded():
    flow = Workflow("flow", steps=[WorkflowStep("a", agent="chef")])
    team = Team([Agent("chef")], model=ScriptedModel({}), workflows=[flow])
    with pytest.raises(MisconfiguredError, match="no workflow is called 'gone'; this team has: flow"):
        await team.start("gone")
    with pytest.raises(TypeError, match="a workflow has no option agent; it has: conversation, context"):
        await team.start("flow", agent="chef")  # type: ignore[call-arg]
    with pytest.raises(MisconfiguredError, match="the inputs must be what JSON can hold"):
        await team.start("flow", {"x": object()})
    assert await team.log.unfinished() == []
