"""Commands `handoffs stuck|retry|cancel`: find work that does not progress, and retry or cancel it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from changeover.cli.approvals import ByOption, DecidingTeam
from changeover.cli.conversations import IdArgument
from changeover.cli.exits import EXITS, Exit, Mistake, plainly, tell
from changeover.cli.options import JsonOption, StoreOption, TeamStoreOption, seconds, store_of

if TYPE_CHECKING:
    from rich.console import Console

    from changeover.cli.terminal.stuck_work import Stuck
    from changeover.relay.ports import Log
    from changeover.stores.views import Views
    from changeover.team import Team

T = TypeVar("T")


def stuck(
    older: Annotated[
        float, typer.Option("--older", metavar="SECONDS", callback=seconds, help="Only what is stuck for so long.")
    ] = 0.0,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many at most, oldest first.")] = 20,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what has no owner and does not move by itself, why, and what to do about it.

    Exit codes: 0 nothing is stuck, 1 it cannot be known, 2 wrong use, 3 something is stuck.
    """
    found = at_store(store, lambda log, views: _found(log, views, older, store))
    if as_json:
        _print_json(found[:limit])
    else:
        _print(found[:limit])
    if len(found) > limit:
        tell(f"There are more than {limit}: --limit shows more of them.")
    if found:
        raise typer.Exit(Exit.WAITING)


def retry(id: IdArgument, store: StoreOption = None) -> None:
    """Let workers take a handoff's ticket again, now and as if nobody ever had."""
    typer.echo(at_store(store, lambda log, views: _retried(log, views, id)))


def cancel(
    id: IdArgument,
    team: DecidingTeam = None,
    reason: Annotated[str, typer.Option("--reason", help="Why, for the log.", show_default=False)] = "",
    *,
    by: ByOption = None,
    store: TeamStoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """End a handoff that is under way, or that waits in the queue. Where its sender goes on, it does so here."""
    if team is None:
        raise typer.BadParameter(
            "what follows when a handoff ends, only its team knows: give it as --team TEAM, or set CHANGEOVER_TEAM",
            param_hint="--team",
        )
    with plainly():
        from changeover.cli.run import resumed
        from changeover.cli.teams import working_team
        from changeover.cli.terminal.prompt import user_name
        from changeover.cli.terminal.run_report import Place, finish, told
        from changeover.facts import RunResult

        found, _ = working_team(team, store)

        async def ended() -> RunResult:
            await _cancel(found, id, by if by is not None else user_name(), reason)
            return await resumed(found, id.partition(":")[0].partition("/")[0])

        finish(asyncio.run(told(found, ended, Place(team, store), as_json, fine=("completed", "cancelled"))))


cancel.__doc__ = f"{cancel.__doc__}\n\n{EXITS}"


async def _cancel(team: Team, id: str, by: str, reason: str) -> None:
    if ":" not in id:
        raise Mistake(f"{id!r} is no id of a handoff; see: changeover handoffs list")
    status = await team.status(id)
    if not await team.cancel(id, by=by, reason=reason):
        raise Mistake(f"{id} is over: {status.state}")


async def _found(log: Log, views: Views, least: float, store: str | None) -> list[Stuck]:
    from changeover.cli.terminal.run_report import Place
    from changeover.cli.terminal.stuck_work import all_stuck, older

    now = time.time()
    place = Place(os.environ.get("CHANGEOVER_TEAM") or "TEAM", store)
    return older(await all_stuck(log, views, place, now), least, now)


async def _retried(log: Log, views: Views, id: str) -> str:
    """Who had it, and who may take it now; raises Mistake if there is nothing to take."""
    from changeover.engines.local import tickets
    from changeover.relay.queue import worker_of

    found = await log.queue.tickets(id)
    if found and found[0].rests:
        raise Mistake(f"{id} waits for a person or a delegate, and for no worker; see: changeover approvals list")
    if not found or not await tickets.retry(log, id):
        raise Mistake(await _why_not(views, id))
    had = f"{worker_of(found[0].owner)} has {id} no longer: it" if found[0].owner else id
    return f"{had} waits for a worker of {found[0].ticket.agent}, as if nobody had ever taken it"


async def _why_not(views: Views, id: str) -> str:
    """Why there is no ticket of this id."""
    from changeover.relay.lists import HandoffRow, TaskRow

    row = await views.one(HandoffRow, id)
    if row is not None and row.ended_at is None and row.state in ("PENDING", "ACCEPTED", "WORKING"):
        return f"{id} is {row.state}, and waits for no worker; see: changeover handoffs stuck"
    if row is not None:
        why = f" ({row.reason})" if row.reason else ""
        return f"{id} is over: {row.state}{why}; to have it done after all, hand it over again"
    conversation, _, position = id.rpartition(":")
    task = await views.one(TaskRow, f"{conversation}#{position}")
    if task is not None:
        return f"{id} is over: {task.status}"
    return f"there is no handoff {id!r}; see: changeover handoffs list"


def at_store(store: str | None, work: Callable[[Log, Views], Awaitable[T]]) -> T:
    """Do something in the store that is meant."""
    with plainly():
        from changeover.stores.store import open_log
        from changeover.stores.views import open_views

        async def done() -> T:
            with closing(open_views(chosen := store_of(store))) as views:
                log = open_log(chosen)
                try:
                    return await work(log, views)
                finally:
                    await log.close()

        return asyncio.run(done())
    raise AssertionError("it returns or raises")


def _print_json(found: list[Stuck]) -> None:
    import msgspec

    from changeover.cli.terminal.render import json_time, print_json

    print_json([{**msgspec.to_builtins(each), "since": json_time(each.since)} for each in found])


def _print(found: list[Stuck]) -> None:
    from changeover.cli.terminal.render import console

    if not found:
        tell("nothing is stuck")
    out = console()
    for each in found:
        _print_one(out, each)


def _print_one(out: Console, each: Stuck) -> None:
    from rich.text import Text

    from changeover.cli.terminal.render import line_of, when

    about = Text(f"  {each.kind} for {each.agent}, since {when(each.since)}", "dim")
    out.print(Text.assemble((each.id, "bold"), about), soft_wrap=True)
    why = Text(f"  {line_of(each.why)}", "yellow")
    for line in why.wrap(out, out.width) if out.is_terminal else [why]:
        out.print(line, soft_wrap=True)
    out.print(Text(f"    {each.what_to_do}"), soft_wrap=True)
