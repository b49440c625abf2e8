"""Command `worker`: start a process that claims and performs tickets for agents with `pull`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from changeover.cli.exits import Mistake, plainly, tell
from changeover.cli.options import TeamArgument, TeamStoreOption, seconds, some_seconds

if TYPE_CHECKING:
    from changeover.team import Team


def worker(  # noqa: PLR0913 - each is a declared option
    team: TeamArgument,
    *,
    agents: Annotated[
        str | None,
        typer.Option(
            "--agents", metavar="ID,ID", help="Whom to serve. Without it: all with pull=True.", show_default=False
        ),
    ] = None,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, help="How many tickets at once.")] = 4,
    lease: Annotated[
        float,
        typer.Option(
            "--lease",
            metavar="SECONDS",
            callback=some_seconds,
            help="How long a ticket stays its own if it dies; it is renewed while it lives.",
        ),
    ] = 60.0,
    grace: Annotated[
        float,
        typer.Option(
            "--grace", metavar="SECONDS", callback=seconds, help="How long it may finish work once it is stopped."
        ),
    ] = 30.0,
    name: Annotated[
        str, typer.Option("--name", help="As it is named in the log. Without it: host and process.", show_default=False)
    ] = "",
    drain: Annotated[bool, typer.Option("--drain", "--once", help="End when nothing is left to claim.")] = False,
    store: TeamStoreOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, an object a line.")] = False,
) -> None:
    """Work on what waits to be claimed. Any number of workers may share a store.

    SIGTERM or Ctrl-C: it claims nothing more, and finishes what it has or, when --grace is over, gives it back.

    A second one has it give back at once.

    Exit codes: 0 it was stopped or has drained the queue, 1 something is wrong, 2 wrong use.
    """
    import asyncio

    with plainly():
        from changeover.cli.teams import working_team
        from changeover.cli.terminal.worker_process import Serving
        from changeover.stores.memory.log import MemoryLog
        from changeover.stores.store import database_of

        found, where = working_team(team, store)
        if isinstance(found.declared.store, MemoryLog):
            raise Mistake(f"{team} keeps its conversations in memory, where nobody can leave work; give --store URL")
        served = _named(agents) if agents is not None else _pulled(found, team)
        terms = {"concurrency": concurrency, "lease": lease, "grace": grace, "name": name}
        shown = database_of(where).shown if where else ""
        asyncio.run(Serving(found, served, terms, shown, as_json).serve(drain))


def _named(agents: str) -> list[str]:
    found = list(dict.fromkeys(each.strip() for each in agents.split(",") if each.strip()))
    if not found:
        raise typer.BadParameter("it names nobody; give ids, as in billing,research", param_hint="--agents")
    return found


def _pulled(team: Team, address: str) -> list[str]:
    """All that a worker can serve without being told."""
    pulled = [id for id in team.roster.seats if team.roster.pulls(id)]
    served = [id for id in pulled if team.thinks(id)]
    if not pulled:
        raise Mistake(
            f"no agent of {address} is served by claims: declare one with pull=True (in YAML: pull: true),"
            f" or name those to serve by --agents"
        )
    if served and (alone := [id for id in pulled if id not in served]):
        tell(f"Not served: {', '.join(alone)}. Without a model only a program of yours can, by Team.claim.")
    return served or pulled
