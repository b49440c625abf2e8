"""Scheduler: stores the events of schedules when they are due; and Schedules, the type of `team.schedules`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from changeover.bus.delivery import DueOutcome, Firing, Publication, ScheduleState
from changeover.bus.schedule import GRACE, Schedule
from changeover.engines.clock import new_id
from changeover.errors import MisconfiguredError
from changeover.relay.ports.lists import ConversationRow
from changeover.relay.ports.log import Log
from changeover.relay.ports.world import Clock, World

logger = logging.getLogger("changeover.bus")

LONGEST = 60.0
"""Seconds after which a scheduler looks at the clock again: the machine may have slept."""
UNDER_WAY = ("running", "waiting", "interrupted")
"""Statuses of conversations whose work has not ended."""


class ScheduleStatus(Struct, frozen=True, kw_only=True):
    """A schedule, its next runs and its last start."""

    schedule: Schedule
    paused: bool = False
    next_runs: tuple[float, ...] = ()
    """Its next due times, in seconds since the epoch; none if it is paused."""
    last_event: str = ""
    """The id of the event of its last start, at a due time or by hand; `team.bus.event` shows it."""


class Schedules:
    """The schedules of a team. `team.schedules` gives them. Methods raise MisconfiguredError for an unknown name."""

    def __init__(self, log: Callable[[], Log], clock: Clock, world: Callable[[], Awaitable[World]]) -> None:
        self._log, self._clock, self._world = log, clock, world

    async def list(self, *, runs: int = 1) -> list[ScheduleStatus]:
        """All schedules, each with this number of next `runs`."""
        world = await self._world()
        known = {each.name: each for each in await self._log().timetable.known(world.roster.team)}
        return [self._status(each, known.get(each.name), runs) for each in world.schedules]

    async def show(self, name: str, *, runs: int = 5) -> ScheduleStatus:
        """The schedule of this `name`, with this number of next `runs`."""
        world, schedule = await self._found(name)
        known = {each.name: each for each in await self._log().timetable.known(world.roster.team)}
        return self._status(schedule, known.get(name), runs)

    async def run(self, name: str) -> str:
        """Start the schedule of this `name` now, even if it is paused; returns the id of the event. It counts as the
        last start; with `overlap="queue"` its work begins when that of the start before has ended."""
        world, schedule = await self._found(name)
        now, team, timetable = self._clock.now(), world.roster.team, self._log().timetable
        await timetable.note(team, name, schedule.plan, now)
        [last] = [each.last_event for each in await timetable.known(team) if each.name == name]
        event = schedule.event(team, now, now, after=last, manual=new_id())
        await timetable.start(name, Publication(team, event, [schedule.subscriber]))
        return event.id

    async def pause(self, name: str) -> None:
        """Start nothing more at the due times of `name`, in all processes, until `resume`."""
        await self._set_paused(name, True)

    async def resume(self, name: str) -> None:
        """End the pause of `name`; due times within the pause are not made up for."""
        await self._set_paused(name, False)

    async def _set_paused(self, name: str, paused: bool) -> None:
        world, schedule = await self._found(name)
        timetable, team, now = self._log().timetable, world.roster.team, self._clock.now()
        await timetable.note(team, name, schedule.plan, now)
        await timetable.pause(team, name, paused, now)

    async def _found(self, name: str) -> tuple[World, Schedule]:
        world = await self._world()
        for each in world.schedules:
            if each.name == name:
                return world, each
        known = ", ".join(each.name for each in world.schedules) or "none"
        raise MisconfiguredError(f"no schedule is called {name!r}; this team has: {known}")

    def _status(self, schedule: Schedule, state: ScheduleState | None, runs: int) -> ScheduleStatus:
        paused = state is not None and state.paused
        upcoming = () if paused else tuple(schedule.next_runs(self._clock.now(), runs))
        last = state.last_event if state else ""
        return ScheduleStatus(schedule=schedule, paused=paused, next_runs=upcoming, last_event=last)


class Scheduler:
    """Handles the due times of a team's schedules. Any number of processes may do so on one store: for each due time,
    one of them stores the event and marks the time as handled, both at once."""

    def __init__(self, log: Callable[[], Log], clock: Clock) -> None:
        self._log, self._clock = log, clock

    async def run(self, world: Callable[[], Awaitable[World]], changed: asyncio.Event) -> None:
        """Handle due times until cancelled; `changed` is set if there may be other schedules."""
        while True:
            changed.clear()
            upcoming = await self.handle(await world(), self._clock.now())
            waits: list[Awaitable[object]] = [changed.wait()]
            if upcoming is not None:
                waits.append(self._clock.alarm(upcoming))
            await first(waits, LONGEST if upcoming is not None else None)

    async def handle(self, world: World, now: float) -> float | None:
        """Handle the schedules that are due by now; returns the next due time, if there is one."""
        team, schedules = world.roster.team, world.schedules
        states = await self._states(team, schedules, now) if schedules else {}
        for schedule in schedules:
            state = states[schedule.name]
            if not state.paused and (due := schedule.due(state.handled, now)) is not None:
                await self._fire(team, schedule, state, due, now)
        return min((at for each in schedules for at in each.next_runs(now)), default=None)

    async def _states(self, team: str, schedules: Sequence[Schedule], now: float) -> dict[str, ScheduleState]:
        """The stored states of these schedules; a new schedule, or one with a new plan, is stored first."""
        timetable = self._log().timetable
        known = {each.name: each for each in await timetable.known(team)}
        new = [each for each in schedules if each.name not in known or known[each.name].plan != each.plan]
        for each in new:
            await timetable.note(team, each.name, each.plan, now)
        return {each.name: each for each in await timetable.known(team)} if new else known

    async def _fire(self, team: str, schedule: Schedule, state: ScheduleState, due: float, now: float) -> None:
        event, outcome = None, await self._outcome(team, schedule, state, now - due)
        if outcome == "started":
            event = schedule.event(team, due, now, after=state.last_event)
        else:
            logger.info("schedule %s: nothing starts, for the due time was %s", schedule.name, outcome)
        firing = Firing(team, schedule.name, state.handled, due, schedule.subscriber, outcome)
        await self._log().timetable.fire(firing, event)

    async def _outcome(self, team: str, schedule: Schedule, state: ScheduleState, late: float) -> DueOutcome:
        """The outcome of a due time that is `late` by this number of seconds."""
        if schedule.missed == "skip" and late > GRACE:
            return "missed"
        if schedule.overlap == "skip" and await is_under_way(self._log(), team, state.last_event):
            return "skipped"
        return "started"


async def is_under_way(log: Log, team: str, event: str) -> bool:
    """True if the work that the event of a schedule started has not ended."""
    for delivery in await log.outbox.deliveries(team, [event]) if event else ():
        if delivery.state == "waiting":
            return True
        conversation = await log.lists.one(ConversationRow, delivery.started) if delivery.started else None
        if conversation is not None and conversation.status in UNDER_WAY:
            return True
    return False


async def first(waits: Sequence[Awaitable[object]], timeout: float | None) -> None:
    """Wait for the first of these, at most `timeout` seconds; then cancel the others."""
    tasks = [asyncio.ensure_future(each) for each in waits]
    try:
        await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
