"""Commands `conversations`, `tasks` and `handoffs list|show`, and the list output other commands share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from changeover.cli.exits import Mistake, plainly, tell
from changeover.cli.options import JsonOption, LimitOption, StoreOption, WithinOption, store_of

if TYPE_CHECKING:
    from changeover.relay.lists import ConversationRow, HandoffRow, TaskRow
    from changeover.stores.views import Views

T = TypeVar("T")
Standing = Literal["running", "waiting", "completed", "failed", "cancelled"]
TaskStatus = Literal["pending", "running", "waiting", "completed", "failed", "cancelled"]
HandoffState = Literal["PENDING", "ACCEPTED", "REJECTED", "WORKING", "COMPLETE", "FAILED", "TIMEOUT", "RETURNED"]
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="As the list shows it.", show_default=False)]
AgentOption = Annotated[str | None, typer.Option("--agent", metavar="ID", help="Only of this.", show_default=False)]

MOST_HANDOFFS = 10_000

tasks = typer.Typer(help="Tasks: each agent's leg of a run.", no_args_is_help=True)
handoffs = typer.Typer(help="Handoffs: who passed work to whom, and why.", no_args_is_help=True)


def conversations(
    status: Annotated[Standing | None, typer.Option("--status", show_default=False)] = None,
    delegates: Annotated[bool, typer.Option("--delegates", help="Those of delegates too.")] = False,
    limit: LimitOption = 20,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List conversations: who answers now, how each stands, how many handoffs were made in it in all."""
    from changeover.cli.terminal.render import when

    wanted = {"status": status}

    async def find(views: Views) -> list[Any]:
        from changeover.relay.lists import ConversationRow

        rows = await views.listed(ConversationRow, given(wanted), limit=limit + 1, roots=not delegates)
        return [await _with_handoffs(views, row) for row in rows]

    show_list(
        look(store, find),
        limit,
        as_json,
        lambda row: {
            "conversation": row.id,
            "status": row.status,
            "agent": row.agent,
            "handoffs": str(row.handoffs),
            "updated": when(row.updated_at),
        },
        "no conversations",
    )


async def _with_handoffs(views: Views, row: ConversationRow) -> ConversationRow:
    """The same with all handoffs that were made in it and below it; its own count is what limits need of one run."""
    from msgspec.structs import replace

    from changeover.relay.lists import HandoffRow

    offered = await views.listed(HandoffRow, within=row.id, limit=MOST_HANDOFFS)
    return replace(row, handoffs=sum(each.accepted_at is not None for each in offered))


@tasks.command("list")
def list_tasks(
    status: Annotated[TaskStatus | None, typer.Option("--status", show_default=False)] = None,
    agent: AgentOption = None,
    conversation: WithinOption = None,
    *,
    limit: LimitOption = 20,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List tasks, newest first."""
    from changeover.cli.terminal.render import line_of, when

    async def find(views: Views) -> list[TaskRow]:
        from changeover.relay.lists import TaskRow

        wanted = given({"status": status, "agent": agent})
        return await views.listed(TaskRow, wanted, conversation, limit + 1)

    show_list(
        look(store, find),
        limit,
        as_json,
        lambda row: {
            "task": row.id,
            "status": row.status,
            "agent": row.agent,
            "created": when(row.created_at),
            "input": line_of(row.input),
        },
        "no tasks",
    )


@tasks.command("show")
def show_task(id: IdArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Show a task with its context, its output and all that was said and done in it."""

    async def find(views: Views) -> tuple[Any, list[Any]]:
        from changeover.relay.lists import MessageRow, TaskRow

        if (found := await views.one(TaskRow, id)) is None:
            raise Mistake(f"there is no task {id!r}; see: changeover tasks list")
        return found, await views.listed(MessageRow, {"task_id": id}, limit=10_000)

    from changeover.cli.terminal.render import print_json, print_record, print_table

    row, said = look(store, find)
    if as_json:
        print_json({**as_data(row), "messages": [as_data(each) for each in said]})
        return
    print_record(fields_of(row))
    typer.echo("")
    print_table([_message(each) for each in said], "nothing was said or done in it")


@handoffs.command("list")
def list_handoffs(
    state: Annotated[HandoffState | None, typer.Option("--state", "--status", case_sensitive=False)] = None,
    mode: Annotated[Literal["transfer", "delegate"] | None, typer.Option("--mode", show_default=False)] = None,
    conversation: WithinOption = None,
    *,
    limit: LimitOption = 20,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List handoffs, newest first."""

    async def find(views: Views) -> list[HandoffRow]:
        from changeover.relay.lists import HandoffRow

        return await views.listed(HandoffRow, given({"state": state, "mode": mode}), conversation, limit + 1)

    show_list(
        look(store, find),
        limit,
        as_json,
        lambda row: {
            "handoff": row.id,
            "state": row.state,
            "mode": row.mode,
            "from": row.sender,
            "to": row.receiver,
            "try": str(row.attempt) if row.retry_of else "",
            "message": _told(row),
        },
        "no handoffs",
    )


def _told(row: HandoffRow) -> str:
    """What a handoff says, which one it follows, and why it came to nothing."""
    from changeover.cli.terminal.render import line_of

    after = f" (after {row.retry_of})" if row.retry_of else ""
    return line_of(f"{row.message}{after}{f' ({row.reason})' if row.reason else ''}")


@handoffs.command("show")
def show_handoff(id: IdArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Show a handoff with its message, its variables and its two tasks."""

    async def find(views: Views) -> Any:
        from changeover.relay.lists import HandoffRow

        if (found := await views.one(HandoffRow, id)) is None:
            raise Mistake(f"there is no handoff {id!r}; see: changeover handoffs list")
        return found

    from changeover.cli.terminal.render import print_json, print_record

    row = look(store, find)
    if as_json:
        print_json(as_data(row))
    else:
        print_record(fields_of(row))


def look(store: str | None, find: Callable[[Views], Awaitable[T]]) -> T:
    """What is found in the store that is meant."""
    with plainly():
        from changeover.stores.views import open_views

        async def looking() -> T:
            with closing(open_views(store_of(store))) as views:
                return await find(views)

        return asyncio.run(looking())
    raise AssertionError("it returns or raises")


def given(wanted: Mapping[str, str | None]) -> dict[str, str]:
    """Only the filters that were given."""
    return {name: value for name, value in wanted.items() if value is not None}


def show_list(rows: list[Any], limit: int, as_json: bool, shown: Callable[[Any], dict[str, str]], nothing: str) -> None:
    """A list, and a word about what it leaves out."""
    from changeover.cli.terminal.render import print_json, print_table

    if as_json:
        print_json([as_data(row) for row in rows[:limit]])
    else:
        print_table(filled([shown(row) for row in rows[:limit]]), nothing)
    if len(rows) > limit:
        tell(f"There are more than {limit}: --limit shows more of them.")


def filled(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """The same without columns that say nothing in any row."""
    telling = {name for row in rows for name, value in row.items() if value}
    return [{name: value for name, value in row.items() if name in telling} for row in rows]


def as_data(row: Any) -> dict[str, Any]:
    """A record for programs."""
    from changeover.cli.terminal.render import json_time

    return {name: json_time(value) if _is_time(name) else value for name, value in _pairs(row) if name != "turns"}


def fields_of(row: Any) -> dict[str, str]:
    """A record for people."""
    import json

    from changeover.cli.terminal.render import clean, when

    shown: dict[str, str] = {}
    for name, value in _pairs(row):
        if _is_time(name):
            shown[name] = when(value)
        elif isinstance(value, dict):
            shown[name] = clean(json.dumps(value, ensure_ascii=False)) if value else ""
        else:
            shown[name] = "" if value is None else clean(str(value))
    return shown


def _message(row: Any) -> dict[str, str]:
    from changeover.cli.terminal.render import clean, when

    return {"at": when(row.at), "kind": row.kind, "by": row.agent or "", "content": clean(row.content)}


def _pairs(row: Any) -> Iterable[tuple[str, Any]]:
    return ((name, getattr(row, name)) for name in row.__struct_fields__)


def _is_time(name: str) -> bool:
    return name in ("at", "deadline") or name.endswith("_at")
