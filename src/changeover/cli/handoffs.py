"""Command `handoffs`: list and show handoffs, find work that does not progress, and retry or cancel it."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from changeover.cli.exits import Exit, Mistake, add_exits, errors_reported, one_line, say, tell
from changeover.cli.options import (
    ByOption,
    DecisionStoreOption,
    IdArgument,
    JsonLinesOption,
    JsonOption,
    LimitOption,
    OpenStore,
    StoreOption,
    TeamOption,
    WithinOption,
    in_store,
    on_server,
    required_team,
    seconds,
    server_of,
)
from changeover.cli.terminal.help import App, among

if TYPE_CHECKING:
    from rich.console import Console

    from changeover.cli.terminal.stuck_work import StuckWork
    from changeover.relay.ports.lists import HandoffRow, RecordLists
    from changeover.relay.stream import StreamItem

State = Literal["PENDING", "ACCEPTED", "REJECTED", "WORKING", "COMPLETE", "FAILED", "TIMEOUT", "RETURNED"]
HandoffMode = Literal["transfer", "delegate"]

app = App("List and show handoffs; find, retry and cancel stuck ones.")


@app.command("list")
def list_handoffs(
    state: Annotated[
        State | None, typer.Option("--state", "--status", metavar="STATE", case_sensitive=False, help=among(State))
    ] = None,
    mode: Annotated[HandoffMode | None, typer.Option("--mode", metavar="MODE", help=among(HandoffMode))] = None,
    conversation: WithinOption = None,
    *,
    limit: LimitOption = 20,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List handoffs, newest first."""
    from changeover.cli.terminal.render import print_list

    async def find(opened: OpenStore) -> list[HandoffRow]:
        from changeover.relay.ports.lists import HandoffRow

        wanted = {name: value for name, value in (("state", state), ("mode", mode)) if value is not None}
        return await opened.lists.listed(HandoffRow, wanted, conversation, limit=limit + 1)

    print_list(
        in_store(store, find),
        limit,
        as_json,
        lambda row: {
            "handoff": row.id,
            "state": row.state,
            "mode": row.mode,
            "from": row.sender,
            "to": row.receiver,
            "try": str(row.attempt) if row.retry_of else "",
            "message": _message(row),
        },
        "no handoffs",
    )


def _message(row: HandoffRow) -> str:
    """The message of a handoff, the handoff that it retries, and the reason if it failed."""
    after = f" (after {row.retry_of})" if row.retry_of else ""
    return one_line(f"{row.message}{after}{f' ({row.reason})' if row.reason else ''}")


@app.command("show")
def show_handoff(id: IdArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Show a handoff: its message, its variables and its two tasks."""
    from changeover.cli.terminal.render import as_data, as_texts, print_json, print_record

    async def find(opened: OpenStore) -> Any:
        from changeover.relay.ports.lists import HandoffRow

        if (found := await opened.lists.one(HandoffRow, id)) is None:
            raise Mistake(f"there is no handoff {id!r}; see: changeover handoffs list")
        return found

    row = in_store(store, find)
    if as_json:
        print_json(as_data(row))
    else:
        print_record(as_texts(row))


@app.command()
def stuck(
    older: Annotated[
        float, typer.Option("--older", metavar="SECONDS", callback=seconds, help="Only work stuck for that long.")
    ] = 0.0,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, help="The most entries to show, oldest first.")
    ] = 20,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List work that no process owns, why it does not progress, and the command that helps.

    Exit codes: 0 nothing is stuck, 1 something is wrong, 2 wrong use, 3 something is stuck.
    """
    from changeover.cli.terminal.render import warn_of_more

    async def find(opened: OpenStore) -> list[StuckWork]:
        from changeover.cli.terminal.run_report import NextCommands
        from changeover.cli.terminal.stuck_work import find_stuck

        now = time.time()
        commands = NextCommands(os.environ.get("CHANGEOVER_TEAM") or "TEAM", store)
        found = await find_stuck(opened, commands, now)
        return [each for each in found if each.since <= now - older]

    found = in_store(store, find)
    if as_json:
        _print_stuck_json(found[:limit])
    else:
        _print_stuck(found[:limit])
    warn_of_more(found, limit)
    if found:
        raise typer.Exit(Exit.WAITING)


@app.command()
def retry(id: IdArgument, store: StoreOption = None) -> None:
    """Let workers claim the ticket of a handoff again, at once and with its attempts reset."""
    say(in_store(store, lambda opened: _retry(opened, id)))


@app.command()
def cancel(
    id: IdArgument,
    team: TeamOption = None,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="The reason, for the log.")] = "",
    *,
    by: ByOption = None,
    store: DecisionStoreOption = None,
    as_json: JsonLinesOption = False,
) -> None:
    """Cancel a handoff that is under way or waits in the queue.

    If its sender continues, it continues here, or at the server.
    """
    with errors_reported():
        from changeover.cli.teams import working_team
        from changeover.cli.terminal.prompt import user_name
        from changeover.cli.terminal.run_report import NextCommands, RunReport
        from changeover.ids import conversation_of, root_of

        if ":" not in id:
            raise Mistake(f"{id!r} is not the id of a handoff; see: changeover handoffs list")
        named = by if by is not None else user_name()
        if (server := server_of(store)) is not None:
            if not on_server(server, lambda remote: remote.decisions.cancel(id, named, reason)):
                raise Mistake(f"{id} has ended; see: changeover handoffs show {id}")
            say(f"{id} is cancelled")
            return
        address = required_team(team, "only its team knows what follows when a handoff ends")
        found, _ = working_team(address, store)
        conversation = root_of(conversation_of(id))

        async def cancelled() -> AsyncGenerator[StreamItem, None]:
            status = await found.status(id)
            if not await found.cancel(id, by=named, reason=reason):
                own = next((each.state for each in status.chain if each.id == id), status.state)
                raise Mistake(f"{id} has ended: {own}")
            async for item in found.follow(conversation):
                yield item

        report = RunReport(found, NextCommands(address, store), success=("completed", "cancelled"))
        raise typer.Exit(report.run(conversation, cancelled, as_json))


add_exits(cancel)


async def _retry(opened: OpenStore, id: str) -> str:
    """Release a ticket; returns a sentence about it. Raises Mistake if there is no ticket to release."""
    from changeover.ids import worker_of

    found = await opened.work.tickets(id)
    if found and found[0].rests:
        raise Mistake(f"{id} waits for a person or a delegate, not for a worker; see: changeover approvals list")
    if not found or not await opened.work.retry(id):
        raise Mistake(await _why_no_ticket(opened.lists, id))
    taken = f"was taken from {worker_of(found[0].owner)}; it " if found[0].owner else ""
    return f"{id} {taken}waits for a worker of {found[0].ticket.agent}, and its attempts are reset"


async def _why_no_ticket(lists: RecordLists, id: str) -> str:
    from changeover.ids import split_handoff, task_id
    from changeover.relay.ports.lists import HandoffRow, TaskRow

    row = await lists.one(HandoffRow, id)
    if row is not None and row.ended_at is None and row.state in ("PENDING", "ACCEPTED", "WORKING"):
        return f"{id} is {row.state} and does not wait for a worker; see: changeover handoffs stuck"
    if row is not None:
        why = f" ({row.reason})" if row.reason else ""
        return f"{id} has ended: {row.state}{why}; to have it done after all, hand it over again"
    task = await lists.one(TaskRow, task_id(*split_handoff(id)))
    if task is not None:
        return f"{id} has ended: {task.status}"
    return f"there is no handoff {id!r}; see: changeover handoffs list"


def _print_stuck_json(found: list[StuckWork]) -> None:
    import msgspec

    from changeover.cli.terminal.render import json_time, print_json

    print_json([{**msgspec.to_builtins(each), "since": json_time(each.since)} for each in found])


def _print_stuck(found: list[StuckWork]) -> None:
    from changeover.cli.exits import console

    if not found:
        tell("nothing is stuck")
    out = console()
    for each in found:
        _print_one(out, each)


def _print_one(out: Console, each: StuckWork) -> None:
    from rich.text import Text

    from changeover.cli.terminal.render import when

    about = Text(f"  {each.kind} for {one_line(each.agent)}, since {when(each.since)}", "dim")
    out.print(Text.assemble((one_line(each.id), "bold"), about), soft_wrap=True)
    why = Text(f"  {one_line(each.why)}", "yellow")
    for line in why.wrap(out, out.width) if out.is_terminal else [why]:
        out.print(line, soft_wrap=True)
    out.print(Text(f"    {one_line(each.what_to_do)}"), soft_wrap=True)
