"""Events reach their subscribers: at least once, in order per source, and none holds up another."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from changeover import Agent, Team
from changeover.bus import BusEvent, Schedule, Specialist, Subscription
from changeover.errors import KeyConflict, MisconfiguredError
from changeover.testing import ManualClock, ScriptedModel, says
from changeover.workflows import Workflow, WorkflowStep
from tests.public_api import soon

ALERT = {"severity": 9, "summary": "odd login"}


def team_of(store: str | None, *subscriptions: Subscription, **options: object) -> Team:
    agents = [Agent("triage"), Agent("security", description="Investigates.", capabilities=["security"])]
    model = ScriptedModel(lambda agent, messages, tools: says(f"{agent} did it"))
    return Team(agents, model=model, store=store, subscriptions=list(subscriptions), **options)  # type: ignore[arg-type]


async def settled(team: Team, event: str, state: str = "done") -> None:
    """Wait until all deliveries of an event have this state."""

    async def all_are() -> bool:
        found = await team.bus.event(event)
        return found is not None and all(each.state == state for each in found.deliveries)

    assert await soon(all_are, 20.0), await team.bus.event(event)


@pytest.fixture
async def open_team(any_store: str | None) -> AsyncIterator[Callable[..., Awaitable[Team]]]:
    """Opens a team on a store of each kind."""
    teams: list[Team] = []

    async def opened(*subscriptions: Subscription, **options: object) -> Team:
        teams.append(team_of(any_store, *subscriptions, **options))
        await teams[-1].open()
        return teams[-1]

    yield opened
    for team in teams:
        await team.close()


Opened = Callable[..., Awaitable[Team]]


async def test_an_alert_becomes_an_urgent_handoff_to_a_specialist(open_team: Opened):
    to = Specialist("security", task="Investigate: {data.summary}")
    team = await open_team(Subscription("security.*", to=to, priority="urgent"))
    id = await team.bus.publish("security.alert", ALERT)
    await settled(team, id)
    [delivery] = (await team.bus.event(id)).deliveries  # type: ignore[union-attr]
    result = await team.resume(delivery.started)
    assert (result.handoff_chain[0].receiver, result.handoff_chain[0].message) == ("security", "Investigate: odd login")


async def test_an_event_reaches_each_subscriber_that_wants_it(open_team: Opened):
    team = await open_team(Subscription("security.alert", to="triage"))
    got: list[tuple[str, str]] = []
    team.bus.on("security.*", where="data.severity >= `7`")(lambda event: got.append(("urgent", event.id)))

    @team.bus.on("*")
    async def everything(event: BusEvent) -> None:
        got.append(("all", event.id))

    team.bus.on("billing.*", name="another")(lambda event: got.append(("never", event.id)))
    low = await team.bus.publish("security.alert", {"severity": 3})
    high = await team.bus.publish("security.alert", ALERT)
    await settled(team, low)
    await settled(team, high)
    assert sorted(got) == sorted([("all", low), ("all", high), ("urgent", high)])
    assert {each.subscriber for each in (await team.bus.event(low)).deliveries} == {  # type: ignore[union-attr]
        "security.alert to triage",
        "* to everything",
    }


@pytest.mark.parametrize("by_id", [True, False], ids=["by its id", "itself"])
async def test_an_event_starts_a_workflow_with_its_data_as_inputs(open_team: Opened, by_id: bool):
    deploy = Workflow("deploy", steps=[WorkflowStep("do", agent="triage", input="Deploy {inputs.version}")])
    team = await open_team(
        Subscription("build.done", to="deploy" if by_id else deploy, name="deploy it"), workflows=[deploy]
    )
    id = await team.bus.publish("build.done", {"version": "1.2"})
    await settled(team, id)
    [delivery] = (await team.bus.event(id)).deliveries  # type: ignore[union-attr]
    assert (await team.resume(delivery.started)).output == "triage did it"


async def test_a_key_publishes_an_event_once_and_no_other_event(open_team: Opened):
    team = await open_team()
    first = await team.bus.publish("order.paid", {"order": 1}, key="paid-1")
    assert await team.bus.publish("order.paid", {"order": 1}, key="paid-1") == first
    with pytest.raises(KeyConflict):
        await team.bus.publish("order.paid", {"order": 2}, key="paid-1")
    assert [event.id for event in await team.bus.events()] == [first]


async def test_a_subscriber_gets_the_events_of_a_source_in_order_even_if_one_fails_at_first(open_team: Opened):
    clock = ManualClock()
    team = await open_team(clock=clock)
    got: list[tuple[str, int]] = []
    failures = iter([True])

    @team.bus.on("step", backoff=5.0)
    async def note(event: BusEvent) -> None:
        if (event.source, event.data) == ("a", 1) and next(failures, False):
            raise RuntimeError("not now")
        got.append((event.source, event.data))

    ids = [await team.bus.publish("step", number, source=source) for number in range(4) for source in "ab"]
    await settled(team, ids[-1])
    assert [number for source, number in got if source == "b"] == [0, 1, 2, 3]
    assert [number for source, number in got if source == "a"] == [0], "what follows a failed one waits for it"

    async def retried() -> bool:
        await clock.advance(1.0)
        return len(got) == 8

    assert await soon(retried, 20.0)
    assert [number for source, number in got if source == "a"] == [0, 1, 2, 3]


async def test_a_poison_event_becomes_a_dead_letter_and_holds_up_nothing(open_team: Opened):
    clock = ManualClock()
    team = await open_team(clock=clock)
    got: list[int] = []
    healthy = False

    @team.bus.on("number", tries=3, backoff=1.0)
    async def halve(event: BusEvent) -> None:
        if event.data % 2 and not healthy:
            raise ValueError(f"{event.data} is odd")
        got.append(event.data)

    @team.bus.on("number")
    async def note(event: BusEvent) -> None:
        got.append(event.data + 100)

    odd = await team.bus.publish("number", 1, source="a")
    even = await team.bus.publish("number", 2, source="a")
    await team.bus.publish("number", 4, source="b")

    async def over() -> bool:
        await clock.advance(1.0)
        return (await team.bus.event(even)).deliveries[0].state == "done"  # type: ignore[union-attr]

    assert await soon(lambda: _has(got, 101, 102, 104, 4), 20.0)
    assert await soon(over, 20.0)
    [dead] = await team.bus.dead_letters()
    assert (dead.event.id, dead.subscriber, dead.attempts) == (odd, f"number to {halve.__name__}", 3)
    assert dead.error == "ValueError: 1 is odd"
    healthy = True
    assert await team.bus.resend(odd) == 1
    await settled(team, odd)
    assert await team.bus.dead_letters() == []
    assert sorted(got) == [1, 2, 4, 101, 102, 104]


async def _has(got: list[int], *wanted: int) -> bool:
    return set(wanted) <= set(got)


async def test_a_slow_subscriber_holds_up_no_other(open_team: Opened):
    team = await open_team()
    hold, got = asyncio.Event(), list[int]()

    @team.bus.on("number", concurrency=1)
    async def slow(event: BusEvent) -> None:
        await hold.wait()

    team.bus.on("number")(lambda event: got.append(event.data))
    ids = [await team.bus.publish("number", number, source="a") for number in range(20)]
    assert await soon(lambda: _has(got, *range(20)), 20.0)
    assert got == list(range(20))
    hold.set()
    await settled(team, ids[-1])


async def test_what_a_closed_team_left_is_delivered_by_the_next_one(any_store: str | None):
    team = team_of(any_store)
    got: list[int] = []

    @team.bus.on("number")
    async def note(event: BusEvent) -> None:
        if not got:
            got.append(event.data)
            await asyncio.Event().wait()
        got.append(event.data)

    async with team:
        id = await team.bus.publish("number", 1)
        assert await soon(lambda: _has(got, 1), 20.0)
    async with team:
        await settled(team, id)
    assert got == [1, 1]


async def test_a_team_without_subscriptions_runs_no_dispatcher(any_store: str | None):
    async with team_of(any_store) as team:
        await team.bus.publish("number", 1)
        await asyncio.sleep(0)
        assert [task for task in asyncio.all_tasks() if "BusDispatcher" in repr(task)] == []


async def test_events_are_listed_by_page_and_type_and_old_ones_are_removed(open_team: Opened):
    clock = ManualClock()
    team = await open_team(clock=clock)
    ids = [await team.bus.publish(f"kind.{number % 2}", number) for number in range(6)]
    assert [event.id for event in await team.bus.events(limit=2)] == [ids[5], ids[4]]
    assert [event.id for event in await team.bus.events(limit=2, before=ids[4])] == [ids[3], ids[2]]
    assert [event.data for event in await team.bus.events(type="kind.1")] == [5, 3, 1]
    await clock.advance(100.0)
    late = await team.bus.publish("kind.0", 6)
    assert await team.bus.sweep(older_than=50.0) == 6
    assert [event.id for event in await team.bus.events()] == [late]


async def test_an_open_team_removes_old_events_but_no_dead_letter_and_no_last_start(any_store: str | None):
    clock, week = ManualClock(1.9e9), 7 * 86_400.0
    monthly = Schedule("monthly", cron="0 0 1 * *", start=lambda event: None)
    team = team_of(any_store, clock=clock, schedules=[monthly], keep_events=week)

    @team.bus.on("number", tries=1)
    def halve(event: BusEvent) -> None:
        assert event.data % 2 == 0

    async with team:
        start = await team.schedules.run("monthly")
        ids = [await team.bus.publish("number", number) for number in (1, 2)]

        async def handled() -> bool:
            return [(each.waiting, each.dead) for each in await team.bus.backlog()] == [(0, 1)]

        async def swept() -> bool:
            await clock.advance(600.0)
            return [event.id for event in await team.bus.events()] == [ids[0], start]

        assert await soon(handled, 20.0)
        await clock.advance(week - 10.0)
        assert len(await team.bus.events()) == 3
        assert await soon(swept, 20.0)


@pytest.mark.parametrize(
    ("publish", "fault"),
    [
        ({"type": "no spaces"}, "'no spaces' is no type of an event"),
        ({"type": "a", "data": {"x": object()}}, "the data of an event must be what JSON can hold: $.x"),
        ({"type": "a", "key": 5}, "key=5 of an event must be a printable str"),
        ({"type": "a", "source": "x" * 600}, "of an event must be a printable str of at most 512 bytes"),
    ],
)
async def test_what_is_no_event_is_refused(publish: dict[str, object], fault: str):
    with pytest.raises(MisconfiguredError, match=fault.replace("$", r"\$")):
        await team_of(None).bus.publish(**publish)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("subscription", "fault"),
    [
        (Subscription("a b", to="triage"), "has the type 'a b'"),
        (
            Subscription("a", to="nobody"),
            "has to='nobody', which is no agent or workflow of this team: triage, security",
        ),
        (Subscription("a", to=5), "has to=5; give the id of an agent"),
        (Subscription("a", to="triage", where="data.["), "which is not a JMESPath expression"),
        (Subscription("a", to="triage", task="{data.[}"), "has 'data.[' in task"),
        (Subscription("a", to="triage", priority="soon"), "has priority='soon'; give a whole number, or one of low"),
        (Subscription("a", to="triage", tries=0), "has tries=0; give a whole number above 0"),
        (Subscription("a", to="triage", backoff=-1), "has backoff=-1; give a number of seconds above 0"),
        (Subscription("a", to=lambda: None), "it is called with 1 argument"),
        (Subscription("a", to=Specialist("")), "has a Specialist that needs the name of a capability"),
    ],
)
def test_a_subscription_that_cannot_work_is_refused_with_its_fault(subscription: Subscription, fault: str):
    with pytest.raises(MisconfiguredError) as refused:
        team_of(None, subscription)
    assert fault in str(refused.value)


def test_two_subscriptions_with_one_name_are_refused():
    with pytest.raises(MisconfiguredError, match="two subscriptions are called 'a to triage'"):
        team_of(None, Subscription("a", to="triage"), Subscription("a", to="triage"))
