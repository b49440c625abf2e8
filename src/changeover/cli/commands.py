"""All commands under their headings. They import heavy libraries when they run, so that help is fast."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated, Any

import typer

from changeover.cli import (
    agents,
    approvals,
    breakers,
    bus,
    conversations,
    db,
    experiments,
    handoffs,
    router,
    schedules,
    skills,
    tasks,
    tokens,
    tools,
    workflows,
)
from changeover.cli.batch import batch
from changeover.cli.chat import chat
from changeover.cli.demo import demo
from changeover.cli.doctor import doctor
from changeover.cli.exits import EXITS
from changeover.cli.export import export, import_team, schema
from changeover.cli.graph import graph
from changeover.cli.init import init
from changeover.cli.metrics import metrics
from changeover.cli.run import resume, run
from changeover.cli.serve import serve
from changeover.cli.terminal.help import App
from changeover.cli.worker import worker

app = App(f"AI agents hand work to one another, safely and visibly.\n\n{EXITS}", name="changeover")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"changeover {version('changeover')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _front(
    context: typer.Context,
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


COMMANDS: dict[str, dict[str, Any]] = {
    "Start": {"demo": demo, "init": init, "doctor": doctor},
    "Talk": {"run": run, "chat": chat, "resume": resume, "batch": batch},
    "Work": {
        "approvals": approvals.app,
        "handoffs": handoffs.app,
        "tasks": tasks.app,
        "bus": bus.app,
        "schedules": schedules.app,
        "workflows": workflows.app,
        "worker": worker,
    },
    "Inspect": {
        "conversations": conversations.app,
        "graph": graph,
        "metrics": metrics,
        "experiments": experiments.app,
    },
    "Declare": {
        "agents": agents.app,
        "tools": tools.app,
        "skills": skills.app,
        "export": export,
        "import": import_team,
        "schema": schema,
    },
    "Operate": {"serve": serve, "breakers": breakers.app, "router": router.app, "tokens": tokens.app, "db": db.app},
}
"""All commands, under the headings of the help."""
for panel, commands in COMMANDS.items():
    for name, command in commands.items():
        app.add(command, name, panel)
