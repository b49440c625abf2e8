"""Command `tools`: declare tools as rows of a store, change, show, withdraw and try them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from changeover.cli.declarations import (
    Editor,
    FileOption,
    NameArgument,
    RemoteEditor,
    SetOption,
    Text,
    WriterOption,
    add_commands,
    add_states,
    edited,
    given,
)
from changeover.cli.exits import Exit, Mistake, errors_reported, one_line, say, tell
from changeover.cli.options import NewStoreOption, StoreOption, TeamOption
from changeover.cli.terminal.help import App

if TYPE_CHECKING:
    from changeover.relay.ports.world import ToolOutcome
    from changeover.stores.calls import ToolAnswer
    from changeover.toolkits.toolkit import AgentToolkit

app = App("Declare tools in a store, change, withdraw and try them.")
add_states(app, "tool")
add_commands(app, "tool")

ArgsOption = Annotated[str, typer.Option("--args", metavar="JSON", help="The arguments, as a JSON object.")]


@app.command()
def add(
    name: NameArgument,
    file: FileOption = None,
    sets: SetOption = None,
    by: WriterOption = None,
    *,
    team: TeamOption = None,
    store: NewStoreOption = None,
) -> None:
    """Declare a tool: from the next run on, agents that name it can call it.

    For example: changeover tools add get_order --set type=http_api --set 'parameters=[id]'
    --set 'url=https://api.example.org/orders/{id}'
    """
    edited(
        "tool",
        team,
        store,
        lambda editor: editor.add(name, Text.of_file(file) if file else given(sets, {}), by),
        make=True,
    )


@app.command("test")
def try_tool(name: NameArgument, args: ArgsOption = "{}", team: TeamOption = None, store: StoreOption = None) -> None:
    """Call a tool, or one of an MCP server by the name that models use; what it does takes effect.

    For an MCP server itself, its tools are listed.
    """
    from changeover.cli.terminal.prompt import json_object

    with errors_reported():
        arguments = json_object(args)
        if arguments is None:
            raise Mistake(f"--args {args!r} is not a JSON object, such as '{{\"id\": 7}}'")
    outcome = edited("tool", team, store, lambda editor: _called(editor, name, arguments or {}))
    if outcome is None:
        return
    if not outcome.ok:
        tell(f"changeover: {outcome.text}")
        raise typer.Exit(Exit.FAILED)
    say(outcome.text)


async def _called(editor: Editor, name: str, arguments: dict[str, Any]) -> ToolOutcome | ToolAnswer | None:
    """The outcome of a call; None for an MCP server, whose tools are listed."""
    if isinstance(editor, RemoteEditor):
        return await editor.tools.test(name, arguments)
    from changeover.agent.handoff import Delegate, Handoff
    from changeover.documents.agent_document import ABSENT
    from changeover.toolkits.toolkit import lone_toolkit
    from changeover.tools.mcp_server import McpServer

    tools = {key: each for key, each in (await editor.scope()).tools.items() if each is not ABSENT}
    if isinstance(way := tools.get(name), Handoff | Delegate):
        raise Mistake(
            f"{name} hands over to {way.receiver or 'a specialist'}; only an agent in a conversation does that"
        )
    wanted = [tools[name]] if name in tools else [each for each in tools.values() if isinstance(each, McpServer)]
    async with lone_toolkit(wanted) as toolkit:
        if name in {each.definition.name for each in toolkit.tools()}:
            return await _outcome(toolkit, name, arguments)
        if name not in tools:
            raise Mistake(f"the store declares no tool {name!r}; there are: {', '.join(sorted(tools)) or 'none'}")
        for each in toolkit.tools():
            say(f"{each.definition.name}  {one_line(each.definition.description)}")
        return None


async def _outcome(toolkit: AgentToolkit, name: str, arguments: dict[str, Any]) -> ToolOutcome:
    from changeover.tools.run_context import RunContext

    context = RunContext("tools-test", "tools-test", "tools-test", "tools-test")
    if wrong := toolkit.misfit(name, arguments, context):
        raise Mistake(wrong)
    return await toolkit.call(name, arguments, context)
