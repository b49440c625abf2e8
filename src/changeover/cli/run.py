"""Commands `run` and `resume`: start or continue a run of a team, and print its answer."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

import typer

from changeover.cli.exits import Exit, add_exits, errors_reported, tell
from changeover.cli.options import (
    AgentOption,
    ContextOption,
    ConversationOption,
    JsonOption,
    NoHandoffsOption,
    TeamArgument,
    TeamStoreOption,
    UserOption,
)

AttachOption = Annotated[
    list[str] | None,
    typer.Option(
        "--attach",
        metavar="FILE",
        help="An image or another file for the models, by path or https:// address. May be repeated.",
        show_default=False,
    ),
]


def run(  # noqa: PLR0913 - each is a declared option
    team: TeamArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The user's message.", show_default=False)],
    *,
    conversation: ConversationOption = None,
    agent: AgentOption = None,
    user: UserOption = None,
    context: ContextOption = None,
    attach: AttachOption = None,
    store: TeamStoreOption = None,
    as_json: JsonOption = False,
    no_handoffs: NoHandoffsOption = False,
) -> None:
    """Send a message to a team and print its answer.

    On a terminal, handoffs are shown as they happen.
    """
    options = {
        "conversation": conversation,
        "agent": agent,
        "user": user,
        "context": variables(context),
        "files": attach,
    }
    with errors_reported():
        from changeover.cli.teams import working_team
        from changeover.cli.terminal.run_report import NextCommands, RunReport, run_shown

        found, _ = working_team(team, store, not no_handoffs)
        report = RunReport(found, NextCommands(team, store))
        raise typer.Exit(_exit_code(report.print(lambda: run_shown(found, text, options), as_json)))


def resume(
    team: TeamArgument,
    conversation: Annotated[str, typer.Argument(metavar="CONVERSATION", help="Its id.", show_default=False)],
    store: TeamStoreOption = None,
    as_json: JsonOption = False,
    no_handoffs: NoHandoffsOption = False,
) -> None:
    """Continue a conversation that was interrupted or failed.

    A failed step is retried. If nothing is left to do, the last answer is printed.
    """
    with errors_reported():
        from changeover.cli.teams import working_team
        from changeover.cli.terminal.run_report import NextCommands, RunReport, resume_shown

        found, _ = working_team(team, store, not no_handoffs)
        report = RunReport(found, NextCommands(team, store))
        raise typer.Exit(_exit_code(report.print(lambda: resume_shown(found, conversation), as_json)))


add_exits(run, resume)


def variables(given: list[str] | None) -> dict[str, Any]:
    """The values of --context: each KEY=VALUE, the value read as JSON if it is JSON."""
    found: dict[str, Any] = {}
    for each in given or ():
        key, equals, value = each.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{each!r} is not KEY=VALUE", param_hint="--context")
        try:
            found[key] = json.loads(value, parse_constant=_not_json)
        except (ValueError, RecursionError):
            found[key] = value
    return found


def _not_json(word: str) -> Any:
    # Python's reader accepts NaN and Infinity; JSON does not have them, and a store could not keep them.
    raise ValueError(word)


def _exit_code(work: Any) -> Exit:
    try:
        code: Exit = asyncio.run(work)
    except KeyboardInterrupt:
        tell("Interrupted; everything recorded is kept. See: changeover conversations, changeover resume")
        return Exit.INTERRUPTED
    return code
