"""Tables, records, bars and JSON on standard output; plain text in a pipe."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import typer
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from changeover.cli.exits import clean, console, escaped, tell
from changeover.facts import dated

STATUS_COLOURS = {
    **dict.fromkeys(("completed", "approved", "COMPLETE", "RETURNED", "ok", "closed"), "green"),
    **dict.fromkeys(("failed", "rejected", "FAILED", "REJECTED", "TIMEOUT", "wrong", "open", "interrupted"), "red"),
    **dict.fromkeys(("waiting", "pending", "PENDING", "half-open"), "yellow"),
    **dict.fromkeys(("running", "WORKING", "ACCEPTED"), "cyan"),
}
SPACE = 2
ROOM = 24
"""The narrowest last column; with less room, records are shown one below the other."""
TITLE = 40
"""Width of the last column that is worth more than a spare column."""
CUT = frozenset({"title"})
"""Last columns whose end is left out where it does not fit, so that each row takes one line."""
EIGHTHS = "▏▎▍▌▋▊▉█"

Row = Mapping[str, str]


def is_unicode(out: Console) -> bool:
    """True if arrows, boxes and blocks can be printed."""
    return out.encoding.lower().startswith("utf")


def when(seconds: float | None) -> str:
    """A time in the local time zone, for people."""
    return "" if seconds is None else f"{dated(seconds).astimezone():%Y-%m-%d %H:%M:%S}"


def json_time(seconds: float | None) -> str | None:
    """A time in UTC as ISO 8601, for programs."""
    return None if seconds is None else dated(seconds).isoformat(timespec="milliseconds")


def bar(share: float, width: int, blocks: bool = False) -> str:
    """A bar for a share from 0 to 1: block characters of eighths, or `###.......` for every encoding."""
    if not blocks:
        full = round(share * width)
        return "#" * full + "." * (width - full)
    whole, rest = divmod(max(round(share * width * 8), 1) if share else 0, 8)
    return EIGHTHS[-1] * whole + (EIGHTHS[rest - 1] if rest else "")


def print_json(value: Any, indent: int | None = 2) -> None:
    """Print JSON."""
    # ASCII escapes: a pipe may have any encoding, and JSON is the same either way.
    ascii_only = not (sys.stdout.encoding or "").lower().startswith("utf")
    typer.echo(escaped(json.dumps(value, indent=indent, ensure_ascii=ascii_only, default=str)))


def print_json_line(value: Any) -> None:
    """Print JSON on one line, for a reader of a stream."""
    print_json(value, indent=None)


def print_list(
    rows: list[Any],
    limit: int,
    as_json: bool,
    shown: Callable[[Any], Row],
    nothing: str,
    spare: Sequence[str] = (),
) -> None:
    """Print at most `limit` records of a store, as JSON or as a table, and say so if there are more."""
    if as_json:
        print_json([as_data(row) for row in rows[:limit]])
    else:
        print_table(without_empty([shown(row) for row in rows[:limit]]), nothing, spare)
    warn_of_more(rows, limit)


def warn_of_more(rows: Sequence[Any], limit: int) -> None:
    """Say that a list was cut."""
    if len(rows) > limit:
        more = "is more than 1 row" if limit == 1 else f"are more than {limit} rows"
        tell(f"There {more}: raise --limit to see them.")


def without_empty(rows: Sequence[Row]) -> list[Row]:
    """The rows without the columns that are empty in all of them."""
    filled = {name for row in rows for name, value in row.items() if value}
    return [{name: value for name, value in row.items() if name in filled} for row in rows]


def as_data(row: Any) -> dict[str, Any]:
    """A record of a store for JSON."""
    return {name: json_time(value) if _is_time(name) else value for name, value in _fields(row)}


def as_texts(row: Any) -> dict[str, str]:
    """A record of a store for `print_record`."""
    shown: dict[str, str] = {}
    for name, value in _fields(row):
        if _is_time(name):
            shown[name] = when(value)
        elif isinstance(value, dict):
            shown[name] = json.dumps(value, ensure_ascii=False) if value else ""
        else:
            shown[name] = "" if value is None else str(value)
    return shown


def _fields(row: Any) -> Iterable[tuple[str, Any]]:
    return ((name, getattr(row, name)) for name in row.__struct_fields__)


def _is_time(name: str) -> bool:
    return name in ("at", "deadline") or name.endswith("_at")


def print_table(rows: Sequence[Row], nothing: str, spare: Sequence[str] = ()) -> None:
    """Print rows with the same columns; the last column may be long. Without rows, print `nothing`.

    A terminal that is too narrow for all columns leaves out the `spare` ones, the first of them first.
    """
    out = console()
    rows = [{name: clean(value) for name, value in row.items()} for row in rows]
    if rows and out.is_terminal:
        rows = _fitted(rows, spare, out.width)
    if not rows:
        tell(nothing)
    elif not out.is_terminal or _least_width(rows) <= out.width:
        _print_columns(out, rows)
    else:
        _print_stacked(out, rows)


def _fitted(rows: Sequence[Row], spare: Sequence[str], width: int) -> Sequence[Row]:
    for name in spare:
        if _least_width(rows, TITLE) > width:
            rows = [{key: value for key, value in row.items() if key != name} for row in rows]
    *fixed, _ = _widths(rows)
    last, room = list(rows[0])[-1], width - sum(fixed) - SPACE * len(fixed)
    return [{**row, last: _cut(row[last], room)} for row in rows] if last in CUT and room >= ROOM else rows


def _cut(text: str, room: int) -> str:
    """The words of a text that fit into this room, with an ellipsis for the others."""
    if cell_len(text) <= room:
        return text
    begun = set_cell_size(text, room - 1)
    words = begun.rpartition(" ")[0]
    return f"{(words if len(words) > room // 2 else begun).rstrip()}…"


def print_record(row: Row) -> None:
    """Print one record, a field per line; empty fields are left out."""
    out = console()
    left = max(map(len, row)) + SPACE
    for name, value in row.items():
        if value:
            print_hanging(out, Text(f"{name:<{left}}", "dim"), _coloured(clean(value)), left)


def _coloured(value: str) -> Text:
    return Text(value, STATUS_COLOURS.get(value, ""))


def _least_width(rows: Sequence[Row], room: int = ROOM) -> int:
    """The width at which the last column has at least this room, or all that it needs."""
    *fixed, last = _widths(rows)
    return sum(fixed) + SPACE * len(fixed) + min(last, room)


def _widths(rows: Sequence[Row]) -> list[int]:
    return [max(cell_len(name), *(cell_len(row[name]) for row in rows)) for name in rows[0]]


def _print_columns(out: Console, rows: Sequence[Row], titles: Sequence[str] = ()) -> None:
    names, widths = list(rows[0]), _widths(rows)
    left = sum(widths[:-1]) + SPACE * (len(widths) - 1)
    head = Text("".join(map(_padded, names, widths)).rstrip(), "bold")
    out.print(head, soft_wrap=True)
    for index, row in enumerate(rows):
        if titles:
            out.print(Text(titles[index], "bold"), soft_wrap=True)
        *values, last = row.values()
        cells = [
            Text(_padded(value, width), STATUS_COLOURS.get(value, ""))
            for value, width in zip(values, widths[:-1], strict=True)
        ]
        print_hanging(out, Text.assemble(*cells), _coloured(last), left)


def _print_stacked(out: Console, rows: Sequence[Row]) -> None:
    """The first column gets a line of its own, so that an id can be copied whole; the others stand below it."""
    first, *names = rows[0]
    # An empty column indents what stands below the title.
    rest = [{"": ""} | {name: row[name] for name in names} for row in rows]
    if _least_width(rest) <= out.width:
        out.print(Text(first, "bold"))
        _print_columns(out, rest, [row[first] for row in rows])
        return
    for row in rows:
        print_record(row)
        out.print()


def _padded(value: str, width: int) -> str:
    return value + " " * (width - cell_len(value) + SPACE)


def print_hanging(out: Console, lead: Text, text: Text, left: int) -> None:
    """Print a text to the right of its lead; on a terminal it is wrapped there, in a pipe it is not wrapped."""
    room = out.width - left
    lines = list(text.wrap(out, room)) if out.is_terminal and room >= ROOM else text.split("\n")
    for index, line in enumerate(lines or [Text("")]):
        whole = Text.assemble(lead if not index else " " * left, line)
        whole.rstrip()
        out.print(whole, soft_wrap=True)
