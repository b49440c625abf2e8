"""Command `graph`: draw a team or a conversation as text, Mermaid or SVG."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from changeover.cli.conversations import look
from changeover.cli.exits import Mistake, plainly
from changeover.cli.options import StoreOption

if TYPE_CHECKING:
    from rich.console import Console

    from changeover.observe.drawing import Course, Plan
    from changeover.stores.views import Views

Format = Literal["text", "mermaid", "svg"]

LEAD = re.compile(r"[ │├└─▶]*(?:(?:tool|hands to|asks)  +)?")
"""The branches before a line, and the column that says what it is."""
HANGING = 4


def graph(
    what: Annotated[
        str,
        typer.Argument(
            metavar="TEAM|CONVERSATION",
            help="file.py:name, package.module:name, a YAML file; or the id of a recorded conversation.",
            show_default=False,
        ),
    ],
    format: Annotated[Format, typer.Option("--format", help="SVG and Mermaid are for files and pages.")] = "text",
    store: StoreOption = None,
) -> None:
    """Draw a team (agents, tools, handoffs, delegates), or a conversation (who handed to whom, and why)."""
    from changeover.cli.teams import is_team

    with plainly():
        drawn = _team(what, format) if is_team(what) else _course(what, format, store)
        typer.echo(_typable(_fitted(drawn) if format == "text" else drawn))


def _team(address: str, format: Format) -> str:
    from changeover.cli.teams import load_team
    from changeover.observe.drawing import plan_of

    return _drawn_plan(plan_of(load_team(address).roster), format)


def _course(id: str, format: Format, store: str | None) -> str:
    async def find(views: Views) -> Course | None:
        from changeover.observe.drawing import course_of
        from changeover.relay.lists import ConversationRow

        found = await views.one(ConversationRow, id)
        return course_of(id, found.agent, await views.handoffs(id)) if found else None

    course = look(store, find)
    if course is None:
        raise Mistake(f"no conversation has the id {id!r}; a team is given as file.py:name or package.module:name")
    return _drawn_course(course, format)


def _drawn_plan(plan: Plan, format: Format) -> str:
    from changeover.observe.drawing import team_mermaid, team_text
    from changeover.observe.svg import team_svg

    return {"text": team_text, "mermaid": team_mermaid, "svg": team_svg}[format](plan)


def _drawn_course(course: Course, format: Format) -> str:
    from changeover.observe.drawing import course_mermaid, course_text
    from changeover.observe.svg import course_svg

    return {"text": course_text, "mermaid": course_mermaid, "svg": course_svg}[format](course)


def _fitted(text: str) -> str:
    """On a terminal, lines that are too long go on below themselves, and the branches beside them do too."""
    from changeover.cli.terminal.render import console

    out = console()
    if not out.is_terminal:
        return text
    return "\n".join(part for line in text.splitlines() for part in _wrapped(line, out))


def _wrapped(line: str, out: Console) -> Iterator[str]:
    from rich.cells import cell_len
    from rich.text import Text

    if cell_len(line) <= out.width:
        yield line
        return
    found = LEAD.match(line)
    lead = found[0] if found else ""
    below = re.sub(r"[^│]", " ", lead.replace("├", "│")) or " " * HANGING
    # Of a terminal that is too narrow for the branches, the terminal itself makes the best.
    room = max(out.width - cell_len(below), 1)
    for index, part in enumerate(Text(line[len(lead) :]).wrap(out, room)):
        yield f"{below if index else lead}{part.plain}".rstrip()


def _typable(text: str) -> str:
    """The same in the letters that standard output can write."""
    import sys

    if (sys.stdout.encoding or "").lower().startswith("utf"):
        return text
    plain = text.translate(str.maketrans("├└│─▶", "|`|->")).replace("…", "...")
    return plain.encode(sys.stdout.encoding or "ascii", "replace").decode(sys.stdout.encoding or "ascii")
