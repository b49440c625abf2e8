"""Stories of learning: outcomes of earlier tasks influence which specialist is found."""

from collections.abc import Sequence
from typing import Any

from changeover import Agent, Team, delegate, specialist
from changeover.engines.lessons import reset, standings
from changeover.facts import Ledger
from changeover.guards import Allow, Deny
from changeover.guards.guard import Answer, Facts, Offer
from changeover.messages import Message, ToolResult
from changeover.relay.events import HandoffOffered, ReceiverChosen
from changeover.routing import Routing
from changeover.routing.experience import Standing
from changeover.testing import ManualClock, Reply, ScriptedModel, calls, fails, says
from changeover.tools.tool import ToolDefinition
from tests.stories.specialists import wants
from tests.stories.stage import Stage, events, story

KNOWN = "such tasks succeeded"
TIMES = 6


def office(stage: Stage, *ways: Any, **options: Any) -> Team:
    """A desk whose tasks two others can do: one of them never succeeds, the other always does."""

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent != "desk":
            return fails("out of order", retryable=False) if agent == "bad" else says("Paid back.")
        if isinstance(messages[-1], ToolResult):
            return says(messages[-1].text)
        return calls(("delegate_to_bad", {"task": "Pay it."}) if "bad" in messages[-1].text else wants("refunds"))

    able = [Agent(name, capabilities=["refunds"], handoffs=()) for name in ("bad", "good")]
    members = [Agent("desk", handoffs=[specialist(), *ways]), *able]
    return stage.team(members, ScriptedModel(play), **{"guards": [], **options})


async def asked(stage: Stage, team: Team, times: int = TIMES, prefix: str = "task") -> list[ReceiverChosen]:
    """The receivers of so many tasks, each in a conversation of its own."""
    chosen = []
    for number in range(times):
        conversation = f"{prefix}-{number}"
        await stage.say(team, "Give it back.", conversation=conversation)
        chosen += await events(team, ReceiverChosen, conversation)
    return chosen


async def known(team: Team) -> dict[str, Standing]:
    """The records of all agents that have one."""
    return {each.agent: each for each in await standings(team.log.experience)}


@story
async def after_failures_of_one_the_other_is_asked_more(stage: Stage) -> None:
    team = office(stage)
    chosen = await asked(stage, team, 2 * TIMES)
    receivers = [each.receiver for each in chosen]
    assert "bad" in receivers, "it was never asked, so nothing is shown"
    assert receivers[-TIMES:] == ["good"] * TIMES
    assert KNOWN not in chosen[0].why
    assert KNOWN in chosen[-1].why
    found = await known(team)
    assert (found["bad"].tasks, found["bad"].successes) == (receivers.count("bad"), 0)
    assert found["good"].tasks == found["good"].successes == receivers.count("good")
    assert found["bad"].worth < 0.5 < found["good"].worth


@story
async def a_reset_removes_everything_that_was_learnt(stage: Stage) -> None:
    team = office(stage)
    await asked(stage, team)
    # The clock of this story stands still: all that ever ends in it, in whichever life, is over by then.
    over = ManualClock().now() + 1
    gone = await reset(team.log.experience, over)
    assert stage.lives > 1 or sum(each.tasks for each in gone) == TIMES
    assert await known(team) == {}
    [first] = await asked(stage, team, 1, "later")
    assert KNOWN not in first.why


@story
async def the_record_of_one_agent_can_be_reset_alone(stage: Stage) -> None:
    team = office(stage)
    receivers = {each.receiver for each in await asked(stage, team)}
    assert receivers == {"bad", "good"}
    over = ManualClock().now() + 1
    await reset(team.log.experience, over, "Refunds", "bad")
    assert list(await known(team)) == ["good"]


@story
async def with_learning_switched_off_past_results_do_not_matter(stage: Stage) -> None:
    team = office(stage, routing=Routing(learning=None))
    chosen = await asked(stage, team, 2 * TIMES)
    assert {each.receiver for each in chosen[-TIMES:]} == {"bad", "good"}
    assert [each for each in chosen if KNOWN in each.why] == []


@story
async def a_named_receiver_is_asked_whatever_its_record_and_nothing_is_learnt(stage: Stage) -> None:
    team = office(stage, delegate("bad"))
    await asked(stage, team)
    before = await known(team)
    await stage.say(team, "Let bad give it back.", conversation="named")
    [offered] = await events(team, HandoffOffered, "named")
    assert (offered.receiver, offered.capability) == ("bad", "")
    assert await known(team) == before


class NotToTheGood:
    """A guard that denies one task to the good agent."""

    def check(self, offer: Offer, ledger: Ledger, facts: Facts) -> Answer:
        if offer.receiver == "good" and offer.variables.get("secret"):
            return Deny("it is not for its eyes")
        return Allow()


@story
async def a_guard_refuses_an_agent_with_a_good_record_too(stage: Stage) -> None:
    team = office(stage, guards=[NotToTheGood()])
    await asked(stage, team)
    await stage.say(team, "Give it back.", conversation="secret", context={"secret": True})
    [chosen] = await events(team, ReceiverChosen, "secret")
    assert chosen.receiver == "good"
    assert [each.receiver for each in await events(team, HandoffOffered, "secret")] == []
