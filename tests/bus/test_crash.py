"""Events in the crash harness: the process dies at every append, and the event still has its effect, once.

What subscribers are told of the team's own conversations is stored with the append that it tells of: a process that
is killed right after that append loses nothing.
"""

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import Any

from changeover import Agent, Approve, Team, tool
from changeover.bus import BusEvent, Specialist, Subscription
from changeover.guards import CircuitBreaker
from changeover.protocol import Rejected
from changeover.stores.memory.log import MemoryLog
from changeover.testing import ScriptedModel, calls, crash, hands_off, says
from tests.bus.process import Mother, Order, team_of
from tests.public_api import soon


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


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return "paid"


async def rejection_and_approval(team: Any) -> list[Any]:
    await team.run("pay", conversation="c", key="once")
    for request in await team.approvals("c"):
        await team.decide(request, Approve())
    result = await team.resume("c")

    async def told() -> bool:
        return len(await team.bus.events()) > 2 and not any(each.waiting for each in await team.bus.backlog())

    assert await soon(told, 10.0)
    return [result.output, Counter((each.type, each.data["conversation"]) for each in await team.bus.events())]


async def test_happenings_are_told_once_wherever_the_process_dies():
    got: set[str] = set()

    def note(event: BusEvent) -> None:
        got.add(event.id)

    agents = [Agent("a", tools=[pay]), Agent("busy", accepts=lambda package: Rejected("no time"))]
    model = ScriptedModel({"a": [hands_off("busy", "x"), calls(("pay", {"amount": 5})), says("paid")]})
    subscriptions = [Subscription("changeover.*", to=note, name="all", backoff=0.01)]
    team = Team(agents, model=model, guards=[CircuitBreaker()], subscriptions=subscriptions)
    survival = await crash.survives(team, rejection_and_approval, quick_log)
    assert survival.appends > 3
    assert len(got) >= 3


async def test_the_end_of_a_run_is_told_though_the_process_is_killed_once_it_is_recorded(
    shared_store: str, tmp_path: Path, mother: Mother
):
    notes = tmp_path / "notes"
    notes.touch()
    assert mother.start(Order(shared_store, str(notes), dies=True)).ended(20.0)
    assert notes.read_text() == ""  # it was killed before it could tell of it
    async with team_of(Order(shared_store, str(notes))) as team:
        [event] = await team.bus.events()

        async def done() -> bool:
            return [each.state for each in (await team.bus.event(event.id)).deliveries] == ["done"]  # type: ignore[union-attr]

        assert await soon(done, 20.0)
    assert set(notes.read_text().splitlines()) == {f"changeover.run.completed c1 done {event.id}"}
