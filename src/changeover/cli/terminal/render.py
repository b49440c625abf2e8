"""Tables, records and JSON on standard output; plain text in a pipe."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from changeover.facts import dated

CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x09\x0b-\x1f\x7f-\x9f]")
"""A whole escape sequence, or any other sign that steers a terminal."""
COLOURS = {
    **dict.fromkeys(("completed", "approved", "COMPLETE", "RETURNED", "ok", "closed"), "green"),
    **dict.fromkeys(("failed", "rejected", "FAILED", "REJECTED", "TIMEOUT", "wrong", "open"), "red"),
    **dict.fromkeys(("waiting", "pending", "PENDING", "half-open"), "yellow"),
    **dict.fromkeys(("running", "WORKING", "ACCEPTED"), "cyan"),
}
SPACE = 2
ROOM = 24
"""How narrow the last column may get before records are shown one below the other."""

Row = Mapping[str, str]


def console(error: bool = False) -> Console:
    """Standard output or error: coloured on a terminal, plain in a pipe, and plain wherever NO_COLOR is set."""
    return Console(color_system=None if os.environ.get("NO_COLOR") else "auto", highlight=False, stderr=error)


def clean(text: str) -> str:
    """Text without what would steer a terminal."""
    return CONTROL.sub("", text.replace("\t", " ").replace("\r\n", "\n"))


def line_of(text: str) -> str:
    """Text on one line."""
    return clean(" ".join(text.split()))


def when(seconds: float | None) -> str:
    """A time as people here read it."""
    return "" if seconds is None else f"{dated(seconds).astimezone():%Y-%m-%d %H:%M:%S}"


def json_time(seconds: float | None) -> str | None:
    """A time as programs everywhere read it."""
    return None if seconds is None else dated(seconds).isoformat(timespec="milliseconds")


def print_json(value: Any) -> None:
    """JSON, indented."""
    # ASCII escapes: a pipe may have any encoding, and JSON is the same either way.
    ascii_only = not (sys.stdout.encoding or "").lower().startswith("utf")
    typer.echo(json.dumps(value, indent=2, ensure_ascii=ascii_only, default=str))


def print_table(rows: Sequence[Row], nothing: str) -> None:
    """Records with the same fields; the last one may be long."""
    out = console()
    if not rows:
        typer.echo(nothing, err=True)
    elif not out.is_terminal or _narrow(rows) <= out.width:
        _columns(out, rows)
    else:
        _below(out, rows)


def print_record(row: Row) -> None:
    """One record, a field on each line; empty fields are left out."""
    out = console()
    left = max(map(len, row)) + SPACE
    for name, value in row.items():
        if value:
            hang(out, Text(f"{name:<{left}}", "dim"), Text(value, COLOURS.get(value, "")), left)


def _narrow(rows: Sequence[Row]) -> int:
    """How wide a terminal must be so that nothing but the last column is wrapped."""
    *fixed, last = _widths(rows)
    return sum(fixed) + SPACE * len(fixed) + min(last, ROOM)


def _widths(rows: Sequence[Row]) -> list[int]:
    return [max(cell_len(name), *(cell_len(row[name]) for row in rows)) for name in rows[0]]


def _columns(out: Console, rows: Sequence[Row], titles: Sequence[str] = ()) -> None:
    names, widths = list(rows[0]), _widths(rows)
    left = sum(widths[:-1]) + SPACE * (len(widths) - 1)
    head = Text("".join(_fill(name, width) for name, width in zip(names, widths, strict=True)).rstrip(), "bold")
    out.print(head, soft_wrap=True)
    for index, row in enumerate(rows):
        if titles:
            out.print(Text(titles[index], "bold"), soft_wrap=True)
        cells = [
            Text(_fill(row[name], width), COLOURS.get(row[name], ""))
            for name, width in zip(names[:-1], widths[:-1], strict=True)
        ]
        last = row[names[-1]]
        hang(out, Text.assemble(*cells), Text(last, COLOURS.get(last, "")), left)


def _below(out: Console, rows: Sequence[Row]) -> None:
    """What names a record gets a line of its own, so that it can be copied whole; the rest stands below it."""
    first, *names = rows[0]
    # A column without name or width: what is below a title is indented.
    rest = [{"": ""} | {name: row[name] for name in names} for row in rows]
    if _narrow(rest) <= out.width:
        out.print(Text(first, "bold"))
        _columns(out, rest, [row[first] for row in rows])
        return
    for row in rows:
        print_record(row)
        out.print()


def _fill(value: str, width: int) -> str:
    return value + " " * (width - cell_len(value) + SPACE)


def hang(out: Console, lead: Text, text: Text, left: int) -> None:
    """A text to the right of its lead; on a terminal it stays there, in a pipe it stays on one line."""
    room = out.width - left
    lines = list(text.wrap(out, room)) if out.is_terminal and room >= ROOM else text.split("\n")
    for index, line in enumerate(lines or [Text("")]):
        whole = Text.assemble(lead if not index else " " * left, line)
        whole.rstrip()
        out.print(whole, soft_wrap=True)
