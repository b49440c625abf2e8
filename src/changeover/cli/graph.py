"""Command `graph`: draw a team or a conversation as text, Mermaid or SVG."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from changeover.cli.exits import Mistake, errors_reported, say
from changeover.cli.options import OpenStore, StoreOption, in_store
from changeover.cli.terminal.help import among

if TYPE_CHECKING:
    from rich.console import Console

    from changeover.agent.roster import Roster
    from changeover.observe.drawing.course import Course
    from changeover.team import Team

Format = Literal["text", "mermaid", "svg"]

LEAD = re.compile(r"[ │├└─╌▶]*(?:(?:tool|hands to|asks)  +)?")
"""The branches at the start of a line, and the column with the kind of its node."""
HANGING = 4


def graph(
    what: Annotated[
        str,
        typer.Argument(
            metavar="TEAM|CONVERSATION",
            help="file.py:name, package.module:name, a YAML file or the word store; or the id of a conversation.",
        ),
    ],
    format: Annotated[Format, typer.Option("--format", metavar="FORMAT", help=among(Format))] = "text",
    store: StoreOption = None,
) -> None:
    """Draw a team, or the handoffs of a conversation.

    The drawing of a team includes what a store declares if you give --store.
    """
    from changeover.cli.teams import is_team

    with errors_reported():
        drawn = _team(what, format, store) if is_team(what) else _course(what, format, store)
        say(encodable(wrapped(drawn) if format == "text" else drawn))


def _team(address: str, format: Format, store: str | None) -> str:
    from changeover.cli.teams import STORE, load_team, working_team
    from changeover.observe.drawing.diagram import plan_of
    from changeover.observe.drawing.svg import drawn

    if store is not None or address.partition(":")[0] == STORE:
        return drawn(plan_of(asyncio.run(_united(working_team(address, store)[0]))), format)
    return drawn(plan_of(load_team(address).roster), format)


async def _united(team: Team) -> Roster:
    """The members of a team, with those that its store declares."""
    try:
        return (await team.engine.world()).roster
    finally:
        await team.close()


def _course(id: str, format: Format, store: str | None) -> str:
    async def find(opened: OpenStore) -> Course | None:
        from changeover.cli.options import OpenDatabase
        from changeover.observe.drawing.course import course_of
        from changeover.relay.history import recorded
        from changeover.relay.ports.lists import ConversationRow

        found = await opened.lists.one(ConversationRow, id)
        if found is None:
            return None
        handoffs, flows = await opened.lists.handoffs(id), await opened.lists.context_flow(id)
        # A server gives no whole log: what was refused is not drawn then.
        events = recorded(await opened.log.tree(id)) if isinstance(opened, OpenDatabase) else ()
        return course_of(id, found.agent, handoffs, flows, events)

    course = in_store(store, find)
    if course is None:
        raise Mistake(f"no conversation has the id {id!r}; a team is given as file.py:name or package.module:name")
    from changeover.observe.drawing.svg import drawn

    return drawn(course, format)


def wrapped(text: str) -> str:
    """The drawing with long lines wrapped to the terminal, and the branches continued beside them."""
    from changeover.cli.exits import console

    out = console()
    return "\n".join(lines_within(text, out, out.width)) if out.is_terminal else text


def lines_within(text: str, out: Console, width: int) -> Iterator[str]:
    """The lines of a drawing, wrapped to this width."""
    for line in text.splitlines():
        yield from _wrapped_line(line, out, width)


def _wrapped_line(line: str, out: Console, width: int) -> Iterator[str]:
    from rich.cells import cell_len
    from rich.text import Text

    if cell_len(line) <= width:
        yield line
        return
    found = LEAD.match(line)
    lead = found[0] if found else ""
    below = re.sub(r"[^│]", " ", lead.replace("├", "│")) or " " * HANGING
    # At least 1: a terminal narrower than the branches wraps the line itself.
    room = max(width - cell_len(below), 1)
    for index, part in enumerate(Text(line[len(lead) :]).wrap(out, room)):
        yield f"{below if index else lead}{part.plain}".rstrip()


def encodable(text: str) -> str:
    """The drawing in characters that the encoding of standard output has."""
    import sys

    if (sys.stdout.encoding or "").lower().startswith("utf"):
        return text
    return text.translate(str.maketrans("├└│─╌▶", "|`|-.>")).replace("…", "...")
