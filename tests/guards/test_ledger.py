"""Whatever random teams do, no run goes further than it may, and its ledger is what the log says."""

import asyncio
import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from changeover import Approve, Limits, Team
from changeover.errors import ChangeoverError, EconomicLimitExceeded
from changeover.metrics import Ledger
from changeover.models import Usage
from changeover.relay.events import Entry, LimitReached, ModelReplied
from changeover.relay.ports.world import Request
from changeover.stores.memory.log import MemoryLog
from changeover.testing import ManualClock, Reply
from tests.crash.test_random_teams import Scripted, assert_over, members, scripts
from tests.guards.ledger_recount import agents, recounted, told

STRESS = "CHANGEOVER_STRESS" in os.environ
EXAMPLES = 2_000 if STRESS else 40

TOKENS, PRICE = 100, 0.01
"""What every reply takes."""

LIMITS = st.builds(
    Limits,
    max_handoffs=st.integers(0, 6),
    max_turns=st.integers(1, 15),
    max_depth=st.integers(0, 3),
    max_tokens=st.none() | st.integers(1, 1_200),
    max_cost=st.none() | st.floats(0.005, 0.1),
    max_agents=st.none() | st.integers(1, 4),
    on_limit=st.sampled_from(["raise", "tell"]),
)


class Counting(Scripted):
    """A model that takes its time, and knows how often it was asked at once."""

    def __init__(self, script: dict[str, list[Any]]) -> None:
        super().__init__(script)
        self._asked = self.most = 0

    async def reply(self, request: Request) -> Reply:
        self._asked += 1
        self.most = max(self.most, self._asked)
        try:
            for _ in range(3):
                await asyncio.sleep(0)
            return replace(await super().reply(request), usage=Usage(TOKENS - 10, 10, 1, PRICE))
        finally:
            self._asked -= 1


async def ran(model: Counting, limits: Limits) -> tuple[Ledger, ChangeoverError | None, list[Entry]]:
    """What one run of a random team took, and the log of its tree."""
    log, clock = MemoryLog(), ManualClock(auto=True)
    ask = lambda request: Approve()  # noqa: E731
    team = Team(members(ahead=False), model=model, clock=clock, limits=limits, ask=ask, store=log)
    async with asyncio.timeout(20):
        ledger, error = await spent(team)
    entries = await log.tree("c")
    await team.close()
    return ledger, error, entries


async def spent(team: Team) -> tuple[Ledger, ChangeoverError | None]:
    """What one run took, also if it failed."""
    try:
        return (await team.run("go", conversation="c", agent="a")).ledger, None
    except ChangeoverError as error:
        if error.result is None:
            raise
        return error.result.ledger, error


@given(script=scripts(ahead=False), limits=LIMITS)
@settings(max_examples=EXAMPLES, deadline=None)
@pytest.mark.stress
@pytest.mark.timeout(900 if STRESS else 90)
async def test_no_run_of_a_random_team_exceeds_its_limits(script: dict[str, list[Any]], limits: Limits):
    model = Counting(script)
    ledger, error, entries = await ran(model, limits)
    assert_over(entries)
    assert ledger.handoffs <= limits.max_handoffs
    assert ledger.turns <= limits.max_turns
    assert ledger.agents <= (limits.max_agents or 99)
    assert len(agents(told(entries))) <= (limits.max_agents or 99)
    assert all(entry.conversation.count("/") <= limits.max_depth for entry in entries)
    last_words = sum(isinstance(event, LimitReached) for _, event in told(entries)) if limits.on_limit == "tell" else 0
    assert_little_over(ledger.tokens, limits.max_tokens, (model.most + last_words) * TOKENS)
    assert_little_over(ledger.cost, limits.max_cost, (model.most + last_words) * PRICE)
    if isinstance(error, EconomicLimitExceeded) and error.limit_name == "max_tokens":
        assert error.overshoot == ledger.tokens - error.limit


def assert_little_over(figure: float | None, limit: float | None, slack: float) -> None:
    """What was spent when the last call began was less than the limit; those under way by then came on top."""
    assert figure is not None
    assert limit is None or figure < limit + slack + 1e-9


@given(script=scripts(ahead=False), limits=LIMITS)
@settings(max_examples=EXAMPLES, deadline=None)
@pytest.mark.stress
@pytest.mark.timeout(900 if STRESS else 90)
async def test_the_ledger_is_what_a_recount_of_the_log_gives(script: dict[str, list[Any]], limits: Limits):
    ledger, _, entries = await ran(Counting(script), limits)
    assert figures(ledger) == figures(recounted(entries))
    assert ledger.tokens == TOKENS * sum(isinstance(event, ModelReplied) for _, event in told(entries))


def figures(ledger: Ledger) -> Any:
    """All but the time, with money rounded: sums in another order differ in their last digits."""
    shares = {
        name: (share.handoffs, share.turns, share.retries, share.tokens, round(share.cost or 0, 9))
        for name, share in ledger.by_agent.items()
        if share != type(share)()
    }
    in_all = (ledger.handoffs, ledger.turns, ledger.tokens, ledger.agents, ledger.retries)
    return in_all, round(ledger.cost or 0, 9), shares
