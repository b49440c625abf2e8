"""Commands `run` and `resume`: start or continue a run of a team, and print its answer."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from changeover.cli.exits import Mistake, add_exits, errors_reported
from changeover.cli.options import (
    AgentOption,
    ContextOption,
    ConversationOption,
    JsonLinesOption,
    NoHandoffsOption,
    TeamArgument,
    TeamStoreOption,
    UserOption,
)

if TYPE_CHECKING:
    from changeover.cli.terminal.run_report import RunReport
    from changeover.team import Team

AttachOption = Annotated[
    list[str] | None,
    typer.Option(
        "--attach",
        metavar="FILE",
        help="An image or another file for the models, by path or https:// address. May be repeated.",
    ),
]


def run(  # noqa: PLR0913 - each is a declared option
    team: TeamArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The user's message; - reads it from standard input.")],
    *,
    conversation: ConversationOption = None,
    agent: AgentOption = None,
    user: UserOption = None,
    context: ContextOption = None,
    attach: AttachOption = None,
    store: TeamStoreOption = None,
    as_json: JsonLinesOption = False,
    no_handoffs: NoHandoffsOption = False,
) -> None:
    """Send a message to a team and print its answer.

    A terminal shows what the agents do as it happens; a pipe gets the answer alone.
    """
    options: dict[str, Any] = {"agent": agent, "user": user, "context": variables(context), "files": attach}
    with errors_reported():
        said = _message(text)
        report, found = _report(team, store, not no_handoffs)
        id = conversation or os.urandom(4).hex()  # chosen here, to name it after Ctrl-C
        raise typer.Exit(report.run(id, lambda: found.stream(said, conversation=id, **options), as_json))


def resume(
    team: TeamArgument,
    conversation: Annotated[str, typer.Argument(metavar="CONVERSATION", help="Its id.")],
    store: TeamStoreOption = None,
    as_json: JsonLinesOption = False,
    no_handoffs: NoHandoffsOption = False,
) -> None:
    """Continue a conversation that was interrupted or failed.

    A failed step is retried. If nothing is left to do, the last answer is printed.
    """
    with errors_reported():
        report, found = _report(team, store, not no_handoffs)
        raise typer.Exit(report.run(conversation, lambda: found.follow(conversation), as_json))


add_exits(run, resume)


def _report(address: str, store: str | None, handoffs: bool) -> tuple[RunReport, Team]:
    from changeover.cli.teams import working_team
    from changeover.cli.terminal.run_report import NextCommands, RunReport

    team, _ = working_team(address, store, handoffs)
    return RunReport(team, NextCommands(address, store)), team


def _message(text: str) -> str:
    """The text itself, or standard input for `-`; raises BadParameter if it is empty."""
    if text == "-":
        try:
            text = sys.stdin.buffer.read().decode()
        except UnicodeDecodeError:
            raise Mistake("standard input is not valid UTF-8") from None
    if not text.strip():
        raise typer.BadParameter("the message is empty", param_hint="TEXT")
    return text


def variables(given: list[str] | None, option: str = "--context") -> dict[str, Any]:
    """The values of an option or argument: each KEY=VALUE, the value read as JSON if it is JSON."""
    found: dict[str, Any] = {}
    for each in given or ():
        key, equals, value = each.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{each!r} is not KEY=VALUE", param_hint=option)
        try:
            found[key] = json.loads(value, parse_constant=_not_json)
        except (ValueError, RecursionError):
            found[key] = value
    return found


def _not_json(word: str) -> Any:
    # Python's reader accepts NaN and Infinity; JSON does not have them, and a store could not keep them.
    raise ValueError(word)
