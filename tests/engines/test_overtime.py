"""How long a whole run may take: also one that is resumed, undone in part, or asked about."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

import pytest

from changeover import Agent, Limits, Team
from changeover.errors import EconomicLimitExceeded
from changeover.testing import ManualClock
from tests.stories.cancelling import Hold
from tests.stories.delegates import cast
from tests.stories.timeouts import keeps_working

T = TypeVar("T")


async def meanwhile(clock: ManualClock, hold: Hold, seconds: float, going: Awaitable[T]) -> T:
    """Let so much time pass while somebody is held up by this."""
    hold.begun.clear()
    work = asyncio.ensure_future(going)
    async with asyncio.timeout(5):
        await hold.begun.wait()
        await clock.advance(seconds)
        return await work


async def test_a_run_that_was_too_late_and_is_resumed_is_too_late_again():
    hold, clock = Hold(), ManualClock()
    async with Team(
        [Agent("solo")], model=cast(solo=keeps_working(hold)), clock=clock, limits=Limits(timeout=60)
    ) as team:
        for going in (team.run("go", conversation="c"), team.resume("c"), team.resume("c")):
            with pytest.raises(EconomicLimitExceeded, match="longer than timeout=60 seconds"):
                await meanwhile(clock, hold, 60, going)
