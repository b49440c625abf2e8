"""Command `demo`: play the support desk, chat with it, or kill it in the middle."""

from __future__ import annotations

from typing import Annotated

import typer

from changeover.cli.exits import plainly


def demo(
    chat: Annotated[
        bool, typer.Option("--chat", help="Talk with the desk yourself; an offline model answers.")
    ] = False,
    crash: Annotated[bool, typer.Option("--crash", help="Kill the process in the middle, and see it go on.")] = False,
    store: Annotated[
        str | None,
        typer.Option(metavar="FILE|URL", help="Where to keep the log.", show_default="a new file that stays"),
    ] = None,
    pace: Annotated[
        float | None,
        typer.Option(min=0, help="Slower above 1, faster below.", show_default="1 on a terminal, 0 in a pipe"),
    ] = None,
) -> None:
    """Watch five agents of a support desk hand a customer on. It needs no model, no key and no network."""
    if chat and crash:
        raise typer.BadParameter("choose one", param_hint="--chat and --crash")
    with plainly():
        if chat:
            from changeover.cli.demo.dialogue import chat_with_desk

            chat_with_desk(store, pace)
        elif crash:
            from changeover.cli.demo.crash_demo import crash_desk

            crash_desk(store)
        else:
            play(pace, store)


def play(pace: float | None = None, store: str | None = None) -> None:
    """The scripted conversation."""
    from changeover.cli.demo.play import play

    play(pace, store)
