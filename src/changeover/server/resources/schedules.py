"""Schedules: work that starts at set times; each can be run now, paused and resumed."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from changeover.bus.views import ScheduleView
from changeover.dispatch.console import ScheduleConsole
from changeover.server.access import Caller
from changeover.server.problems import Problem
from changeover.server.resource import Id, Resource, Served, Who, audited
from changeover.server.resources.bus import event_for
from changeover.server.wire import Json, Page
from changeover.team import Team

resource = Resource("schedules")

NOT_FOUND = {404: "There is no such schedule"}


class ScheduleStart(Struct, frozen=True):
    """The event of a start by hand."""

    event: str


@resource.route("GET /schedules", Page[ScheduleView])
async def list_schedules(team: Served, who: Who) -> Json:
    """The schedules, each with its next run and the outcome of its last run."""
    return Json(Page(await CallersSchedules(team, who).all()))


@resource.route("POST /schedules/{id}/run", {201: ScheduleStart}, refusals=NOT_FOUND)
async def run_schedule(id: Id, team: Served, who: Who) -> Json:
    """Start a schedule now, even if it is paused; its due times stay as they are."""
    schedules = await _known(team, who, id)
    return Json(ScheduleStart(await schedules.run(id)), 201)


@resource.route("POST /schedules/{id}/pause", ScheduleView, refusals=NOT_FOUND)
async def pause_schedule(id: Id, team: Served, who: Who) -> Json:
    """Start nothing at due times, in all processes, until it is resumed."""
    schedules = await _known(team, who, id)
    await schedules.pause(id)
    return Json(await schedules.one(id))


@resource.route("POST /schedules/{id}/resume", ScheduleView, refusals=NOT_FOUND)
async def resume_schedule(id: Id, team: Served, who: Who) -> Json:
    """End a pause; due times within the pause are not made up for."""
    schedules = await _known(team, who, id)
    await schedules.resume(id)
    return Json(await schedules.one(id))


@resource.route("GET /schedules/{id}", ScheduleView, refusals=NOT_FOUND)
async def read_schedule(id: Id, team: Served, who: Who) -> Json:
    """A schedule with its next runs."""
    schedules = await _known(team, who, id)
    return Json(await schedules.one(id))


async def _known(team: Team, who: Caller, id: str) -> CallersSchedules:
    """The schedules, if one of them is called this; raises Problem."""
    names = [each.schedule.name for each in await team.schedules.list()]
    if id not in names:
        known = ", ".join(names) or "none"
        raise Problem(404, f"no schedule is called {id!r}; this team has: {known}", kind="schedule-not-found")
    return CallersSchedules(team, who)


class CallersSchedules:
    """The schedules for one caller, whose changes are audited."""

    def __init__(self, team: Team, who: Caller) -> None:
        self._team, self._who, self._console = team, who, ScheduleConsole(team.schedules, team.bus, team.engine.world)

    async def all(self) -> list[ScheduleView]:
        return [self._shown(each) for each in await self._console.all()]

    async def one(self, name: str) -> ScheduleView:
        return self._shown(await self._console.one(name))

    async def run(self, name: str) -> str:
        await audited(self._team, self._who, "schedule.run", name)
        return await self._console.run(name)

    async def pause(self, name: str) -> None:
        await audited(self._team, self._who, "schedule.pause", name)
        await self._console.pause(name)

    async def resume(self, name: str) -> None:
        await audited(self._team, self._who, "schedule.resume", name)
        await self._console.resume(name)

    def _shown(self, schedule: ScheduleView) -> ScheduleView:
        return replace(schedule, last=event_for(self._who, schedule.last)) if schedule.last else schedule
