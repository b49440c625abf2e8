"""The command `changeover`. Each command imports what it needs when it is called, so that `--help` is quick."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

app = typer.Typer(
    name="changeover",
    help="AI agents hand work to one another, safely and visibly.",
    add_completion=False,
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


@app.command()
def demo(
    pace: Annotated[
        float | None,
        typer.Option(min=0, help="Slower above 1, faster below.", show_default="1 on a terminal, 0 in a pipe"),
    ] = None,
) -> None:
    """Watch three agents hand a customer on. Scripted: it needs no model, no key and no network."""
    from changeover.cli.demo import play

    play(pace)
