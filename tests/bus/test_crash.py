"""Events in the crash harness: the process dies at every append, and the event still has its effect, once."""

import asyncio
import time
from typing import Any

from changeover import Agent, Specialist, Subscription, Team
from changeover.stores.memory.log import MemoryLog
from changeover.testing import ScriptedModel, crash, hands_off, says


def quick_log() -> MemoryLog:
    """A store whose clock runs so fast that the lease of a dead process is soon over."""
    return MemoryLog(now=lambda: 300 * time.time())


async def alert(team: Any) -> list[Any]:
    id = await team.bus.publish("security.alert", {"summary": "odd login"}, key="alert-1", source="sensor")
    while (delivery := (await team.bus.event(id)).deliveries[0]).state != "done":  # noqa: ASYNC110 - of any process
        await asyncio.sleep(0.002)
    result = await team.resume(delivery.started)
    chain = [(each.sender, each.receiver, each.message, each.state) for each in result.handoff_chain]
    return [result.output, chain, len(await team.bus.events())]


async def test_an_alert_leads_to_one_investigation_wherever_the_process_dies():
    agents = [
        Agent("security", capabilities=["security"], description="Investigates."),
        Agent("clerk", description="Writes."),
    ]
    model = ScriptedModel({"security": [hands_off("clerk", "Write it down.")], "clerk": [says("It is written down.")]})
    to = Specialist("security", task="Investigate: {data.summary}")
    team = Team(agents, model=model, subscriptions=[Subscription("security.*", to=to, priority="urgent", backoff=0.01)])
    survival = await crash.survives(team, alert, quick_log)
    assert survival.appends > 3
