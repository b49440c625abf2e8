"""Timeouts of whole runs: also of runs that are resumed, or whose question to a person is undone."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from changeover import Agent, Approve, Limits, Person, RunResult, Team, delegate, handoff
from changeover.agent.agent import Member
from changeover.errors import EconomicLimitExceeded
from changeover.messages import Assistant, Message
from changeover.testing import ManualClock, Reply, calls, delegates, hands_off
from tests.stories.approvals import PAY, pays
from tests.stories.cancellation import Hold
from tests.stories.delegates import Says, asks, cast
from tests.stories.stage import Stage
from tests.stories.timeouts import keeps_working


async def is_late(clock: ManualClock, hold: Hold, seconds: float, going: Coroutine[Any, Any, RunResult]) -> None:
    """Somebody is held up by this until so many seconds have passed, when it is too late, and not a second earlier."""
    work = asyncio.ensure_future(going)
    async with asyncio.timeout(5):
        await hold.begun.wait()
        await clock.advance(seconds - 1)
        assert not work.done()
        await clock.advance(1)
        with pytest.raises(EconomicLimitExceeded, match="longer than timeout=60 seconds"):
            await work


async def test_a_run_that_was_too_late_and_is_resumed_is_too_late_again():
    hold, clock = Hold(), ManualClock()
    solo = Agent("solo")
    async with Team([solo], model=cast(solo=keeps_working(hold)), clock=clock, limits=Limits(timeout=60)) as team:
        await is_late(clock, hold, 60, team.run("go", conversation="c"))
        async with asyncio.timeout(5):
            for _ in range(2):
                with pytest.raises(EconomicLimitExceeded, match="longer than timeout=60 seconds"):
                    await team.resume("c")


def first(turn: Reply, hold: Hold) -> Says:
    """Take this turn, and then think until it is let go."""

    async def play(messages: Sequence[Message]) -> Reply:
        if not any(isinstance(message, Assistant) for message in messages):
            return turn
        await hold.on()
        return turn

    return play


PAYER = Agent("payer", tools=[pays(Stage())], handoffs=())
"""Somebody about whose work a person is asked."""
ASKED: dict[str, tuple[Member, Any, Reply]] = {
    "about what a receiver does": (PAYER, handoff("payer"), hands_off("payer", "pay")),
    "about what a delegate does": (PAYER, delegate("payer", timeout=30), delegates("payer", "pay")),
    "to take over": (Person("payer"), handoff("payer"), hands_off("payer", "pay")),
    "to do something": (Person("payer"), delegate("payer", timeout=30), delegates("payer", "pay")),
}


@pytest.mark.parametrize("asked", ASKED)
async def test_when_what_a_person_was_asked_is_undone_time_goes_on_from_where_it_stood_still(asked: str):
    hold, clock = Hold(), ManualClock()
    member, way, turn = ASKED[asked]
    members, model = [Agent("boss", handoffs=[way]), member], cast(boss=first(turn, hold), payer=PAY)
    async with Team(members, model=model, clock=clock, limits=Limits(timeout=60)) as team:
        waiting = await team.run("go", conversation="c")
        await clock.advance(630)
        await team.rollback(waiting.handoff_chain[0], reason="not now")
        await is_late(clock, hold, 60, team.resume("c"))


async def test_a_delegate_that_is_called_back_while_a_person_is_asked_was_not_too_late():
    clock, model = ManualClock(), cast(boss=asks(delegates("payer", "pay")), payer=PAY)
    async with Team([Agent("boss", handoffs=[delegate("payer", timeout=30)]), PAYER], model=model, clock=clock) as team:
        waiting = await team.run("go", conversation="c")
        await clock.advance(630)
        await team.cancel(waiting.handoff_chain[0].id)
        result = await team.resume("c")
    assert [(record.state, record.error) for record in result.handoff_chain] == [("RETURNED", "cancelled")]


TOOL = ("pay", {"amount": 500})
TOGETHER: dict[str, Reply] = {
    "about two calls of one agent": calls(TOOL, TOOL),
    "about an agent and its delegate": calls(TOOL, delegates("payer", "pay")),
    "about two delegates": calls(delegates("payer", "pay"), delegates("payer", "pay")),
}


@pytest.mark.parametrize("asked", TOGETHER)
async def test_time_in_which_two_people_are_awaited_at_once_counts_once(asked: str):
    hold, clock = Hold(), ManualClock()
    boss = Agent("boss", tools=[pays(Stage())], handoffs=[delegate("payer", timeout=None)])
    model = cast(boss=first(TOGETHER[asked], hold), payer=asks(TOOL))
    async with Team([boss, PAYER], model=model, clock=clock, limits=Limits(timeout=60)) as team:
        waiting = await team.run("go", conversation="c")
        assert len(waiting.requests) == 2
        for request in waiting.requests:
            await clock.advance(300)
            await team.decide(request, Approve(), by="ana")
        await is_late(clock, hold, 60, team.resume("c"))
