"""A team with everything that operators look at, and a day of conversations with it.

`python -m tests.ui.operations URL COUNT` puts so many conversations into a store.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from math import pi, sin
from typing import Any

from msgspec.structs import replace

from changeover import Agent, Full, Limits, Recent, Team, delegate, handoff, specialist
from changeover.bus import BusEvent, Emit, Schedule, Specialist, Subscription
from changeover.errors import ChangeoverError
from changeover.messages import Message, Reply, ToolResult
from changeover.models import Usage
from changeover.protocol import HandoffPackage, Metadata, Rejected, Task
from changeover.relay.ports.world import Clock
from changeover.routing import Experiment
from changeover.testing import ManualClock, ScriptedModel, calls, delegates, fails, hands_off, says
from changeover.tools.tool import ToolDefinition
from tests.stories.specialists import wants

DAY = 86_400.0
REPORT = "Sum up the complaints of the week"
TOPICS = (
    *("A question", "A refund", "A refund", "Charged twice", "The terms", "Goodwill", "Whose is it?", "No parcel"),
    *("A late parcel", "One turn", "A refund", "A new card"),
)
"""What users write about, in turn; agents go by it."""
AT_ONCE = 24
"""Conversations that run at the same time, at most."""
MOMENTS = 96
"""When conversations begin: at least so many times in the day, if there are as many."""


def _reply(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
    said = next(each.text for each in messages if getattr(each, "text", ""))
    return replace(_turn(agent, said, messages[-1]), usage=Usage(120 + 10 * len(messages), 30, 1, 0.0021))


TURNS = {
    ("triage", "A refund"): hands_off("billing", "Please send it back."),
    ("triage", "Charged twice"): hands_off("billing", "Please send it back."),
    ("triage", "One turn"): hands_off("billing", "Please send it back."),
    ("triage", "Goodwill"): hands_off("goodwill", "Something for the trouble?"),
    ("triage", "Whose is it?"): hands_off("technical", "Whose is it?"),
    ("triage", "No parcel"): hands_off("carrier", "Where is the parcel?"),
    ("billing", "Charged twice"): hands_off("technical", "It was sent twice."),
    ("technical", "Whose is it?"): hands_off("billing", "Yours."),
    ("billing", "Whose is it?"): hands_off("technical", "No, yours."),
}
"""What agents say to a topic, whatever was said before."""
FIRST = {
    ("triage", "A new card"): hands_off("fraud", "Check the order before the refund."),
    ("triage", "The terms"): delegates("research", "Look it up."),
    ("triage", "A late parcel"): calls(wants("parcels", "Check the parcel.")),
}
"""What agents say to a topic first; then they answer."""


def _turn(agent: str, said: str, last: Message) -> Reply:
    key = agent, said.partition(": ")[0]
    if isinstance(last, ToolResult) and (last.text.startswith("refused") or "did not take it" in last.text):
        return says("Then I answer it myself.")
    if agent == "carrier":
        return fails("the line to the carrier is down", retryable=False)
    done = says(f"{agent} has done it.")
    return TURNS.get(key) or (done if isinstance(last, ToolResult) else FIRST.get(key, done))


class Pace:
    """How long agents take, by a clock that need not be the real one."""

    def __init__(self, clock: Clock | None) -> None:
        self._clock, self._turn = clock, 0

    async def pass_by(self, seconds: float) -> None:
        """Take up to twice this time."""
        if self._clock is not None:
            self._turn += 1
            await self._clock.sleep_until(self._clock.now() + seconds * (1 + self._turn % 7 / 6))

    async def reply(self, agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        """What an agent says next."""
        await self.pass_by(0.4)
        return _reply(agent, messages, tools)

    async def accepts(self, package: HandoffPackage) -> bool:
        """Accept after a moment."""
        await self.pass_by(0.11)
        return True


def busy(package: HandoffPackage) -> Rejected:
    """Take nothing."""
    return Rejected("may send back 100 EUR at most")


def unpack(event: BusEvent) -> None:
    """Fail, unless the parcel is there."""
    if event.data["parcel"] == "lost":
        raise LookupError(f"no parcel of order {event.data['order']} has arrived")


def operations(store: str | None = None, clock: Clock | None = None) -> Team:
    """The team; agents of the queue have no worker unless one is started."""
    pace = Pace(clock)
    near = [handoff(each) for each in ("billing", "technical", "goodwill", "carrier", "fraud")]
    members = [
        Agent("triage", name="Triage", handoffs=[*near, delegate("research"), specialist()]),
        Agent("billing", name="Billing", handoffs=["technical"], capabilities=["refunds"], accepts=pace.accepts),
        Agent("technical", name="Technical", handoffs=["billing"], capabilities=["parcels"], accepts=pace.accepts),
        Agent("research", name="Research", handoffs=(), capabilities=["parcels"]),
        Agent("goodwill", name="Goodwill", handoffs=(), accepts=busy),
        Agent("carrier", name="Carrier", handoffs=()),
        Agent("fraud", name="Fraud check", handoffs=(), pull=True),
        Agent("returns", name="Returns", handoffs=(), pull=True),
    ]
    options: dict[str, Any] = {"clock": clock} if clock else {}
    return Team(
        members,
        name="operations",
        start="triage",
        model=ScriptedModel(pace.reply),
        store=store,
        subscriptions=[
            Subscription("payment.*", to="billing", priority="urgent", task="Look at {data.order}", name="Payments"),
            Subscription("parcel.late", to=Specialist("parcels", task="Find {data.order}"), where="data.days > `1`"),
            Subscription("order.returned", to=unpack, name="Returns desk", tries=2, backoff=0.05),
        ],
        schedules=[
            Schedule("weekly-report", cron="0 7 * * 1", timezone="Europe/Berlin", start="research", task=REPORT),
            Schedule("night-check", cron="30 2 * * *", start=Emit("payment.check")),
        ],
        experiments=[Experiment("context", {"full": Full(), "recent": Recent(4)})],
        **options,
    )


async def sow(store: str, count: int, until: float | None = None) -> None:
    """Put so many conversations into a store, spread over the day that ends now."""
    until = until or time.time()
    begin, lasts = until - DAY + 600, DAY - 1200
    clock = ManualClock(begin, auto=True)
    team = operations(store, clock)
    at_once = max(1, min(AT_ONCE, count // MOMENTS))
    for first in range(0, count, at_once):
        await clock.advance(max(0.0, begin + lasts * _share(first / max(1, count - 1)) - clock.now()))
        await asyncio.gather(*(_speak(team, number) for number in range(first, min(count, first + at_once))))
    for number in range(max(1, min(count // 40, 60))):
        await _submit(team, "fraud", number, f"Check order {2000 + number} for fraud before the refund")
    await _submit(team, "returns", 0, "Send a label for the parcel of order 1042")
    await team.close()


def _share(part: float) -> float:
    """The share of the day that has passed when this part of the conversations has begun: most begin in its middle."""
    return part + 0.1 * sin(2 * pi * part)


async def _speak(team: Team, number: int) -> None:
    topic, id = TOPICS[number % len(TOPICS)], f"c-{number}"
    limits = Limits(max_turns=1) if topic == "One turn" else None
    with suppress(ChangeoverError):
        await team.run(f"{topic}: order {1000 + number}", conversation=id, user=f"user-{number % 7}", limits=limits)
    if number % 3 == 0:
        await team.measure(id, "satisfaction", 3 + number % 3)


async def _submit(team: Team, receiver: str, number: int, words: str) -> None:
    about = Metadata(receiver=receiver, conversation=f"{receiver}-{number}")
    await team.submit(HandoffPackage(Task(words), metadata=about))


team = operations()

if __name__ == "__main__":
    asyncio.run(sow(sys.argv[1], int(sys.argv[2])))
