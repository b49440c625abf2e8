"""A conversation on a terminal: who speaks stands on the left, what is said on the right, word by word."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

WIDTH = 80
"""Lines longer than this are hard to read, however wide the terminal is."""

DRAWN, TYPED = ("──▶", "└─", "─"), ("-->", "=>", "-")
COLOURS = ("default", "cyan", "magenta", "green", "blue")


def console() -> Console:
    """Standard output: coloured on a terminal, plain in a pipe, and plain wherever NO_COLOR is set."""
    return Console(color_system=None if os.environ.get("NO_COLOR") else "auto", highlight=False)


class Page:
    """Writes from top to bottom and never goes back, so that it reads the same in a file."""

    def __init__(self, console: Console, speakers: Iterable[str]) -> None:
        names = list(speakers)
        self._console = console
        self._width = min(console.width, WIDTH)
        self._margin = max(map(len, names)) + 2
        self._colours = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(names)}
        self._column = 0
        self._space = False
        self.arrow, self.elbow, self._dash = DRAWN if console.encoding.startswith("utf") else TYPED

    def name(self, speaker: str) -> Text:
        """A speaker, in the same colour everywhere."""
        return Text(speaker, f"bold {self._colours.get(speaker, 'default')}")

    def speaker(self, name: str) -> None:
        """Begin a paragraph of this speaker."""
        self.gap()
        self._put(self.name(name))

    def gap(self) -> None:
        """Leave a line empty."""
        self._break()
        self._console.print()

    def rule(self, title: str) -> None:
        """A line across the page."""
        self.gap()
        lead = f"{self._dash * 2} {title} "
        self._put(Text(lead + self._dash * (self._width - len(lead)), "dim"))
        self.gap()

    def entry(self, label: str, *parts: Text | str) -> None:
        """A line with a label on the left."""
        self._break()
        self._put(Text(label, "dim"))
        self.line(*parts)

    def write(self, text: str) -> None:
        """Go on writing on the right; a piece may end within a line, and the next one goes on there."""
        for word, space in re.findall(r"(\S*)(\s*)", text):
            if word:
                self._word(word)
            self._space = self._space or bool(space)

    def line(self, *parts: Text | str, margin: int | None = None) -> None:
        """A line of its own, or several if it is long; on the right unless another margin is given."""
        left = self._margin if margin is None else margin
        if self._column > left or self._space:
            self._break()
        for row in Text.assemble(*parts).wrap(self._console, max(self._width - left, 20)):
            row.rstrip()
            self._indent(left)
            self._put(row)
            self._break()

    def _word(self, word: str) -> None:
        if self._column + self._space + cell_len(word) > self._width:
            self._break()
        if self._column < self._margin:
            self._indent(self._margin)
        else:
            self._put(Text(" " * self._space))
        self._space = False
        self._put(Text(word))

    def _indent(self, to: int) -> None:
        self._put(Text(" " * (to - self._column)))

    def _break(self) -> None:
        if self._column:
            self._console.print()
        self._column, self._space = 0, False

    def _put(self, text: Text) -> None:
        # Soft: the console must not wrap again what was measured here.
        self._console.print(text, end="", soft_wrap=True)
        self._column += text.cell_len
