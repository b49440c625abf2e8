"""Grid: a table for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.table import Table

TEXTS = 2
"""The number of columns of words; the others are numbers."""


class Grid(NamedTuple):
    """A table of words and numbers."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def table(self) -> Table:
        """For a terminal."""
        table = Table(title=self.title, title_justify="left", box=None, padding=(0, 1, 0, 0))
        for index, name in enumerate(self.head):
            table.add_column(name, justify="left" if index < TEXTS else "right", no_wrap=True)
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        """For a page."""
        return "".join(f"| {' | '.join(row)} |\n" for row in self._lines())

    def _lines(self) -> Iterator[Sequence[str]]:
        widths = [max(map(len, column)) for column in zip(self.head, *self.rows, strict=True)]
        ruled = ["-" * width if index < TEXTS else "-" * (width - 1) + ":" for index, width in enumerate(widths)]
        for row in (self.head, ruled, *self.rows):
            yield [
                cell.ljust(width) if index < TEXTS else cell.rjust(width)
                for index, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
