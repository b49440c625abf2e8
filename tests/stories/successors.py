"""Stories of specialists that refuse: the next one that has the capability is asked, before the sender falls back."""

from changeover import Agent, specialist
from changeover.protocol import Rejected
from changeover.testing import says
from tests.stories.delegates import asks, boss, came_back, cast
from tests.stories.fallbacks import alone
from tests.stories.next_candidates import counter
from tests.stories.stage import Stage, story


@story
async def a_specialist_that_refuses_is_replaced_by_the_next_one(stage: Stage) -> None:
    wish = {"specialist_type": "counting", "task": "count", "reason": "", "required_capabilities": ["counting"]}
    members = [boss(specialist()), counter("clerk", says_no=True), counter("deputy")]
    parts = cast(boss=asks(("handoff_to_specialist", wish)), clerk=says("Three."), deputy=says("Four."))
    [back] = came_back(await stage.say(stage.team(members, parts), "how many?"))
    assert (back.agent, back.response) == ("deputy", "Four.")


@story
async def candidates_are_tried_before_the_sender_falls_back(stage: Stage) -> None:
    closed = Agent("billing", accepts=lambda package: Rejected("closed"), capabilities=["refunds"], handoffs=())
    wish = {"specialist_type": "refunds", "task": "refund", "reason": "", "required_capabilities": ["refunds"]}
    spare = Agent("deputy", capabilities=["refunds"], handoffs=())
    parts = {"triage": asks(("handoff_to_specialist", wish)), "deputy": says("Refunded.")}
    team = alone(stage, closed, spare, way=specialist(), **parts)
    result = await stage.say(team, "charged twice")
    assert (result.fell_back, came_back(result)[0].agent) == (False, "deputy")
