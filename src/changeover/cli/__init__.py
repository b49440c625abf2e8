"""The command `changeover`. Each command imports what it needs when it is called, so that `--help` is quick."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from changeover.cli import approving, breaking, enrolling, learning, looking, stores, trying, unsticking
from changeover.cli.demo import demo
from changeover.cli.doctor import doctor
from changeover.cli.drawing import graph
from changeover.cli.measuring import metrics
from changeover.cli.starting import init
from changeover.cli.talking import chat, resume, run
from changeover.cli.trouble import EXITS
from changeover.cli.working import worker

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


for command in (demo, init, run, chat, resume, worker, looking.conversations):
    app.command()(command)
app.add_typer(looking.tasks, name="tasks")
for verb in (unsticking.stuck, unsticking.retry, unsticking.cancel):
    looking.handoffs.command()(verb)
app.add_typer(looking.handoffs, name="handoffs")
app.add_typer(approving.app, name="approvals")
app.add_typer(breaking.app, name="breakers")
app.add_typer(enrolling.app, name="agents")
app.add_typer(learning.app, name="router")
app.add_typer(trying.app, name="experiments")
app.command()(graph)
app.command()(metrics)
app.add_typer(stores.app, name="db")
app.command()(doctor)
