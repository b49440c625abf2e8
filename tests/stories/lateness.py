"""Stories of packages that are not accepted, or not done, before their deadline."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from changeover import Agent, Team
from changeover.errors import (
    HandoffTimeoutError,
)
from changeover.messages import Message
from changeover.protocol import Context, Expectations, HandoffPackage, State
from changeover.relay.events import HandoffOffered
from changeover.testing import ManualClock, Reply, says
from tests.stories.approvals import same_store
from tests.stories.cancellation import Hold, assert_at_rest
from tests.stories.delegates import Says, cast
from tests.stories.offers import MODES, package, refused
from tests.stories.stage import CONVERSATION, Stage, events, story


def slow(hold: Hold) -> Says:
    async def play(messages: Sequence[Message]) -> Reply:
        await hold.on()
        return says("Three.")

    return play


async def a_minute(work: asyncio.Future[Any], clock: ManualClock, hold: Hold) -> None:
    """Let exactly a minute pass once this work is held up."""
    waiting = asyncio.ensure_future(hold.begun.wait())
    await asyncio.wait({work, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not work.done():
        await clock.advance(59)
        assert not work.done()
        await clock.advance(1)


async def too_late(given: HandoffPackage, team: Team, clock: ManualClock, hold: Hold) -> str:
    """What a program is told that waited for a minute."""
    offering = asyncio.ensure_future(refused(HandoffTimeoutError, team, given))
    await a_minute(offering, clock, hold)
    return await offering


@story
async def a_package_that_is_not_done_in_time_is_called_back(stage: Stage) -> None:
    hold, clock = Hold(), ManualClock()
    team = stage.team([Agent("clerk")], cast(clerk=slow(hold)), clock=clock)
    given = package(expectations=Expectations(timeout=60))
    assert await too_late(given, team, clock, hold) == ("'clerk' took too long over story:2.0: it was not done in time")
    [record] = await team.handoffs(CONVERSATION)
    assert (record.state, record.error) == (State.TIMEOUT, "it was not done in time")
    await assert_at_rest(team)


@story
async def a_package_that_is_not_answered_in_time_is_not_accepted(stage: Stage) -> None:
    for mode in MODES:
        hold, clock = Hold(), ManualClock()

        async def accepts(package: HandoffPackage, hold: Hold = hold) -> bool:
            await hold.on()
            return True

        team = stage.team([Agent("clerk", accepts=accepts)], cast(clerk=says("Three.")), clock=clock)
        given = package(mode=mode, conversation=mode, expectations=Expectations(timeout=60))
        assert "it did not answer in time" in await too_late(given, team, clock, hold)
        assert [each.state for each in await team.handoffs(mode)] == [State.TIMEOUT]
        await assert_at_rest(team, mode)


@story
async def the_deadline_of_a_package_counts_if_it_is_sooner_than_its_timeout(stage: Stage) -> None:
    hold, clock = Hold(), ManualClock()
    until = datetime.fromtimestamp(clock.now() + 60, UTC)
    team = stage.team([Agent("clerk")], cast(clerk=slow(hold)), clock=clock)
    assert "not done in time" in await too_late(package(deadline=until), team, clock, hold)
    [offer] = await events(team, HandoffOffered)
    assert offer.deadline == until.timestamp()


@story
async def the_next_candidate_has_no_more_time_than_the_package(stage: Stage) -> None:
    for mode in MODES:
        clock = ManualClock()
        until = datetime.fromtimestamp(clock.now() + 200, UTC)

        async def declines_later(package: HandoffPackage, clock: ManualClock = clock) -> bool:
            await clock.advance(20)
            return False

        members = [Agent("clerk", accepts=declines_later), Agent("deputy", accepts=lambda package: True)]
        team = stage.team(members, cast(deputy=says("Four.")), clock=clock)
        path = Context(escalation_path=("deputy",))
        result = await team.offer(package(mode=mode, conversation=mode, deadline=until, context=path))
        assert (result.agent, result.result) == ("deputy", "Four.")
        assert [each.deadline for each in await events(team, HandoffOffered, mode)] == [until.timestamp()] * 2


@story
async def a_deadline_that_passes_while_no_team_is_open_has_passed(stage: Stage) -> None:
    shared, hold = same_store(stage), Hold()
    before, after = ManualClock(), ManualClock(ManualClock().now() + 120)
    model = cast(clerk=slow(hold))
    first = stage.team([Agent("clerk")], model, clock=before, **shared)
    second = stage.team([Agent("clerk")], model, clock=after, **shared)
    given = package(deadline=datetime.fromtimestamp(before.now() + 60, UTC))
    if stage.lives == 1:
        offering = asyncio.ensure_future(first.offer(given))
        await asyncio.wait({offering, asyncio.ensure_future(hold.begun.wait())}, return_when=asyncio.FIRST_COMPLETED)
        await first.close()
        await asyncio.gather(offering, return_exceptions=True)
    told = await refused(HandoffTimeoutError, second, given)
    # If the process died before the clerk was asked, the offer itself timed out.
    assert "not done in time" in told or (stage.lives > 1 and "it was not asked before the deadline" in told)
    await assert_at_rest(second)
