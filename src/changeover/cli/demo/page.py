"""Page: a conversation on a terminal, speakers on the left, text on the right."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

WIDTH = 80
"""Lines longer than this are hard to read, however wide the terminal is."""
COLOURS = ("default", "cyan", "magenta", "green", "blue", "bright_cyan", "bright_magenta")


def pace_on(console: Console) -> float:
    """How slowly to write where nobody says it: to read along on a terminal, at once in a pipe."""
    return 1.0 if console.file.isatty() else 0.0


class Marks(NamedTuple):
    """What lines are drawn with."""

    arrow: str
    elbow: str
    dash: str
    top: str
    bar: str
    tee: str
    bottom: str


DRAWN = Marks("──▶", "└─", "─", "┌", "│", "├", "└")
TYPED = Marks("-->", "=>", "-", ".", "|", "|", "`")


class Page:
    """Writes from top to bottom and never goes back, so that it reads the same in a file."""

    def __init__(self, console: Console, speakers: Iterable[str]) -> None:
        names = list(speakers)
        self._console = console
        self._width = min(console.width, WIDTH)
        self.margin = max(map(len, names)) + 2
        self._colours = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(names)}
        self._column = 0
        self._space = False
        self._empty = True
        self.marks = DRAWN if console.encoding.lower().startswith("utf") else TYPED

    def title(self, title: str, about: str) -> None:
        """What this is."""
        self.line(Text(title, "bold"), margin=0)
        self.gap()
        self.line(about, margin=0)

    def name(self, speaker: str) -> Text:
        """A speaker, in the same colour everywhere."""
        return Text(speaker, f"bold {self._colours.get(speaker, 'default')}")

    def speaker(self, name: str) -> None:
        """Begin a paragraph of this speaker."""
        self.gap()
        self._put(self.name(name))

    def label(self, text: str, *parts: Text | str, colour: str = "black on yellow") -> None:
        """Begin a paragraph that nobody speaks: it says what happens."""
        self.gap()
        self._put(Text(text, colour))
        self.line(*parts)

    def gap(self) -> None:
        """Leave a line empty, and no second one."""
        self._break()
        if not self._empty:
            self._console.print()
        self._empty = True

    def rule(self, title: str) -> None:
        """A line across the page."""
        self.gap()
        lead = f"{self.marks.dash * 2} {title} "
        self._put(Text(lead + self.marks.dash * (self._width - len(lead)), "dim"))
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

    def line(self, *parts: Text | str, margin: int | None = None, lead: Text | str = "", more: Text | str = "") -> None:
        """A line of its own after its lead, on the right unless another margin is given; a long one goes on in
        further lines, each after `more`."""
        left = self.margin if margin is None else margin
        if self._column > left or self._space:
            self._break()
        for row in Text.assemble(*parts).wrap(self._console, max(self._width - left - len(lead), 20)):
            row.rstrip()
            self._indent(left)
            self._put(Text.assemble(lead, row))
            self._break()
            lead = more

    def verbatim(self, text: str) -> None:
        """A line that is not wrapped, so that it can be copied."""
        self._break()
        self._put(Text(f"  {text}", "bold"))
        self._break()

    def typed(self) -> None:
        """Somebody else ended the line, by pressing Enter."""
        self._column, self._space, self._empty = 0, False, False

    def _word(self, word: str) -> None:
        if self._column + self._space + cell_len(word) > self._width:
            self._break()
        if self._column < self.margin:
            self._indent(self.margin)
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
        self._empty = False
