"""Seeds: the conversations with which the demo server begins, and the model that tells them the same way each time.

They are told in the past, as if models and people had taken their time, and are ready at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from changeover.cli.demo.desk import CUSTOMER, INCIDENT, MESSAGES, desk, judge, line
from changeover.engines.clock import SystemClock
from changeover.errors import ModelError
from changeover.facts import RunResult, Usage
from changeover.handoffs.tokens import count, weight
from changeover.ids import root_of
from changeover.messages import Reply
from changeover.models.offline import OfflineModel
from changeover.relay.ports.lists import ConversationRow
from changeover.relay.ports.log import Log
from changeover.relay.ports.world import Request
from changeover.stores.store import Store
from changeover.team import Team
from changeover.testing import ScriptedModel, fails, hands_off

APPROVER = "approver on duty"
OUTAGE: Mapping[str, Reply] = {
    "triage": hands_off("technical", "Error E42, since this morning."),
    "technical": fails("the provider of the model cannot be reached", retryable=False),
}


BEGINNING = 3060.0
"""Seconds before now at which the first seed begins."""
BETWEEN, THINKING = 480.0, 95.0
"""Seconds between two seeds, and until a person decides."""
PACE = 0.004
"""Real seconds for one second of a seed: what happens at the same time stays in its order."""
READS, WRITES = 2.5e-6, 1e-5
"""Cost of a token that a model reads, and of one that it writes, in US dollars."""


class StoryClock(SystemClock):
    """The time of the machine or, while seeds are told, a time in the past that catches up with it."""

    def __init__(self) -> None:
        self._behind = 0.0

    def now(self) -> float:
        return time.time() - self._behind

    @property
    def tells(self) -> bool:
        """True while seeds are told."""
        return self._behind > 0

    def begin(self, behind: float) -> None:
        """Set the clock back by so many seconds."""
        self._behind = behind

    def skip(self, seconds: float) -> None:
        """Let time pass in which nothing happens."""
        self._behind = max(0.0, self._behind - seconds)

    async def spend(self, seconds: float) -> None:
        """Let so many seconds pass, while others may do the same."""
        until = self.now() + seconds
        await asyncio.sleep(seconds * PACE)
        self.skip(until - self.now())


CLOCK = StoryClock()


class Seed(Struct, frozen=True):
    """A conversation of the demo server."""

    id: str
    title: str
    messages: Sequence[str | dict[str, Any]]
    """What a customer says, or the inputs of the workflow."""
    approved: bool = False
    """True if a person approves what it asks for; else it waits."""
    cancelled: bool = False


SEEDS = (
    Seed("order-1042", "Order 1042 charged twice, order 1077 sent back", MESSAGES, approved=True),
    Seed("plans", "Basic plan or Team plan", ("Compare the Basic plan with the Team plan",)),
    Seed("incident-e42", "Error E42 is answered", ({"problem": "error E42", "amount": 12},), approved=True),
    Seed("outage", "Error E42 in the app", ("The app shows error E42",)),
    Seed("second-thoughts", "Charged twice, then found the payment", MESSAGES[:1], cancelled=True),
    Seed("refund-waits", "Order 1042: charged twice", MESSAGES[:1]),
)
"""The newest last: it is the first in every list, and waits for a person."""
SCRIPTED = frozenset({"order-1042", "second-thoughts", "refund-waits"})
OFFLINE = OfflineModel(notice=False)


async def reply(request: Request) -> Reply:
    """The next reply, with its usage; while seeds are told, after the time that a model would take."""
    found = await _line(request)
    read, written = 240 + weight(*request.messages), 12 + count(found.text) + 30 * len(found.calls)
    if CLOCK.tells:
        await CLOCK.spend(0.6 + written / 40)
    if type(found) is not Reply:
        return found
    return replace(found, usage=Usage(read, written, 1, read * READS + written * WRITES))


async def _line(request: Request) -> Reply:
    """The next line of a seed; in all other conversations, and after the last line, the offline model replies."""
    seed = root_of(request.conversation)
    if seed == "outage" and request.turn == 0:
        return OUTAGE[request.agent]
    if seed in SCRIPTED:
        try:
            return line(request.agent, request.messages, request.tools)
        except LookupError:
            pass  # the user continued the conversation after its last line
    return await OFFLINE.reply(request)


def demo_team(store: str | Store | Log | None) -> Team:
    """The support desk of the demo, for a server."""
    return desk(ScriptedModel(reply), clock=CLOCK, workflows=[INCIDENT]).on(store)


async def sow(team: Team) -> None:
    """Tell all seeds that the store does not have yet."""
    CLOCK.begin(BEGINNING)
    for seed in SEEDS:
        if await team.log.lists.one(ConversationRow, seed.id) is None:
            await _tell(team, seed)
            await team.rename(seed.id, seed.title, by=APPROVER)
            CLOCK.skip(BETWEEN)
    CLOCK.begin(0)


def _say(team: Team, seed: Seed, said: str | dict[str, Any]) -> Coroutine[Any, Any, RunResult[Any]]:
    if isinstance(said, str):
        return team.run(said, conversation=seed.id, user=CUSTOMER)
    return team.run_workflow(INCIDENT, said, conversation=seed.id, user=APPROVER)


async def _tell(team: Team, seed: Seed) -> None:
    for said in seed.messages:
        try:
            result = await _say(team, seed, said)
        except ModelError:
            return  # the outage
        while seed.approved and result.requests:
            CLOCK.skip(THINKING)
            for request in result.requests:
                await team.decide(request, judge(request), by=APPROVER)
            result = await team.resume(seed.id)
    if seed.cancelled:
        await team.cancel(seed.id, by=CUSTOMER, reason="The customer found the payment.")
