"""The figures of the bus and of schedules, as Prometheus and OpenTelemetry show them."""

from changeover import Agent, Team
from changeover.bus import BusEvent, Schedule
from changeover.observe.readings import snapshot
from changeover.stores.memory.log import MemoryLog
from changeover.testing import ManualClock, ScriptedModel
from tests.public_api import soon


async def test_deliveries_dead_letters_and_starts_are_counted(any_store: str | None):
    got: list[BusEvent] = []
    clock = ManualClock(1.9e9)
    schedule = Schedule("often", cron="* * * * *", start=got.append)
    team = Team([Agent("a")], model=ScriptedModel({}), store=any_store, clock=clock, schedules=[schedule])

    @team.bus.on("number", name="halve", tries=1)
    async def halve(event: BusEvent) -> None:
        assert event.data % 2 == 0

    async with team:
        for number in (1, 2, 4):
            await team.bus.publish("number", number)

        async def over() -> bool:
            found = await team.bus.backlog()
            return [(each.waiting, each.dead) for each in found] == [(0, 1)] and bool(
                await team.log.timetable.known(team.name)
            )

        assert await soon(over, 20.0)
        await clock.advance(60.0)

        async def started() -> bool:
            return team.log.traffic.deliveries["schedule often", "done"] == 1

        assert await soon(started, 20.0)
        found = await snapshot(team.log, await team.engine.world(), clock.now())
    values = found.values()
    assert dict(values["bus.dead"]) == {("halve",): 1}
    assert values["bus.deliveries"] == {("halve", "done"): 2, ("halve", "dead"): 1, ("schedule often", "done"): 1}
    assert values["bus.published"] == {(): 4}
    assert values["schedules.starts"] == {("often",): 1}
    assert values["bus.oldest"] == {}
    assert found.traffic.delay.count == 4


async def test_a_subscriber_that_the_team_does_not_declare_has_no_label_of_its_own():
    log = MemoryLog()
    for number in range(100):
        await log.outbox.publish("default", BusEvent(id=str(number), type="a"), [f"gone-{number}"])
        log.traffic.deliveries[f"gone-{number}", "done"] += 1
        log.traffic.due_times[f"gone-{number}", "started"] += 1
    team = Team([Agent("a")], model=ScriptedModel({}), store=log)
    values = (await snapshot(log, await team.engine.world(), 1.0)).values()
    assert values["bus.waiting"] == {("other",): 100}
    assert values["bus.deliveries"] == {("other", "done"): 100}
    assert values["schedules.starts"] == {("other",): 100}
    await team.close()
