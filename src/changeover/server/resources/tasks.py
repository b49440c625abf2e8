"""Tasks: one agent's part of a run, with its messages."""

from __future__ import annotations

from changeover.relay.lists import MessageRow, TaskRow
from changeover.server.problems import Problem
from changeover.server.resource import DEFAULT_LIMIT, Id, Limit, Resource, Served, given
from changeover.server.wire import Json
from changeover.team import Team

resource = Resource("tasks")

NOT_FOUND = {404: "There is no such task"}


@resource.route("GET /tasks", list[TaskRow])
async def list_tasks(
    team: Served, status: str | None = None, agent: str | None = None, limit: Limit = DEFAULT_LIMIT
) -> Json:
    """The newest tasks."""
    return Json(await team.log.lists.listed(TaskRow, given(status=status, agent=agent), limit=limit))


@resource.route("GET /tasks/{id:path}/messages", list[MessageRow], refusals=NOT_FOUND)
async def task_messages(id: Id, team: Served, limit: Limit = DEFAULT_LIMIT) -> Json:
    """The messages of a task, in order."""
    await _task(team, id)
    return Json(await team.log.lists.listed(MessageRow, {"task_id": id}, limit=limit))


@resource.route("GET /tasks/{id:path}", TaskRow, refusals=NOT_FOUND)
async def read_task(id: Id, team: Served) -> Json:
    """A task."""
    return Json(await _task(team, id))


async def _task(team: Team, id: str) -> TaskRow:
    if (row := await team.log.lists.one(TaskRow, id)) is None:
        raise Problem(404, f"no task has the id {id!r}", kind="task-not-found")
    return row
