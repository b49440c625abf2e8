"""Command `workflows`: list and draw the workflows of a team, start one, and carry out a step again."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from changeover.cli.declarations import Text
from changeover.cli.exits import Mistake, add_exits, errors_reported, one_line, say
from changeover.cli.options import (
    ConversationOption,
    DecisionStoreOption,
    JsonLinesOption,
    JsonOption,
    TeamOption,
    UserOption,
    has_default_store,
    nothing_declared,
    on_server,
    required_team,
    server_of,
    store_of,
)
from changeover.cli.run import variables
from changeover.cli.terminal.help import App

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from changeover.relay.stream import StreamItem
    from changeover.team import Team
    from changeover.workflows.plan import Plan

app = App("List, draw and start workflows, and retry a step of one.")

WorkflowArgument = Annotated[str, typer.Argument(metavar="WORKFLOW", help="Its id.")]


@app.command("list")
def list_workflows(team: TeamOption = None, store: DecisionStoreOption = None, as_json: JsonOption = False) -> None:
    """List the workflows of a team, or those that the store declares."""
    from changeover.cli.terminal.render import print_json, print_table, without_empty

    found = _plans(team, store)
    if as_json:
        print_json([_data(plan) for plan in found])
        return
    rows = [
        {"workflow": plan.id, "steps": str(len(plan.steps)), "about": one_line(plan.description or plan.name)}
        for plan in found
    ]
    print_table(without_empty(rows), nothing_declared("workflows", team, store))


@app.command()
def show(
    id: WorkflowArgument, team: TeamOption = None, store: DecisionStoreOption = None, as_json: JsonOption = False
) -> None:
    """Draw a workflow: its steps, each with what follows it."""
    from changeover.cli.graph import encodable, wrapped
    from changeover.cli.terminal.render import print_json

    with errors_reported():
        plan = _named(id, _plans(team, store))
        if as_json:
            print_json(_data(plan))
            return
        from changeover.observe.drawing.workflow_map import workflow_text

        say(encodable(wrapped(workflow_text(plan))))


@app.command()
def start(  # noqa: PLR0913 - each is a declared option
    id: WorkflowArgument,
    given: Annotated[
        list[str] | None, typer.Argument(metavar="NAME=VALUE...", help="Inputs; a value that is not JSON is text.")
    ] = None,
    *,
    inputs: Annotated[
        str | None, typer.Option("--inputs", metavar="FILE", help="A JSON file with inputs; - reads standard input.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="The same key gives the same run.")] = None,
    conversation: ConversationOption = None,
    user: UserOption = None,
    team: TeamOption = None,
    store: DecisionStoreOption = None,
    as_json: JsonLinesOption = False,
) -> None:
    """Start a workflow and print its result.

    A terminal shows the steps as they happen; a pipe gets the result alone. A server carries it out by itself.
    """
    with errors_reported():
        whole = _inputs(given, inputs)
        if (server := server_of(store)) is not None:
            _start_there(server, id, whole, conversation, key, as_json)
            return
        from changeover.inputs import conversation_id

        at = conversation_id(conversation, key or "") or os.urandom(4).hex()  # chosen here, to name it after Ctrl-C
        _reported(
            team,
            store,
            at,
            lambda found: found.stream_workflow(id, whole, conversation=at, key=key, user=user),
            as_json,
        )


@app.command()
def retry(
    conversation: Annotated[str, typer.Argument(metavar="CONVERSATION", help="The conversation of its run.")],
    step: Annotated[str, typer.Argument(metavar="STEP", help="The id of the step.")],
    team: TeamOption = None,
    store: DecisionStoreOption = None,
    as_json: JsonLinesOption = False,
) -> None:
    """Repeat a step of a workflow that has ended, and all steps that follow it.

    To continue from the step that failed, use `changeover resume`.
    """
    with errors_reported():
        if (server := server_of(store)) is not None:
            on_server(server, lambda remote: remote.workflows.retry(conversation, step))
            say(f"{conversation} goes on with the step {step}; the server carries it out")
            return

        def again(found: Team) -> AsyncGenerator[StreamItem, None]:
            from changeover.conductor import read_along
            from changeover.relay.inputs.requests import Resume

            return read_along(found.engine.stream(Resume(conversation, step)))

        _reported(team, store, conversation, again, as_json)


add_exits(start, retry)


def _reported(
    address: str | None,
    store: str | None,
    conversation: str,
    items: Callable[[Team], AsyncGenerator[StreamItem, None]],
    as_json: bool,
) -> None:
    """Follow a run of a workflow to its end, and exit."""
    from changeover.cli.teams import working_team
    from changeover.cli.terminal.run_report import NextCommands, RunReport

    address = required_team(address, "a run needs its team")
    team, _ = working_team(address, store)
    report = RunReport(team, NextCommands(address, store))
    raise typer.Exit(report.run(conversation, lambda: items(team), as_json))


def _start_there(server: str, id: str, inputs: Any, conversation: str | None, key: str | None, as_json: bool) -> None:
    """Start a workflow at a server."""
    from changeover.cli.terminal.render import print_json_line

    begun = on_server(server, lambda remote: remote.workflows.start(id, inputs, conversation, key))
    if as_json:
        print_json_line({"event": "started", "conversation_id": begun.conversation_id, "run_id": begun.run_id})
    else:
        say(f"{id} is started as the conversation {begun.conversation_id}; the server carries it out")


def _plans(address: str | None, store: str | None) -> list[Plan]:
    """The workflows of a team, of the team that a server serves, or of the store."""
    with errors_reported():
        if (server := server_of(store)) is not None:
            return on_server(server, lambda remote: remote.workflows.listed())
        from changeover.cli.teams import STORE, declared_team, load_team, working_team

        if address is None and (store or has_default_store()):
            return asyncio.run(_united(declared_team(store_of(store), agents=False)))
        address = required_team(address, "workflows belong to a team")
        if store is None and address.partition(":")[0] != STORE:
            return _planned(load_team(address))  # a command that only reads makes no store
        return asyncio.run(_united(working_team(address, store)[0]))


async def _united(team: Team) -> list[Plan]:
    """The workflows of a team, with those that its store declares."""
    try:
        await team.engine.world()
        return _planned(team)
    finally:
        await team.close()


def _planned(team: Team) -> list[Plan]:
    from changeover.workflows.plan import plan_of

    return [plan_of(each) for each in team.roster.workflows.values()]


def _named(id: str, plans: list[Plan]) -> Plan:
    found = {plan.id: plan for plan in plans}
    if id not in found:
        raise Mistake(f"no workflow is called {id!r}; there are: {', '.join(sorted(found)) or 'none'}")
    return found[id]


def _data(plan: Plan) -> dict[str, Any]:
    """A workflow as JSON, with the names of the inputs that its expressions read."""
    import msgspec

    from changeover.observe.drawing.workflow_map import input_names

    return {**msgspec.to_builtins(plan), "inputs": input_names(plan)}


def _inputs(given: list[str] | None, file: str | None) -> dict[str, Any] | str | None:
    """The inputs of a file with those of the command line over them; raises Mistake, or BadParameter."""
    named = variables(given, "NAME=VALUE")
    if file is None:
        return named or None
    text = Text.of_file(file)
    try:
        read = json.loads(text.text)
    except ValueError as error:
        raise Mistake(f"{text.source} is not JSON: {error}") from None
    if isinstance(read, str) and not named:
        return read
    if not isinstance(read, dict):
        raise Mistake(f"{text.source} is not a JSON object with inputs by name")
    return {**read, **named}
