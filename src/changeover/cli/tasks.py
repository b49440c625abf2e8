"""Command `tasks`: list the tasks of a store, and show one with its messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from changeover.cli.exits import Mistake, one_line
from changeover.cli.options import (
    ALL_ROWS,
    IdArgument,
    JsonOption,
    LimitOption,
    OpenStore,
    StoreOption,
    WithinOption,
    in_store,
)
from changeover.cli.terminal.help import App, among

if TYPE_CHECKING:
    from changeover.relay.ports.lists import TaskRow

Status = Literal["pending", "running", "interrupted", "waiting", "completed", "failed", "cancelled"]

app = App("List and show tasks: the work of one agent within a run.")


@app.command("list")
def list_tasks(
    status: Annotated[
        Status | None, typer.Option("--status", metavar="STATUS", help=f"Only tasks with this status. {among(Status)}")
    ] = None,
    agent: Annotated[str | None, typer.Option("--agent", metavar="ID", help="Only tasks of this agent.")] = None,
    conversation: WithinOption = None,
    *,
    limit: LimitOption = 20,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List tasks, newest first."""
    from changeover.cli.terminal.render import print_list, when

    async def find(opened: OpenStore) -> list[TaskRow]:
        from changeover.relay.ports.lists import TaskRow

        wanted = {name: value for name, value in (("status", status), ("agent", agent)) if value is not None}
        return await opened.lists.listed(TaskRow, wanted, conversation, limit=limit + 1)

    print_list(
        in_store(store, find),
        limit,
        as_json,
        lambda row: {
            "task": row.id,
            "status": row.status,
            "agent": row.agent,
            "created": when(row.created_at),
            "input": one_line(row.input),
        },
        "no tasks",
    )


@app.command("show")
def show_task(id: IdArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Show a task: its context, its output and all its messages."""
    from changeover.cli.terminal.render import as_data, as_texts, print_json, print_record, print_table, when

    async def find(opened: OpenStore) -> tuple[Any, list[Any]]:
        from changeover.relay.ports.lists import MessageRow, TaskRow

        if (found := await opened.lists.one(TaskRow, id)) is None:
            raise Mistake(f"there is no task {id!r}; see: changeover tasks list")
        return found, await opened.lists.listed(MessageRow, {"task_id": id}, limit=ALL_ROWS)

    row, messages = in_store(store, find)
    if as_json:
        print_json({**as_data(row), "messages": [as_data(each) for each in messages]})
        return
    print_record(as_texts(row))
    typer.echo("")
    print_table(
        [
            {"at": when(each.at), "kind": each.kind, "by": each.agent or "", "content": each.content}
            for each in messages
        ],
        "this task has no messages",
    )
