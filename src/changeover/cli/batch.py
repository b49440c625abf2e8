"""Command `batch`: run a team once for each line of a file, several at once; a rerun goes on where a run was killed."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from changeover.cli.declarations import Text
from changeover.cli.exits import Mistake, add_exits, errors_reported
from changeover.cli.options import TeamArgument, TeamStoreOption, UserOption

if TYPE_CHECKING:
    from changeover.cli.terminal.batch_run import Item
    from changeover.team import Team


def batch(  # noqa: PLR0913 - each is a declared option
    team: TeamArgument,
    inputs: Annotated[
        str,
        typer.Argument(
            metavar="INPUTS",
            help="A file with a JSON value in each line; - reads standard input. For a workflow it is the inputs: an"
            " object, or a text. For an agent it is the message: a text, or an object with text and context.",
        ),
    ],
    *,
    workflow: Annotated[str | None, typer.Option("--workflow", metavar="ID", help="The workflow to start.")] = None,
    agent: Annotated[
        str | None,
        typer.Option("--agent", metavar="ID", help="The agent that answers. Default: the first of the team."),
    ] = None,
    concurrency: Annotated[
        int, typer.Option("--concurrency", metavar="N", min=1, help="The most lines that are worked on at once.")
    ] = 20,
    output: Annotated[
        str | None, typer.Option("--output", metavar="FILE", help="Where results go. Default: standard output.")
    ] = None,
    failed: Annotated[
        bool, typer.Option("--failed", help="Retry the lines that failed, and start no line that was not started.")
    ] = False,
    user: UserOption = None,
    store: TeamStoreOption = None,
) -> None:
    """Run a team or a workflow once for each line of a file.

    The results come as lines of JSON, in the order of the input. The same command again starts no line twice: it goes
    on with lines that were interrupted, and starts the others.
    """
    with errors_reported():
        if workflow is not None and agent is not None:
            raise typer.BadParameter("give --workflow or --agent, not both", param_hint="--agent")
        from changeover.cli.teams import working_team
        from changeover.cli.terminal.batch_run import BatchRun

        text = Text.of_file(inputs)
        found, _ = working_team(team, store)
        items = _items(text, _target(found, workflow, agent))
        options = {"user": user} if workflow is not None else {"user": user, "agent": agent}
        running = BatchRun(found, items, workflow, options, failed)
        with _opened(output) as file:
            code = running.run(file, concurrency)
        raise typer.Exit(code)


add_exits(batch)


def _target(team: Team, workflow: str | None, agent: str | None) -> tuple[str, str, str]:
    """The name of the team, and the kind and id of what runs for each line; raises Mistake if there is no such workflow
    or agent."""
    asyncio.run(_look(team))
    roster = team.roster
    for kind, id, known in (("workflow", workflow, roster.workflows), ("agent", agent, roster.seats)):
        if id is not None and id not in known:
            raise Mistake(f"no {kind} is called {id!r}; this team has: {', '.join(sorted(known)) or 'none'}")
    return team.name, "workflow" if workflow else "agent", workflow or agent or ""


async def _look(team: Team) -> None:
    """Read what the store declares."""
    try:
        await team.engine.world()
    finally:
        await team.close()


def _items(text: Text, target: tuple[str, str, str]) -> list[Item]:
    """The lines of the input; raises MisconfiguredError with all that are wrong."""
    from changeover.cli.terminal.batch_run import Item
    from changeover.errors import MisconfiguredError

    source = text.source if text.source == "standard input" else str(Path(text.source).resolve())
    items, faults = list[Item](), list[str]()
    for number, line in enumerate(text.text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            said, given = _read(line, of_workflow=target[1] == "workflow")
        except ValueError as error:
            faults.append(f"{text.source}, line {number}: {error}")
            continue
        mark = sha256("\0".join((*target, source, line.strip())).encode()).hexdigest()[:16]
        items.append(Item(number, f"batch-{mark}-{number}", said, given))
    if faults:
        raise MisconfiguredError(*faults)
    if not items:
        raise Mistake(f"{text.source} has no lines")
    return items


def _read(line: str, of_workflow: bool) -> tuple[str, dict[str, Any] | None]:
    """The text of a line, and its inputs or context variables; raises ValueError."""
    try:
        value = json.loads(line, parse_constant=_not_json)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from None
    match value:
        case str() if value.strip():
            return value, None
        case dict() if of_workflow:
            return "", value
        case {"text": str(text), **more} if text.strip() and not more.keys() - {"context"}:
            context = more.get("context")
            if context is None or isinstance(context, dict):
                return text, context
            raise ValueError("its context is not an object")
    wanted = "an object with inputs by name" if of_workflow else 'an object with "text" and "context"'
    raise ValueError(f"it is neither a text nor {wanted}")


def _not_json(word: str) -> Any:
    raise ValueError(f"{word} is no JSON value")


@contextmanager
def _opened(output: str | None) -> Iterator[TextIO]:
    """Where results go; raises Mistake if the file cannot be written. A terminal gets them below the progress bar."""
    if output is None:
        held = StringIO() if sys.stdout.isatty() else None
        yield held or sys.stdout
        if held is not None:
            typer.echo(held.getvalue(), nl=False)
        return
    try:
        Path(output).touch()
    except OSError as error:
        raise Mistake(f"{output} cannot be written: {error.strerror}") from error
    with Path(output).open("w", encoding="utf-8") as file:
        yield file
