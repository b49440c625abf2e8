"""Schedules start at their due times: once each, right across clock changes, and as `missed` and `overlap` say."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from changeover import Agent, Team
from changeover.bus import BusEvent, Emit, Schedule, Subscription
from changeover.dispatch.console import BusConsole, ScheduleConsole
from changeover.errors import MisconfiguredError
from changeover.testing import ManualClock, ScriptedModel, says
from changeover.workflows import Workflow, WorkflowStep
from tests.public_api import soon

MONDAY = datetime(2030, 1, 7, 6, 59, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()
WEEKLY = "0 7 * * 1"
HOUR = 3600.0


def local(at: float) -> str:
    return datetime.fromtimestamp(at, ZoneInfo("Europe/Berlin")).isoformat(" ", "minutes")


def starts(schedule: Schedule, since: str, count: int) -> list[str]:
    first = datetime.fromisoformat(since).replace(tzinfo=ZoneInfo(schedule.timezone)).timestamp()
    return [local(at) for at in schedule.next_runs(first, count)]


def berlin(cron: str) -> Schedule:
    return Schedule("x", cron=cron, start="triage", timezone="Europe/Berlin")


def test_a_day_without_the_hour_still_has_its_start():
    assert starts(berlin("30 2 * * *"), "2030-03-30", 3) == [
        "2030-03-30 02:30+01:00",
        "2030-03-31 03:00+02:00",  # 02:30 does not exist
        "2030-04-01 02:30+02:00",
    ]


def test_an_hour_that_comes_twice_has_one_start():
    assert starts(berlin("30 2 * * *"), "2030-10-26", 3) == [
        "2030-10-26 02:30+02:00",
        "2030-10-27 02:30+02:00",
        "2030-10-28 02:30+01:00",
    ]


def test_an_hourly_schedule_has_a_start_for_each_hour_that_passes():
    spring, autumn = starts(berlin("0 * * * *"), "2030-03-31", 3), starts(berlin("0 * * * *"), "2030-10-27", 4)
    assert spring == ["2030-03-31 01:00+01:00", "2030-03-31 03:00+02:00", "2030-03-31 04:00+02:00"]
    assert autumn[1:] == ["2030-10-27 02:00+02:00", "2030-10-27 02:00+01:00", "2030-10-27 03:00+01:00"]


@pytest.mark.parametrize("cron", ["30 2 * * *", "*/20 * * * *", "0 7 * * 1", "15 2 28-31 3,10 *", "0 0 1 1 *"])
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"])
def test_the_last_due_time_is_always_one_of_the_due_times_in_order(cron: str, zone: str):
    schedule = Schedule("x", cron=cron, start="triage", timezone=zone)
    begin = datetime(2030, 3, 1, tzinfo=UTC).timestamp()
    runs = schedule.next_runs(begin, 400)
    assert runs == sorted(set(runs))
    for before, at in list(zip([begin, *runs], runs, strict=False))[:60]:
        assert schedule.due(before, at) == at
        assert schedule.due(before, at - 1) is None
        assert schedule.due(begin - 400 * 86_400, at) == at


Opened = Callable[..., Awaitable[tuple[Team, ManualClock, list[BusEvent]]]]


@pytest.fixture
async def open_team(any_store: str | None) -> AsyncIterator[Opened]:
    """Opens a team with schedules, on a store of each kind, and tells what its functions got."""
    teams: list[Team] = []

    async def opened(schedule: Callable[[list[BusEvent]], Schedule]) -> tuple[Team, ManualClock, list[BusEvent]]:
        clock, got = ManualClock(MONDAY), list[BusEvent]()
        model = ScriptedModel(lambda agent, messages, tools: says("done"))
        team = Team([Agent("triage")], model=model, store=any_store, clock=clock, schedules=[schedule(got)])
        teams.append(team)
        await team.open()
        assert await soon(lambda: _noted(team), 20.0)
        return team, clock, got

    yield opened
    for team in teams:
        await team.close()


async def _noted(team: Team) -> bool:
    return len(await team.log.timetable.known(team.name)) == 1


async def counted(got: list[BusEvent], count: int) -> None:
    async def enough() -> bool:
        return len(got) >= count

    assert await soon(enough, 20.0), got


async def test_a_schedule_starts_at_its_due_time_and_not_before(open_team: Opened):
    team, clock, got = await open_team(
        lambda got: Schedule("weekly", cron=WEEKLY, timezone="Europe/Berlin", start=got.append)
    )
    await clock.advance(59.0)
    assert (await team.schedules.show("weekly")).last_event == ""
    await clock.advance(1.0)
    await counted(got, 1)
    assert got[0].data == {"schedule": "weekly", "due": "2030-01-07T06:00:00+00:00", "manual": False}
    status = await team.schedules.show("weekly", runs=2)
    assert [local(at) for at in status.next_runs] == ["2030-01-14 07:00+01:00", "2030-01-21 07:00+01:00"]
    assert status.last_event == got[0].id


@pytest.mark.parametrize(("missed", "count"), [("run_once", 1), ("skip", 0)])
async def test_due_times_that_no_process_saw_are_made_up_for_once_or_not(
    any_store: str | None, missed: str, count: int
):
    got: list[BusEvent] = []
    clock = ManualClock(MONDAY)
    schedule = Schedule("hourly", cron="0 * * * *", start=got.append, missed=missed)  # type: ignore[arg-type]
    team = Team([Agent("triage")], model=ScriptedModel({}), store=any_store, clock=clock, schedules=[schedule])
    async with team:
        assert await soon(lambda: _noted(team), 20.0)
    await clock.advance(5.5 * HOUR)
    async with team:
        await counted(got, count)
        assert await soon(lambda: _missed(team, 1 - count), 20.0)
        assert await soon(lambda: _free(team), 20.0)
        await clock.advance(0.5 * HOUR + 60.0)
        await counted(got, count + 1)
    due = [event.data["due"] for event in got]
    assert due == [*["2030-01-07T11:00:00+00:00"] * count, "2030-01-07T12:00:00+00:00"][-count - 1 :]


async def _missed(team: Team, count: int) -> bool:
    return team.log.traffic.due_times["hourly", "missed"] == count


async def test_a_start_is_left_out_while_the_one_before_goes_on(open_team: Opened):
    hold = asyncio.Event()

    def slow(got: list[BusEvent]) -> Schedule:
        async def work(event: BusEvent) -> None:
            got.append(event)
            await hold.wait()

        return Schedule("hourly", cron="0 * * * *", start=work, overlap="skip")

    team, clock, got = await open_team(slow)
    await clock.advance(60.0)
    await counted(got, 1)
    await clock.advance(HOUR)
    await clock.advance(HOUR)

    async def handled() -> bool:
        [state] = await team.log.timetable.known(team.name)
        return state.handled == MONDAY + 60.0 + 2 * HOUR

    assert await soon(handled, 20.0)
    hold.set()
    assert await soon(lambda: _free(team), 20.0)
    await clock.advance(HOUR)
    await counted(got, 2)
    assert [event.data["due"][11:16] for event in got] == ["06:00", "09:00"]
    counts = team.log.traffic.due_times
    assert (counts["hourly", "started"], counts["hourly", "skipped"] > 0) == (2, True)


async def test_the_next_start_waits_for_the_work_of_a_start_by_hand(open_team: Opened):
    hold = asyncio.Event()

    def slow(got: list[BusEvent]) -> Schedule:
        async def work(event: BusEvent) -> None:
            got.append(event)
            await hold.wait()

        return Schedule("hourly", cron="0 * * * *", start=work)

    team, clock, got = await open_team(slow)
    await team.schedules.run("hourly")
    await counted(got, 1)
    await clock.advance(60.0)
    assert await soon(lambda: _handled(team, MONDAY + 60.0), 20.0)
    hold.set()
    assert await soon(lambda: _free(team), 20.0)
    assert [event.data["manual"] for event in got] == [True]


async def _free(team: Team) -> bool:
    return not await team.bus.backlog()


async def test_a_start_waits_in_the_queue_until_the_one_before_has_ended(open_team: Opened):
    hold = asyncio.Event()

    def slow(got: list[BusEvent]) -> Schedule:
        async def work(event: BusEvent) -> None:
            got.append(event)
            await hold.wait()

        return Schedule("hourly", cron="0 * * * *", start=work, overlap="queue")

    team, clock, got = await open_team(slow)
    await clock.advance(60.0)
    await counted(got, 1)
    for hours in (1, 2):
        await clock.advance(HOUR)
        assert await soon(lambda hours=hours: _handled(team, MONDAY + 60.0 + hours * HOUR), 20.0)  # type: ignore[misc]
    assert len(got) == 1
    hold.set()
    await counted(got, 3)
    assert [event.data["due"][11:16] for event in got] == ["06:00", "07:00", "08:00"]


async def _handled(team: Team, at: float) -> bool:
    [state] = await team.log.timetable.known(team.name)
    return state.handled == at


async def test_an_agent_gets_the_task_and_its_run_counts_as_the_work(any_store: str | None):
    clock, hold = ManualClock(MONDAY), asyncio.Event()
    model = ScriptedModel(lambda agent, messages, tools: says("the report"))
    schedule = Schedule("weekly", cron=WEEKLY, start="writer", timezone="Europe/Berlin", task="Write {data.schedule}.")
    team = Team([Agent("writer")], model=model, store=any_store, clock=clock, schedules=[schedule])
    async with team:
        assert await soon(lambda: _noted(team), 20.0)
        await clock.advance(60.0)
        hold.set()

        async def started() -> bool:
            status = await team.schedules.show("weekly")
            event = await team.bus.event(status.last_event) if status.last_event else None
            return event is not None and bool(event.deliveries[0].started)

        assert await soon(started, 20.0)
        event = await team.bus.event((await team.schedules.show("weekly")).last_event)
        assert event is not None
        result = await team.resume(event.deliveries[0].started)
        assert (result.handoff_chain[0].message, result.output) == ("Write weekly.", "the report")


async def test_a_schedule_can_publish_an_event(any_store: str | None):
    got: list[BusEvent] = []
    schedule = Schedule("weekly", cron=WEEKLY, start=Emit("report.due", {"kind": "weekly"}), timezone="Europe/Berlin")
    clock = ManualClock(MONDAY)
    subscriptions = [Subscription("report.*", to=got.append, name="note")]
    team = Team(
        [Agent("triage")],
        model=ScriptedModel({}),
        store=any_store,
        clock=clock,
        schedules=[schedule],
        subscriptions=subscriptions,
    )
    async with team:
        assert await soon(lambda: _noted(team), 20.0)
        await clock.advance(60.0)
        await counted(got, 1)
    assert (got[0].type, got[0].data) == ("report.due", {"kind": "weekly"})


async def test_a_paused_schedule_starts_nothing_but_can_be_run_by_hand(open_team: Opened):
    team, clock, got = await open_team(lambda got: Schedule("hourly", cron="0 * * * *", start=got.append))
    await team.schedules.pause("hourly")
    assert (await team.schedules.list())[0].next_runs == ()
    await clock.advance(2 * HOUR)
    id = await team.schedules.run("hourly")
    await counted(got, 1)
    assert (got[0].id, got[0].data["manual"]) == (id, True)
    assert (await team.schedules.show("hourly")).last_event == id
    assert await soon(lambda: _free(team), 20.0)
    await team.schedules.resume("hourly")
    await clock.advance(HOUR)
    await counted(got, 2)
    assert [event.data["manual"] for event in got] == [True, False]


async def test_a_schedule_with_another_cron_counts_from_now_on(any_store: str | None):
    got: list[BusEvent] = []
    clock = ManualClock(MONDAY)
    for cron in ("0 3 * * *", "0 * * * *"):
        schedule = Schedule("x", cron=cron, start=got.append)
        team = Team([Agent("triage")], model=ScriptedModel({}), store=any_store, clock=clock, schedules=[schedule])
        async with team:
            assert await soon(lambda team=team: _noted(team), 20.0)  # type: ignore[misc]
            await clock.advance(5 * HOUR if cron.startswith("0 3") else 1.0)
            assert got == []


async def test_an_unknown_schedule_is_named_with_those_that_there_are():
    team = Team([Agent("a")], model=ScriptedModel({}), schedules=[Schedule("weekly", cron=WEEKLY, start="a")])
    with pytest.raises(MisconfiguredError, match="no schedule is called 'daily'; this team has: weekly"):
        await team.schedules.run("daily")


@pytest.mark.parametrize(
    ("schedule", "fault"),
    [
        (Schedule("two words", cron=WEEKLY, start="a"), "has an unusable name"),
        (Schedule("x", cron="soon", start="a"), "has cron='soon', which is no cron expression"),
        (Schedule("x", cron=WEEKLY, start="a", timezone="Mars/Base"), "has timezone='Mars/Base'"),
        (Schedule("x", cron=WEEKLY, start="b"), "has start='b', which is no agent or workflow of this team: a"),
        (Schedule("x", cron=WEEKLY, start=Emit("no type")), "has start=Emit(…): 'no type' is no type"),
        (Schedule("x", cron=WEEKLY, start="a", missed="x"), "has missed='x'; choose one of run_once, skip"),  # type: ignore[arg-type]
        (Schedule("x", cron=WEEKLY, start="a", overlap="x"), "has overlap='x'; choose one of skip, queue"),  # type: ignore[arg-type]
        (Schedule("x", cron=WEEKLY, start="a", task="{data.[}"), "has 'data.[' in task"),
    ],
)
def test_a_schedule_that_cannot_work_is_refused_with_its_fault(schedule: Schedule, fault: str):
    with pytest.raises(MisconfiguredError) as refused:
        Team([Agent("a")], model=ScriptedModel({}), schedules=[schedule])
    assert fault in str(refused.value)


async def test_a_workflow_that_is_named_by_its_id_is_shown_as_a_workflow():
    deploy = Workflow("deploy", steps=[WorkflowStep("only", agent="clerk")])
    team = Team(
        [Agent("clerk")],
        model=ScriptedModel({}),
        workflows=[deploy],
        subscriptions=[Subscription("code.pushed", to="deploy"), Subscription("mail.came", to="clerk")],
        schedules=[Schedule("nightly", cron="0 1 * * *", start="deploy")],
    )
    async with team:
        subscribers = await BusConsole(team.bus, team.engine.world).subscribers()
        [nightly] = await ScheduleConsole(team.schedules, team.bus, team.engine.world).all()
    assert {each.to: each.kind for each in subscribers} == {"deploy": "workflow", "clerk": "agent"}
    assert (nightly.start, nightly.kind) == ("deploy", "workflow")
