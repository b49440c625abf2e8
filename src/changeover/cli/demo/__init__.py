"""Command `demo`: a support desk of five agents, played from a script, chatted with, served, or killed."""

from __future__ import annotations

from typing import Annotated

import typer

from changeover.cli.exits import errors_reported
from changeover.cli.options import STORE_FORMS


def demo(
    chat: Annotated[
        bool, typer.Option("--chat", help="Talk with the desk yourself; an offline model answers.")
    ] = False,
    crash: Annotated[
        bool,
        typer.Option("--crash", help="Kill the process in the middle of its work, and watch another one continue."),
    ] = False,
    ui: Annotated[
        bool, typer.Option("--ui", help="Serve the desk with some conversations, as pages for a browser.")
    ] = False,
    store: Annotated[
        str | None, typer.Option("--store", metavar="STORE", help=f"Keep the log there. {STORE_FORMS}")
    ] = None,
    pace: Annotated[
        float | None,
        typer.Option(
            "--pace",
            metavar="FACTOR",
            min=0,
            help="Speed of the output: slower above 1, faster below.",
            show_default="1 on a terminal, 0 in a pipe",
        ),
    ] = None,
) -> None:
    """Watch five agents of a support desk hand over to one another.

    It needs no model, no key and no network.
    """
    if chat + crash + ui > 1:
        raise typer.BadParameter("choose one", param_hint="--chat, --crash and --ui")
    if ui:
        from changeover.cli.serve import serve

        serve(store=store, demo=True)
        return
    with errors_reported():
        if chat:
            from changeover.cli.demo.play import chat_with_desk

            chat_with_desk(store)
        elif crash:
            from changeover.cli.demo.crash_demo import crash_desk

            crash_desk(store)
        else:
            from changeover.cli.demo.play import play_desk

            play_desk(store, pace)
