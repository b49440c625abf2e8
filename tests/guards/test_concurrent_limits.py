"""Many conversations on one store under the limits of a medium task: none goes further than it may."""

import asyncio
import os
import random
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from changeover import Agent, Limits, Team, delegate, tool
from changeover.errors import EconomicLimitExceeded
from changeover.guards.limits import TIERS
from changeover.metrics import Ledger
from changeover.models import Usage
from changeover.relay.ports.world import Request
from changeover.relay.stream import TextDelta, ThinkingDelta
from changeover.testing import Reply, calls, delegates, hands_off, says
from changeover.testing.scripted import resolve

STRESS = "CHANGEOVER_STRESS" in os.environ
CONVERSATIONS = 5_000 if STRESS else 200
AT_ONCE = 200
NAMES = ("desk", "money", "parcels", "law")
MEDIUM = TIERS["medium"]
DEAREST = 8_000
"""What a reply takes at most. Whoever delegates waits, so no more calls are under way at once than handoffs."""


@tool(read_only=True)
def look() -> str:
    """Look."""
    return "seen"


class Restless:
    """A model that does something at random, by a seed of its own for each of its replies."""

    async def reply(self, request: Request) -> Reply:
        dice = random.Random(f"{request.conversation}:{request.command}")
        tokens = dice.randint(500, DEAREST)
        await asyncio.sleep(0)
        return resolve(replace(_line(request, dice), usage=Usage(tokens - 100, 100, 1, 0.001)), request)

    async def stream(self, request: Request) -> AsyncIterator[TextDelta | ThinkingDelta | Reply]:
        yield await self.reply(request)


def _line(request: Request, dice: random.Random) -> Reply:
    others = [name for name in NAMES if name != request.agent]
    can_hand_off = any(definition.name == "handoff" for definition in request.tools)
    match dice.randrange(10):
        case 0 | 1 if can_hand_off:
            return hands_off(dice.choice(others), f"{dice.random()}")
        case 2 if can_hand_off:
            some = dice.sample(others, dice.randint(1, 3))
            return calls(*(delegates(name, "find out") for name in some))
        case 3 | 4 | 5 | 6 | 7 | 8:
            return calls(("look", {}), ("look", {}))
        case _:
            return says("That is all.")


def a_team(store: str) -> Team:
    members = [
        Agent(name, tools=[look], handoffs=[*others, *(delegate(other) for other in others)])
        for name in NAMES
        if (others := [other for other in NAMES if other != name])
    ]
    return Team(members, model=Restless(), limits=Limits.tier("medium"), store=store)


async def spent(team: Team, conversation: str) -> tuple[str, Ledger, float]:
    """How a run ended, what it took, and by how much that was too much."""
    try:
        return "completed", (await team.run("go", conversation=conversation)).ledger, 0
    except EconomicLimitExceeded as error:
        return error.limit_name, error.ledger or Ledger(), error.overshoot


@pytest.mark.stress
@pytest.mark.timeout(900 if STRESS else 120)
async def test_none_of_many_concurrent_conversations_exceeds_the_medium_tier(tmp_path: Path):
    file, gate = tmp_path / "crowd.db", asyncio.Semaphore(AT_ONCE)
    team = a_team(f"sqlite:///{file}")

    async def one(number: int) -> tuple[str, Ledger, float]:
        async with gate:
            return await spent(team, f"c{number}")

    ends = await asyncio.gather(*map(one, range(CONVERSATIONS)))
    await team.close()
    for end, ledger, overshoot in ends:
        assert ledger.handoffs <= MEDIUM["max_handoffs"]
        assert ledger.agents <= MEDIUM["max_agents"]
        assert ledger.tokens < MEDIUM["max_tokens"] + MEDIUM["max_handoffs"] * DEAREST
        assert overshoot == (max(0, ledger.tokens - MEDIUM["max_tokens"]) if end == "max_tokens" else 0)
    assert {end for end, _, _ in ends} == {"completed", "max_tokens", "max_handoffs"}
    assert_kept(file, [ledger for _, ledger, _ in ends])
    print(table(ends))


def assert_kept(file: Path, ledgers: list[Ledger]) -> None:
    """The store has what the results have."""
    with sqlite3.connect(file) as connection:
        sums = "SELECT sum(handoffs), sum(turns), sum(input_tokens + output_tokens) FROM ledgers"
        [kept] = connection.execute(sums)
    assert kept == tuple(sum(getattr(each, name) for each in ledgers) for name in ("handoffs", "turns", "tokens"))


def table(ends: list[tuple[str, Ledger, float]]) -> str:
    """How many ended how, and what the dearest of them took."""
    lines = [f"{'ended by':<14}{'conversations':>14}{'handoffs':>10}{'agents':>8}{'tokens':>9}{'overshoot':>11}"]
    for end in sorted({end for end, _, _ in ends}):
        ledgers = [ledger for how, ledger, _ in ends if how == end]
        most = [max(getattr(each, name) for each in ledgers) for name in ("handoffs", "agents", "tokens")]
        over = max(too_much for how, _, too_much in ends if how == end)
        lines.append(f"{end:<14}{len(ledgers):>14,}{most[0]:>10}{most[1]:>8}{most[2]:>9,}{over:>11,}")
    return "\n".join(lines)
