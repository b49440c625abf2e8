"""Stories of busy specialists: another one is asked, the task waits, or the model is told their names."""

import asyncio
from collections.abc import Sequence

from changeover import Agent, RunResult, Team, specialist
from changeover.messages import Message
from changeover.relay.events import HandoffOffered, ReceiverChosen
from changeover.routing import Routing
from changeover.routing.load import WhenBusy
from changeover.testing import Reply, ScriptedModel, calls, says
from changeover.tools.tool import ToolDefinition
from tests.stories.approvals import must_wait
from tests.stories.cancellation import Hold, first_of
from tests.stories.delegates import came_back
from tests.stories.service import brings, served
from tests.stories.specialists import wants
from tests.stories.stage import Stage, events, story

ANN = Agent("ann", description="Reads leases.", capabilities=["law"], max_concurrency=1, handoffs=())
BOB = Agent("bob", capabilities=["law"], max_concurrency=1, handoffs=())
SECOND = {"conversation": "two"}


def desk(stage: Stage, hold: Hold, when_busy: WhenBusy, *experts: Agent) -> Team:
    """A desk that asks for a lawyer each time; over the first lease the lawyer sits until it is let go."""

    async def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent == "desk":
            asked = len(messages) == 1
            return calls(wants("law", f"Read the {messages[0].text} leases.")) if asked else says(messages[-1].text)
        if "first" in messages[-1].text:
            await hold.on()
        return says(f"{agent} did it")

    routing = Routing(when_busy=when_busy, learning=None)
    return stage.team([Agent("desk", handoffs=[specialist()]), *experts], ScriptedModel(play), routing=routing)


async def two_at_once(stage: Stage, team: Team, hold: Hold) -> tuple[RunResult, RunResult]:
    """How two conversations end of which the second begins while a specialist works for the first."""
    async with asyncio.TaskGroup() as group:
        saying = group.create_task(stage.say(team, "first", conversation="one"))
        await first_of(saying, hold.begun.wait)
        second = await stage.say(team, "second", **SECOND)
        hold.let_go.set()
    return saying.result(), second


@story
async def if_the_best_match_is_busy_the_next_one_is_asked(stage: Stage) -> None:
    hold = Hold()
    team = desk(stage, hold, "next", ANN, BOB)
    first, second = await two_at_once(stage, team, hold)
    assert came_back(first)[0].response == "ann did it"
    assert came_back(second)[0].response == "bob did it" or stage.lives > 1
    offered = await events(team, HandoffOffered, "two")
    assert [each.attempt for each in offered] == [1]  # the busy agent was not asked


@story
async def if_all_matches_are_busy_the_model_is_told_their_names(stage: Stage) -> None:
    hold = Hold()
    await told_who_is_busy(stage, desk(stage, hold, "next", ANN), hold)


@story
async def if_the_best_is_busy_the_model_may_be_told_so_at_once(stage: Stage) -> None:
    hold = Hold()
    await told_who_is_busy(stage, desk(stage, hold, "reject", ANN, BOB), hold)


async def told_who_is_busy(stage: Stage, team: Team, hold: Hold) -> None:
    first, second = await two_at_once(stage, team, hold)
    assert came_back(first)[0].response == "ann did it"
    if stage.lives == 1:
        assert second.output == "no specialist: ann is busy: 1 at work, 0 waiting, and it does 1 at once"
        assert await team.handoffs("two") == []


@story
async def if_the_best_is_busy_it_waits_in_its_queue(stage: Stage) -> None:
    hold = Hold()
    team = desk(stage, hold, "queue", ANN, BOB)
    first, waiting = await two_at_once(stage, team, hold)
    assert came_back(first)[0].response == "ann did it"
    if stage.lives == 1:
        must_wait(stage, waiting)
        assert [(each.kind, each.agent) for each in waiting.pending] == [("claim", "ann")]
    result = await served(stage, team, "second", options=SECOND, ann=brings("ann did it later"))
    [back] = came_back(result)
    assert (back.agent, back.success) == ("ann", True)
    [chosen] = await events(team, ReceiverChosen, "two")
    assert back.response == ("ann did it later" if chosen.queued else "ann did it")
    assert chosen.queued or stage.lives > 1


@story
async def of_equal_matches_the_one_with_the_least_load_is_asked(stage: Stage) -> None:
    hold = Hold()
    twins = [Agent(id, capabilities=["law"], handoffs=()) for id in ("cid", "dan")]
    team = desk(stage, hold, "next", *twins)
    first, second = await two_at_once(stage, team, hold)
    asked = {came_back(first)[0].agent, came_back(second)[0].agent}
    assert asked == {"cid", "dan"} or stage.lives > 1
    [chosen] = await events(team, ReceiverChosen, "two")
    assert "0 at work, 0 waiting" in chosen.why
