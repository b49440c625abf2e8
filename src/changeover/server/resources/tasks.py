"""Tasks: one agent's part of a run, and messages, calls and results of it."""

from __future__ import annotations

from changeover.ids import split_task
from changeover.relay.ports.lists import MessageRow, TaskRow
from changeover.server.access import Caller
from changeover.server.problems import Problem
from changeover.server.resource import Filter, Id, Part, Resource, Served, Who, listed, seen
from changeover.server.wire import Json, Page
from changeover.team import Team

resource = Resource("tasks")

NOT_FOUND = {404: "There is no such task"}


@resource.route("GET /tasks", Page[TaskRow])
async def list_tasks(  # noqa: PLR0913 - each is a parameter of the query
    team: Served,
    who: Who,
    part: Part,
    *,
    status: Filter = None,
    agent: Filter = None,
    conversation: Filter = None,
    user: Filter = None,
) -> Json:
    """The tasks of all conversations, the newest first; of one conversation with its delegates if it is named."""
    wanted = {"status": status, "agent": agent, "user": user}
    return await listed(team, who, TaskRow, wanted, part, within=conversation)


@resource.route("GET /tasks/{id:path}/messages", Page[MessageRow], refusals=NOT_FOUND)
async def task_messages(id: Id, team: Served, who: Who, part: Part, kind: Filter = None) -> Json:
    """The messages of a task, in order."""
    await _task(team, who, id)
    return await listed(team, who, MessageRow, {"task_id": id, "kind": kind}, part)


@resource.route("GET /tasks/{id:path}", TaskRow, refusals=NOT_FOUND)
async def read_task(id: Id, team: Served, who: Who) -> Json:
    """A task."""
    return Json(await _task(team, who, id))


async def _task(team: Team, who: Caller, id: str) -> TaskRow:
    missing = Problem(404, f"no task has the id {id!r}", kind="task-not-found")
    await seen(team, who, split_task(id)[0], missing)
    if (row := await team.log.lists.one(TaskRow, id)) is None:
        raise missing
    return row
