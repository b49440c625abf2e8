"""The command line `changeover`: its commands, which import heavy libraries only when they run."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from changeover.cli import agents, approvals, breakers, conversations, db, experiments, handoffs, router
from changeover.cli.demo.demo import demo
from changeover.cli.doctor import doctor
from changeover.cli.exits import EXITS
from changeover.cli.graph import graph
from changeover.cli.init import init
from changeover.cli.metrics import metrics
from changeover.cli.run import chat, resume, run
from changeover.cli.worker import worker

app = typer.Typer(
    name="changeover",
    help=f"AI agents hand work to one another, safely and visibly.\n\n{EXITS}",
    pretty_exceptions_enable=False,
)


def main() -> None:
    """What the console script calls."""
    app()


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"changeover {version('changeover')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _front(
    context: typer.Context,
    _: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


for command in (demo, init, run, chat, resume, worker, conversations.conversations):
    app.command()(command)
app.add_typer(conversations.tasks, name="tasks")
for verb in (handoffs.stuck, handoffs.retry, handoffs.cancel):
    conversations.handoffs.command()(verb)
app.add_typer(conversations.handoffs, name="handoffs")
app.add_typer(approvals.app, name="approvals")
app.add_typer(breakers.app, name="breakers")
app.add_typer(agents.app, name="agents")
app.add_typer(router.app, name="router")
app.add_typer(experiments.app, name="experiments")
app.command()(graph)
app.command()(metrics)
app.add_typer(db.app, name="db")
app.command()(doctor)
