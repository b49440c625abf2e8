"""Command `agents`: list and show agents of code and store, declare, describe and withdraw them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from changeover.cli.declarations import (
    Editor,
    FileOption,
    SetOption,
    Text,
    WriterOption,
    add_commands,
    as_data,
    edited,
    given,
    show_row,
)
from changeover.cli.exits import Mistake, errors_reported, one_line, say
from changeover.cli.options import (
    JsonOption,
    NewStoreOption,
    OpenStore,
    StoreOption,
    TeamOption,
    for_agent,
    has_default_store,
    in_store,
    nothing_declared,
    server_of,
)
from changeover.cli.terminal.help import App

if TYPE_CHECKING:
    from changeover.relay.ports.declarations import Declaration, Standing
    from changeover.relay.ports.log import Log
    from changeover.relay.ports.tables import KeptAgent
    from changeover.routing.profile import Profile
    from changeover.team import Team

app = App("Declare agents in a store, and list, describe, enable and disable agents.")
add_commands(app, "agent")

DescriptionOption = Annotated[str, typer.Option("--description", metavar="TEXT", help="What it is for.")]
CapabilityOption = Annotated[
    list[str] | None, typer.Option("--capability", metavar="NAME", help="Something that it can do. May be repeated.")
]
AgentArgument = Annotated[str, typer.Argument(metavar="ID", help="The agent's id.")]


@app.command("list")
def list_agents(team: TeamOption = None, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """List the agents that the store describes and the team declares."""
    from changeover.cli.terminal.render import print_json, print_table

    found = _listed(team, store)
    if as_json:
        print_json([_data(each) for each in found])
    else:
        print_table([_row(each) for each in found], nothing_declared("agents", team, store))


@app.command()
def show(id: AgentArgument, team: TeamOption = None, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Show an agent: its profile, and whether it gets handoffs."""
    from changeover.cli.terminal.render import print_json, print_record

    found = {each.id: each for each in _listed(team, store)}
    with errors_reported():
        if id not in found:
            close = get_close_matches(id, found, 1)
            meant = f"did you mean {close[0]!r}? There are" if close else "there are"
            raise Mistake(f"no agent is called {id!r}; {meant}: {', '.join(found) or 'none'}")
    shown, row = _data(found[id]), found[id].declaration
    if as_json:
        print_json({**shown, "declaration": as_data(row) if row else None})
        return
    print_record({name: _text(value) for name, value in shown.items()})
    if row is not None:
        show_row(row)


@app.command()
def add(  # noqa: PLR0913 - each is a declared option
    id: AgentArgument,
    instructions: Annotated[str, typer.Option("--instructions", metavar="TEXT", help="Its system prompt.")] = "",
    model: Annotated[str, typer.Option("--model", metavar="NAME", help="Its model. Default: the team's.")] = "",
    description: DescriptionOption = "",
    capability: CapabilityOption = None,
    file: FileOption = None,
    *,
    sets: SetOption = None,
    by: WriterOption = None,
    team: TeamOption = None,
    store: NewStoreOption = None,
) -> None:
    """Declare an agent: from the next run on, teams on the store can hand over to it.

    An agent that code declares stays as it is there; to change its profile, describe it.
    """
    options = {"instructions": instructions, "model": model, "description": description, "capabilities": capability}

    async def work(editor: Editor) -> None:
        document = {key: value for key, value in options.items() if value}
        await editor.add(id, Text.of_file(file) if file else given(sets, document), by)

    edited("agent", team, store, work, make=True)


@app.command()
def describe(  # noqa: PLR0913 - each is a declared option
    id: AgentArgument,
    description: DescriptionOption = "",
    capability: CapabilityOption = None,
    specialization: Annotated[str, typer.Option("--specialization", metavar="TEXT", help="Its field of work.")] = "",
    example: Annotated[
        list[str] | None,
        typer.Option("--example", metavar="TEXT", help="An example of a task for it. May be repeated."),
    ] = None,
    *,
    max_concurrency: Annotated[
        int | None, typer.Option("--max-concurrency", metavar="N", min=1, help="The most tasks it works on at once.")
    ] = None,
    store: StoreOption = None,
) -> None:
    """Describe an agent, in place of its profile in code or store.

    Teams on the store see the change within seconds.
    """
    with errors_reported():
        from changeover.errors import MisconfiguredError
        from changeover.routing.profile import Profile, profile_faults

        capabilities, examples = tuple(capability or ()), tuple(example or ())
        profile = Profile(id, "", description, specialization, capabilities, examples, max_concurrency=max_concurrency)
        if faults := profile_faults(profile):
            raise MisconfiguredError(*faults)
    in_store(store, lambda opened: opened.agents.put(profile))
    say(f"{id} is described; see: changeover agents show {id}")


@app.command()
def remove(id: AgentArgument, by: WriterOption = None, store: StoreOption = None) -> None:
    """Remove an agent: no team on the store hands over to it.

    This holds for agents that are declared in code too. Runs under way go on.
    """
    if _switched(id, "removed", by, store):
        for_agent(store, id, lambda opened: opened.agents.remove(id))
    say(f"{id} is removed; to undo that: changeover agents enable {id}")


@app.command()
def enable(id: AgentArgument, by: WriterOption = None, store: StoreOption = None) -> None:
    """Let an agent get handoffs again after it was disabled or removed."""
    if _switched(id, "enabled", by, store):
        in_store(store, lambda opened: opened.agents.switch(id, True))
    say(f"{id} gets handoffs")


@app.command()
def disable(id: AgentArgument, by: WriterOption = None, store: StoreOption = None) -> None:
    """Hand nothing to an agent until it is enabled.

    It finishes the work that it has.
    """
    if _switched(id, "disabled", by, store):
        for_agent(store, id, lambda opened: opened.agents.switch(id, False))
    say(f"{id} gets no handoffs; to change that: changeover agents enable {id}")


def _switched(id: str, state: Standing, by: str | None, store: str | None) -> bool:
    """Change the state of an agent that the store declares; True if it declares none, and code may."""

    async def work(editor: Editor) -> bool:
        if await editor.declarations.one("agent", id) is None:
            return True
        await editor.set_state(id, state, by)
        return False

    return edited("agent", None, store, work)


class ListedAgent(NamedTuple):
    """An agent as the team declares it and the store describes it."""

    id: str
    handoffs: str
    """"yes", or why it gets none."""
    source: str
    """Where its profile comes from: "code", "store" or "nobody"."""
    profile: Profile
    updated_at: float | None = None
    """When its row in the store was last changed."""
    declaration: Declaration | None = None
    """The row that declares it, if code does not."""


@errors_reported()
def _listed(team: str | None, store: str | None) -> list[ListedAgent]:
    if team is None:
        return _joined(None, *in_store(store, _rows))
    from changeover.cli.teams import load_team, working_team
    from changeover.routing.profile import profile_of

    declared = load_team(team, store=store).declared
    # A command that only reads creates no store.
    declared_here = [profile_of(member) for member in declared.members]
    if server_of(store):
        return _joined(declared_here, *in_store(store, _rows))
    has_store = store is not None or declared.store is not None or has_default_store()
    return _joined(declared_here, *(asyncio.run(_stored(working_team(team, store)[0])) if has_store else ([], [])))


async def _stored(team: Team) -> tuple[list[KeptAgent], list[Declaration]]:
    try:
        return await _rows(team.log)
    finally:
        await team.close()


async def _rows(store: OpenStore | Log) -> tuple[list[KeptAgent], list[Declaration]]:
    """The agents that a store describes, and those that it declares."""
    return await store.agents.all(), await store.declarations.listed("agent", include_removed=True)


def _joined(
    declared: Sequence[Profile] | None, stored: Sequence[KeptAgent], rows: Sequence[Declaration]
) -> list[ListedAgent]:
    """All agents of the team and of the store, by id; `declared` is None if no team was given."""
    from changeover.routing.profile import Profile
    from changeover.routing.registry import Registry, registry_over

    code = None if declared is None else {profile.id for profile in declared}
    own = {row.name: row for row in rows if row.name not in (code or ())}
    described = {each.id: each.profile for each in stored if each.profile is not None}
    profiles = [*(declared or ()), *map(_profile, own.values())]
    registry = registry_over(Registry(profiles), described, frozenset())
    kept = {each.id: each for each in stored}
    team = None if code is None else code | own.keys()
    ids = sorted({*kept, *(profile.id for profile in registry)})
    return [_agent(registry.get(id) or Profile(id), kept.get(id), own.get(id), team) for id in ids]


def _profile(row: Declaration) -> Profile:
    """The profile in the document of an agent."""
    import msgspec

    from changeover.routing.profile import Profile

    known = {key: value for key, value in row.document.items() if key in Profile.__struct_fields__}
    return msgspec.convert({**known, "id": row.name}, Profile)


def _agent(profile: Profile, stored: KeptAgent | None, row: Declaration | None, team: set[str] | None) -> ListedAgent:
    described = stored is not None and stored.profile is not None
    in_code = team is None or profile.id in team
    source = "store" if described or row else "code" if in_code else "nobody"
    updated_at = stored.updated_at if stored else row.at if row else None
    why = row.state if row and row.state != "enabled" else _handoffs(profile, stored, team)
    return ListedAgent(profile.id, why, source, profile, updated_at, row)


def _handoffs(profile: Profile, stored: KeptAgent | None, team: set[str] | None) -> str:
    if stored is not None and stored.removed:
        return "removed"
    if stored is not None and not stored.enabled:
        return "disabled"
    if team is not None and profile.id not in team:
        return "not in the team"
    return "yes" if profile.accepts_handoffs else "it takes none"


def _row(each: ListedAgent) -> dict[str, str]:
    return {
        "agent": each.id,
        "handoffs": each.handoffs,
        "source": each.source,
        "capabilities": one_line(", ".join(each.profile.capabilities)),
        "description": one_line(each.profile.description or each.profile.specialization),
    }


def _data(each: ListedAgent) -> dict[str, Any]:
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
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "; ".join(map(one_line, value)) if isinstance(value, list) else "" if value is None else one_line(str(value))
