"""Command `worker`: start a process that claims and performs tickets for agents with `pull`."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Annotated

import typer

from changeover.cli.exits import Mistake, errors_reported, tell
from changeover.cli.options import (
    EngineOption,
    LogFormatOption,
    TeamArgument,
    TeamStoreOption,
    observed,
    positive_seconds,
    seconds,
)

if TYPE_CHECKING:
    from changeover.relay.ports.engine import EngineFactory
    from changeover.team import Team


def worker(  # noqa: PLR0913 - each is a declared option
    team: TeamArgument,
    *,
    agents: Annotated[
        str | None,
        typer.Option(
            "--agents", metavar="ID,ID", help="The agents to serve. Default: all with pull=True; with --engine all."
        ),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(
            "--concurrency",
            metavar="N",
            min=1,
            help="The most tickets to work on at once; with --engine the most conversations. Default: 4, or 100.",
        ),
    ] = None,
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
        str, typer.Option("--name", metavar="NAME", help="Its name in the log. Default: host and process.")
    ] = "",
    drain: Annotated[bool, typer.Option("--drain", "--once", help="Exit when nothing is left to claim.")] = False,
    store: TeamStoreOption = None,
    engine: EngineOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")] = False,
    log_format: LogFormatOption = None,
) -> None:
    """Claim tickets of agents and work on them.

    With --engine it works on the conversations that the engine assigns instead.

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

        named = _named(agents) if agents is not None else []
        factory = _engine(engine, named, concurrency, grace) if engine else None
        found, where = working_team(team, store, engine=factory)
        if isinstance(found.declared.store, MemoryLog):
            raise Mistake(f"{team} keeps its conversations in memory, which other processes cannot reach; give --store")
        found = observed(found, log_format)
        shown = database_of(where).shown if where else ""
        if factory is not None:
            _require_agents(found, named, team)
            asyncio.run(_assigned(found, named, shown))
            return
        served = named or _pulled(found, team)
        terms = {"concurrency": concurrency or 4, "lease": lease, "grace": grace, "name": name}
        asyncio.run(WorkerProcess(found, served, terms, shown, as_json).serve(drain))


def _engine(address: str, agents: list[str], concurrency: int | None, grace: float) -> EngineFactory:
    from changeover.engines.address import engine_at

    more = {"concurrency": concurrency} if concurrency else {}
    return engine_at(address, worker=True, agents=tuple(agents), grace=max(grace, 0.001), **more)


def _require_agents(team: Team, agents: list[str], address: str) -> None:
    """Raise Mistake if the team has no such agent."""
    if unknown := [id for id in agents if id not in team.roster.seats]:
        raise Mistake(f"{address} has no agent {', '.join(unknown)}; there are: {', '.join(team.roster.seats)}")


async def _assigned(team: Team, agents: list[str], shown: str) -> None:
    """Work on what the engine assigns, until a signal arrives."""
    import asyncio

    from changeover.cli.terminal.worker_process import signals_handled
    from changeover.ticket import worker_name

    stopped = asyncio.Event()
    with signals_handled(lambda name: stopped.set()):
        async with team:
            gc.freeze()  # what is loaded by now stays, and the collector need not look at it again
            tell(f"{worker_name()} serves {', '.join(agents) or 'all agents'} on {shown}, as the engine assigns.")
            await stopped.wait()
            tell("It takes no more work, and finishes what it has.")


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
