"""Schedules: what starts at which times; each can be run now, paused and resumed."""

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
    """The schedules, each with its next run and what its last one became."""
    return Json(Page([_view_for(who, each) for each in await _console(team).all()]))


@resource.route("POST /schedules/{id}/run", {201: ScheduleStart}, refusals=NOT_FOUND)
async def run_schedule(id: Id, team: Served, who: Who) -> Json:
    """Start a schedule now, also while it is paused; its due times stay as they are."""
    console = await _changing(team, who, id, "run")
    return Json(ScheduleStart(await console.run(id)), 201)


@resource.route("POST /schedules/{id}/pause", ScheduleView, refusals=NOT_FOUND)
async def pause_schedule(id: Id, team: Served, who: Who) -> Json:
    """Start nothing at due times, in all processes, until it is resumed."""
    console = await _changing(team, who, id, "pause")
    await console.pause(id)
    return Json(_view_for(who, await console.one(id)))


@resource.route("POST /schedules/{id}/resume", ScheduleView, refusals=NOT_FOUND)
async def resume_schedule(id: Id, team: Served, who: Who) -> Json:
    """End a pause; what was due in it is not made up for."""
    console = await _changing(team, who, id, "resume")
    await console.resume(id)
    return Json(_view_for(who, await console.one(id)))


@resource.route("GET /schedules/{id}", ScheduleView, refusals=NOT_FOUND)
async def read_schedule(id: Id, team: Served, who: Who) -> Json:
    """A schedule with its next runs."""
    await _check(team, id)
    return Json(_view_for(who, await _console(team).one(id)))


async def _changing(team: Team, who: Caller, id: str, action: str) -> ScheduleConsole:
    await _check(team, id)
    await audited(team, who, f"schedule.{action}", id)
    return _console(team)


async def _check(team: Team, id: str) -> None:
    names = [each.schedule.name for each in await team.schedules.list()]
    if id not in names:
        known = ", ".join(names) or "none"
        raise Problem(404, f"no schedule is called {id!r}; this team has: {known}", kind="schedule-not-found")


def _console(team: Team) -> ScheduleConsole:
    return ScheduleConsole(team.schedules, team.bus)


def _view_for(who: Caller, schedule: ScheduleView) -> ScheduleView:
    return replace(schedule, last=event_for(who, schedule.last)) if schedule.last else schedule
