"""Command `agents`: list, show, add, remove, enable and disable agents in a store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from changeover.cli.exits import Mistake, plainly, tell
from changeover.cli.handoffs import at_store
from changeover.cli.options import JsonOption, StoreOption, is_store_here

if TYPE_CHECKING:
    from changeover.cli.terminal.agent_status import Enrolled
    from changeover.relay.ports import Log
    from changeover.relay.tables import KeptAgent
    from changeover.stores.views import Views


def at_agent(store: str | None, agent: str, work: Callable[[Log], Awaitable[object]]) -> None:
    """Do something about an agent; if the store has never heard of it, that is said too."""
    if not at_store(store, lambda log, views: _done(log, views, agent, work)):
        tell(f"nobody called {agent!r} has worked in this store yet; mind the spelling")


async def _done(log: Log, views: Views, agent: str, work: Callable[[Log], Awaitable[object]]) -> bool:
    from changeover.relay.lists import TaskRow

    described = any(each.id == agent for each in await log.agents.all())
    known = described or bool(await views.listed(TaskRow, {"agent": agent}, limit=1))
    await work(log)
    return known


app = typer.Typer(help="Agents: who there is, what each is for, and who takes handoffs.", no_args_is_help=True)

AgentArgument = Annotated[str, typer.Argument(metavar="ID", help="The agent's id.", show_default=False)]
OptionalTeam = Annotated[
    str | None,
    typer.Argument(
        metavar="TEAM",
        help="file.py:name, package.module:name or a YAML file, to see whom it declares too.",
        show_default=False,
    ),
]


@app.command("list")
def list_agents(team: OptionalTeam = None, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """List agents: those that the store describes and, if a team is given, those that it declares."""
    found = _found(team, store)
    if as_json:
        from changeover.cli.terminal.render import print_json

        print_json([_plain(each) for each in found])
    else:
        from changeover.cli.terminal.render import print_table

        print_table([_row(each) for each in found], "no agents")


@app.command()
def show(id: AgentArgument, team: OptionalTeam = None, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Show all that is known of an agent."""
    from changeover.cli.terminal.render import print_json, print_record

    found = {each.id: each for each in _found(team, store)}
    with plainly():
        if id not in found:
            raise Mistake(f"nothing is known of {id!r}; there are: {', '.join(found) or 'none'}")
    if as_json:
        print_json(_plain(found[id]))
    else:
        print_record({name: _text(value) for name, value in _plain(found[id]).items()})


@app.command()
def add(  # noqa: PLR0913 - each is a declared option
    id: AgentArgument,
    description: Annotated[str, typer.Option("--description", help="What it is for.", show_default=False)] = "",
    capability: Annotated[
        list[str] | None,
        typer.Option("--capability", help="What it can do. May be given several times.", show_default=False),
    ] = None,
    specialization: Annotated[str, typer.Option("--specialization", help="Its field.", show_default=False)] = "",
    example: Annotated[
        list[str] | None,
        typer.Option("--example", help="A task for it. May be given several times.", show_default=False),
    ] = None,
    *,
    max_concurrency: Annotated[
        int | None, typer.Option("--max-concurrency", min=1, help="How much it does at once.", show_default=False)
    ] = None,
    store: StoreOption = None,
) -> None:
    """Describe an agent, in the place of what was declared or said before. Teams on the store know within seconds."""
    with plainly():
        from changeover.errors import MisconfiguredError
        from changeover.routing.profile import Profile, profile_faults

        able, tasks = tuple(capability or ()), tuple(example or ())
        profile = Profile(id, "", description, specialization, able, tasks, max_concurrency=max_concurrency)
        if faults := profile_faults(profile):
            raise MisconfiguredError(*faults)
    at_store(store, lambda log, views: log.agents.put(profile))
    typer.echo(f"{id} is described; see: changeover agents show {id}")


@app.command()
def remove(id: AgentArgument, store: StoreOption = None) -> None:
    """Leave an agent out, whoever declared it: teams on the store hand nothing to it any more."""
    at_agent(store, id, lambda log: log.agents.remove(id))
    typer.echo(f"{id} is left out; to have it back, type: changeover agents enable {id}")


@app.command()
def enable(id: AgentArgument, store: StoreOption = None) -> None:
    """Let an agent have handoffs again, whether it was disabled or removed."""
    at_store(store, lambda log, views: log.agents.switch(id, True))
    typer.echo(f"{id} may have handoffs")


@app.command()
def disable(id: AgentArgument, store: StoreOption = None) -> None:
    """Hand nothing to an agent until it is enabled. What it has begun it goes on with."""
    at_agent(store, id, lambda log: log.agents.switch(id, False))
    typer.echo(f"{id} gets no handoffs until somebody types: changeover agents enable {id}")


def _found(team: str | None, store: str | None) -> list[Enrolled]:
    from changeover.cli.terminal.agent_status import enrolled

    if team is None:
        return enrolled(None, at_store(store, lambda log, views: log.agents.all()))
    with plainly():
        from changeover.cli.teams import load_team
        from changeover.routing.profile import profile_of

        declared = load_team(team)._declared
        # Whoever only looks makes no store.
        has_one = store is not None or declared.store is not None or is_store_here()
        kept = asyncio.run(_kept(team, store)) if has_one else []
        return enrolled([profile_of(member) for member in declared.members], kept)
    raise AssertionError("it returns or raises")


async def _kept(team: str, store: str | None) -> list[KeptAgent]:
    """What the store of a team says."""
    from changeover.cli.teams import working_team

    meant, _ = working_team(team, store)
    try:
        return await meant.on_engine(lambda engine: engine.log.agents.all())
    finally:
        await meant.close()


def _row(each: Enrolled) -> dict[str, str]:
    from changeover.cli.terminal.render import line_of

    return {
        "agent": each.id,
        "handoffs": each.handoffs,
        "source": each.source,
        "capabilities": line_of(", ".join(each.profile.capabilities)),
        "description": line_of(each.profile.description or each.profile.specialization),
    }


def _plain(each: Enrolled) -> dict[str, Any]:
    from changeover.cli.terminal.render import json_time

    profile = each.profile
    return {
        "id": each.id,
        "available": each.handoffs == "yes",
        "handoffs": each.handoffs,
        "source": each.source,
        "description": profile.description,
        "specialization": profile.specialization,
        "capabilities": list(profile.capabilities),
        "examples": list(profile.examples),
        "max_concurrency": profile.max_concurrency,
        "updated_at": json_time(each.updated_at),
    }


def _text(value: Any) -> str:
    from changeover.cli.terminal.render import line_of

    if isinstance(value, bool):
        return "yes" if value else "no"
    return "; ".join(map(line_of, value)) if isinstance(value, list) else "" if value is None else line_of(str(value))
