"""Stories of workflows: steps in an order that is known beforehand, whose members may hand off inside."""

import asyncio
from collections.abc import Sequence

from changeover import Agent, RunContext, Team, Workflow, WorkflowStep
from changeover.messages import Message
from changeover.relay.events import StepBegan
from changeover.testing import Reply, ScriptedModel, says
from changeover.tools.tool import ToolDefinition
from tests.stories.stage import CONVERSATION, Stage, events, story


def echoes(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
    """Answer with what was asked, in the agent's name."""
    return says(f"{agent}({messages[-1].text})")


async def begun(stage: Stage, team: Team) -> list[str]:
    """The steps of the story's conversation, as they began."""
    return [each.step for each in await events(team, StepBegan)]


@story
async def a_diamond_of_agents_meets_again(stage: Stage) -> None:
    diamond = Workflow(
        "diamond",
        name="Diamond",
        steps=[
            WorkflowStep("join", agent="cook", after=["left", "right"], input="{steps.left.text}+{steps.right.text}"),
            WorkflowStep("plan", agent="chef", input="plan {inputs.dish}"),
            WorkflowStep("left", agent="cook", after=["plan"], input="left of {steps.plan.output}"),
            WorkflowStep("right", agent="chef", after=["plan"], input="right of {steps.plan.output}"),
        ],
    )
    team = stage.team([Agent("chef"), Agent("cook")], ScriptedModel(echoes), workflows=[diamond])
    result = await stage.flow(team, "diamond", {"dish": "soup"})
    plan = "chef(plan soup)"
    assert result.output == f"cook(cook(left of {plan})+chef(right of {plan}))"
    assert (result.status, result.final_agent, result.usage.requests) == ("completed", "diamond", 4)
    assert await begun(stage, team) == ["plan", "left", "right", "join"]
    chain = [(h.sender, h.receiver, h.tool, h.mode, h.state) for h in result.handoff_chain]
    assert chain[0] == ("diamond", "chef", "plan", "delegate", "RETURNED")
    assert result.ledger.handoffs == 0
    assert (await team.history(CONVERSATION))[1].event.text == "Diamond"  # type: ignore[union-attr]


@story
async def steps_run_at_once_where_nothing_forbids_it(stage: Stage) -> None:
    both = asyncio.Event()

    async def first(ctx: RunContext) -> str:
        await both.wait()
        return "first"

    async def second(ctx: RunContext) -> str:
        both.set()
        return "second"

    steps = [WorkflowStep("first", function=first), WorkflowStep("second", function=second)]
    team = stage.team([Agent("idle")], ScriptedModel(echoes), workflows=[Workflow("both", steps=steps)])
    both.set() if stage.lives > 1 else None  # what the other one did may be recorded already
    result = await stage.flow(team, "both")
    assert result.output == {"first": "first", "second": "second"}
