"""What happens inside can be subscribed to: rejections, approvals, circuits, and runs that end."""

from collections.abc import Callable
from typing import Any

import pytest

from changeover import Agent, Function, Team, tool
from changeover.bus import BusEvent, Subscription
from changeover.guards import CircuitBreaker
from changeover.protocol import Rejected
from changeover.testing import ScriptedModel, calls, hands_off, says
from tests.public_api import soon


def told(got: list[BusEvent], *wanted: str) -> Callable[[], Any]:
    async def all_of_them() -> bool:
        return {event.type.removeprefix("changeover.") for event in got} >= set(wanted)

    return all_of_them


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return "paid"


async def test_a_run_that_ends_and_an_approval_that_waits_are_told(any_store: str | None):
    got: list[BusEvent] = []
    model = ScriptedModel({"a": [calls(("pay", {"amount": 5}))], "b": [says("done")]})
    team = Team([Agent("a", tools=[pay]), Agent("b")], model=model, store=any_store)
    team.bus.on("changeover.*")(got.append)
    async with team:
        await team.run("pay", conversation="c1")
        await team.run("hello", agent="b", conversation="c2")
        assert await soon(told(got, "approval.waiting", "run.completed"), 20.0), got
    waiting, ended = sorted(got, key=lambda event: event.type)
    assert (waiting.data["conversation"], waiting.data["tool"], waiting.source) == ("c1", "pay", "conversations/c1")
    assert (ended.data["conversation"], ended.data["agent"]) == ("c2", "b")


async def test_a_rejection_a_failed_run_and_an_open_circuit_are_told(any_store: str | None):
    got: list[BusEvent] = []

    def broken(context: object) -> str:
        raise RuntimeError("broken")

    model = ScriptedModel({"a": [hands_off("busy", "x"), hands_off("broken", "y")]})
    team = Team(
        [
            Agent("a"),
            Agent("busy", accepts=lambda package: Rejected("no time")),
            Function("broken", broken, description="c"),
        ],
        model=model,
        store=any_store,
        guards=[CircuitBreaker(threshold=1)],
        subscriptions=[Subscription("changeover.*", to=got.append, name="all")],
    )
    async with team:
        with pytest.raises(Exception, match="broken"):
            await team.run("go", conversation="c1")
        assert await soon(told(got, "run.failed", "breaker.opened", "handoff.rejected"), 20.0), got
    by_type = {event.type: event for event in got}
    assert by_type["changeover.handoff.rejected"].data["reason"] == "no time"
    assert by_type["changeover.breaker.opened"].data["receiver"] == "broken"
    assert by_type["changeover.run.failed"].data["conversation"] == "c1"


async def test_what_a_happening_starts_does_not_start_itself_again():
    model = ScriptedModel(lambda agent, messages, tools: says("done"))
    to = [Subscription("changeover.run.completed", to="b"), Subscription("changeover.run.*", to=lambda event: None)]
    async with Team([Agent("a"), Agent("b")], model=model, subscriptions=to) as team:
        await team.run("hello", agent="a")

        async def over() -> bool:
            events = await team.bus.events()
            return bool(events) and not await team.bus.backlog()

        assert await soon(over, 20.0)
        [event] = await team.bus.events()
        [started] = [each.started for each in (await team.bus.event(event.id)).deliveries if each.started]  # type: ignore[union-attr]
        assert (await team.resume(started)).output == "done"
        assert await team.bus.events() == [event]


async def test_what_nobody_wants_is_not_stored():
    got: list[BusEvent] = []
    model = ScriptedModel(lambda agent, messages, tools: says("done"))
    to = [Subscription("changeover.run.failed", to=got.append, name="failures")]
    async with Team([Agent("a")], model=model, subscriptions=to) as team:
        await team.run("hello")
        assert await team.bus.events() == []


async def test_a_subscription_to_happenings_can_be_declared_while_the_team_is_in_use():
    got: list[BusEvent] = []
    model = ScriptedModel(lambda agent, messages, tools: says("done"))
    async with Team([Agent("a")], model=model) as team:
        await team.run("hello")
        team.bus.on("changeover.run.completed")(got.append)
        await team.run("hello again", conversation="c2")
        assert await soon(told(got, "run.completed"), 20.0)
    assert [event.data["conversation"] for event in got] == ["c2"]
