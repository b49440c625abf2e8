"""The command line `changeover`. Commands import heavy libraries when they run, so that help is fast."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from changeover.cli import agents, approvals, breakers, db, experiments, handoffs, router, tasks
from changeover.cli.chat import chat
from changeover.cli.conversations import conversations
from changeover.cli.demo import demo
from changeover.cli.doctor import doctor
from changeover.cli.exits import EXITS
from changeover.cli.graph import graph
from changeover.cli.init import init
from changeover.cli.metrics import metrics
from changeover.cli.run import resume, run
from changeover.cli.worker import worker

app = typer.Typer(
    name="changeover",
    help=f"AI agents hand work to one another, safely and visibly.\n\n{EXITS}",
    pretty_exceptions_enable=False,
)


def main() -> None:
    """The entry point of the console script."""
    app()


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


COMMANDS = (demo, init, run, chat, resume, worker, conversations)
GROUPS = {
    "tasks": tasks.app,
    "handoffs": handoffs.app,
    "approvals": approvals.app,
    "breakers": breakers.app,
    "agents": agents.app,
    "router": router.app,
    "experiments": experiments.app,
}
for command in COMMANDS:
    app.command()(command)
for name, group in GROUPS.items():
    app.add_typer(group, name=name)
app.command()(graph)
app.command()(metrics)
app.add_typer(db.app, name="db")
app.command()(doctor)
