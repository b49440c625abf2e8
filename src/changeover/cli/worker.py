"""Command `worker`: start a process that claims and performs tickets for agents with `pull`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from changeover.cli.exits import Mistake, errors_reported, tell
from changeover.cli.options import LogFormatOption, TeamArgument, TeamStoreOption, observed, positive_seconds, seconds

if TYPE_CHECKING:
    from changeover.team import Team


def worker(  # noqa: PLR0913 - each is a declared option
    team: TeamArgument,
    *,
    agents: Annotated[
        str | None,
        typer.Option(
            "--agents", metavar="ID,ID", help="The agents to serve. Default: all with pull=True.", show_default=False
        ),
    ] = None,
    concurrency: Annotated[
        int, typer.Option("--concurrency", metavar="N", min=1, help="The most tickets to work on at once.")
    ] = 4,
    lease: Annotated[
        float,
        typer.Option(
            "--lease",
            metavar="SECONDS",
            callback=positive_seconds,
            help="After this time without renewal, other workers may claim its tickets.",
        ),
    ] = 60.0,
    grace: Annotated[
        float,
        typer.Option(
            "--grace", metavar="SECONDS", callback=seconds, help="How long it may go on working after it is stopped."
        ),
    ] = 30.0,
    name: Annotated[
        str,
        typer.Option(
            "--name", metavar="NAME", help="Its name in the log. Default: host and process.", show_default=False
        ),
    ] = "",
    drain: Annotated[bool, typer.Option("--drain", "--once", help="Exit when nothing is left to claim.")] = False,
    store: TeamStoreOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")] = False,
    log_format: LogFormatOption = None,
) -> None:
    """Claim tickets of agents and work on them.

    Any number of workers may share a store.

    SIGTERM or Ctrl-C: it stops claiming, finishes its tickets, and gives back those that are unfinished after --grace.

    A second signal: it gives them back at once.

    Exit codes: 0 it was stopped or has drained the queue, 1 something is wrong, 2 wrong use.
    """
    import asyncio

    with errors_reported():
        from changeover.cli.teams import working_team
        from changeover.cli.terminal.worker_process import WorkerProcess
        from changeover.stores.memory.log import MemoryLog
        from changeover.stores.store import database_of

        found, where = working_team(team, store)
        if isinstance(found.declared.store, MemoryLog):
            raise Mistake(f"{team} keeps its conversations in memory, which other processes cannot reach; give --store")
        found = observed(found, log_format)
        served = _named(agents) if agents is not None else _pulled(found, team)
        terms = {"concurrency": concurrency, "lease": lease, "grace": grace, "name": name}
        shown = database_of(where).shown if where else ""
        asyncio.run(WorkerProcess(found, served, terms, shown, as_json).serve(drain))


def _named(agents: str) -> list[str]:
    found = list(dict.fromkeys(each.strip() for each in agents.split(",") if each.strip()))
    if not found:
        raise typer.BadParameter("it names no agent; give ids, as in billing,research", param_hint="--agents")
    return found


def _pulled(team: Team, address: str) -> list[str]:
    """The agents with `pull` that a worker can serve; raises Mistake if no agent has it."""
    pulled = [id for id in team.roster.seats if team.roster.pulls(id)]
    served = [id for id in pulled if team.thinks(id)]
    if not pulled:
        raise Mistake(
            f"no agent of {address} is served by workers: declare one with pull=True (in YAML: pull: true),"
            f" or name the agents to serve by --agents"
        )
    if served and (alone := [id for id in pulled if id not in served]):
        tell(f"Not served: {', '.join(alone)}. Agents without a model need a program that claims their tickets.")
    return served or pulled
