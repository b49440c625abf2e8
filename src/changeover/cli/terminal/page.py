"""Page: a conversation on a terminal or in a file, speakers on the left, text on the right, and a spinner below."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable
from typing import NamedTuple

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.live import Live
from rich.text import Text

from changeover.cli.exits import clean, one_line
from changeover.cli.terminal.render import is_unicode

WIDTH = 100
"""The widest line, for legibility, on any terminal."""
FIELD = 12
"""The width of the name of a field."""
NARROWEST, WIDEST = 11, 18
"""The least and the most columns on the left; a label such as ESCALATION always fits."""
LEAST = 20
"""The least columns for text, however narrow the terminal is."""
FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
COLOURS = ("cyan", "magenta", "green", "blue", "bright_cyan", "bright_magenta")


class Marks(NamedTuple):
    """The characters that lines are drawn with."""

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
    """Writes from top to bottom and never goes back, so that a file reads the same; text is wrapped between words."""

    def __init__(self, console: Console, speakers: Iterable[str]) -> None:
        names = [one_line(name) for name in speakers]
        self._console = console
        self.width = min(console.width, WIDTH)
        fitting = [len(name) + 2 for name in names if len(name) + 2 <= WIDEST]
        self.margin = max(NARROWEST, *fitting) if fitting else NARROWEST
        self._colours = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(names)}
        self.lines = 0
        """Number of lines that were written."""
        self._column = 0
        self._space, self._word = "", ""
        """What was written after the last whole word: blanks, and the beginning of the next word."""
        self._empty = True
        self._spinner: Live | None = None
        self._busy = ("", 0.0)
        self.marks = DRAWN if is_unicode(console) else TYPED
        self.is_animated = console.is_terminal and console.color_system is not None and is_unicode(console)
        """False if NO_COLOR is set: moving text needs escape codes too."""

    def name(self, speaker: str) -> Text:
        """The name of a speaker, in the colour of that speaker."""
        shown = one_line(speaker)
        return Text(shown, f"bold {self._colours.get(shown, 'default')}")

    def speaker(self, name: str) -> None:
        """Begin a paragraph of this speaker."""
        self.gap()
        self._put(self.name(name))
        if self._column >= self.margin:
            self.end_line()

    def label(self, text: str, *parts: Text | str, colour: str = "black on yellow") -> None:
        """Begin a paragraph about an event, under a coloured label."""
        self.gap()
        self._put(Text(text, colour))
        self.line(*parts)

    def gap(self) -> None:
        """Leave one line empty, however often it is called."""
        self.end_line()
        if not self._empty:
            self._print(Text(""), "\n")
        self._empty = True

    def title(self, title: str, about: str) -> None:
        """Write a title and an introduction."""
        self.line(Text(title, "bold"), margin=0)
        self.gap()
        self.line(about, margin=0)

    def rule(self, title: str) -> None:
        """Draw a line with a title across the page."""
        self.gap()
        lead = f"{self.marks.dash * 2} {title} "
        self._put(Text(lead + self.marks.dash * (self.width - len(lead)), "dim"))
        self.gap()

    def entry(self, label: str, *parts: Text | str) -> None:
        """Write a line with a label on the left."""
        self.end_line()
        self._put(Text(label, "dim"))
        self.line(*parts)

    def field(self, name: str, text: str) -> None:
        """Write a named value at the right column."""
        self.line(text, lead=Text(f"{one_line(name):<{FIELD}}", "yellow"), more=" " * FIELD)

    def line(self, *parts: Text | str, margin: int | None = None, lead: Text | str = "", more: Text | str = "") -> None:
        """Write a line of its own after `lead`, at the right column unless `margin` is given; if it is wrapped, further
        lines begin with `more`."""
        left = self.margin if margin is None else margin
        if self._column > left or self._word or self._space:
            self.end_line()
        for row in Text.assemble(*parts).wrap(self._console, max(self.width - left - len(lead), LEAST)):
            row.rstrip()
            if row or lead or self._column:
                self._indent(left if row or lead else 0)
                self._put(Text.assemble(lead, row))
                self.end_line()
            else:
                self._print(Text(""), "\n")
            lead = more

    def nested(self, depth: int, mark: str, *parts: Text | str) -> None:
        """Write a line of a delegate at this depth, with a mark before it."""
        bars, below = f"{self.marks.bar} " * depth, " " * len(mark)
        if mark.startswith(self.marks.top):
            below = below.replace(" ", self.marks.bar, 1)
        self.line(*parts, lead=Text(bars + mark, "dim"), more=Text(bars + below, "dim"))

    def verbatim(self, text: str) -> None:
        """Write a line without wrapping it, so that it can be copied."""
        self.end_line()
        self._put(Text(f"  {text}", "bold"))
        self.end_line()

    def write(self, text: str) -> None:
        """Append text on the right. A word is printed when it is complete, so that it is never broken."""
        for piece in re.findall(r"\s+|\S+", clean(text)):
            if not piece.isspace():
                self._word += piece
            elif self._word or self._column > self.margin:
                self._end_word()
                self._space += piece

    def prompt(self, question: str, is_terminal: bool, speaker: str = "") -> str:
        """The line that the user types after a question, or beside the name of a speaker. A line from a pipe is
        printed, so that the output is complete. Raises EOFError."""
        typed = "" if is_terminal else input().strip()
        if not is_terminal and not typed:
            return ""
        if speaker:
            self.speaker(speaker)
        elif self._column > self.margin:
            self.end_line()
        if self.margin + len(question) + LEAST > self.width:
            self.line(question)
            question = ""
        self._indent(self.margin)
        self._put(Text(question + clean(typed)))
        if not is_terminal:
            self.end_line()
            return typed
        typed = input().strip()
        self._column, self._empty = 0, False  # the user ended the line
        return typed

    def busy(self, what: str, since: float) -> None:
        """Show what is going on, with a spinner and the seconds since that time, until something is written."""
        self._busy = one_line(what), since
        if self._spinner is None and not self._column and self.is_animated:
            # Messages on the same terminal are printed above the spinner.
            self._spinner = Live(
                console=self._console,
                transient=True,
                refresh_per_second=10,
                redirect_stderr=sys.stderr.isatty(),
                get_renderable=self._frame,
            )
            self._spinner.start()

    def end_line(self) -> None:
        """End the line that was begun."""
        self._end_word()
        if self._column:
            self._print(Text(""), "\n")
        self._column, self._space = 0, ""

    def close(self) -> None:
        """End the line, and take the spinner away."""
        self.end_line()
        self._stop()

    def _frame(self) -> Text:
        what, since = self._busy
        seconds = max(0.0, time.time() - since)
        return Text(f"{' ' * self.margin}{FRAMES[int(seconds * 10) % len(FRAMES)]} {what} {seconds:.0f} s", "dim")

    def _stop(self) -> None:
        if self._spinner is not None:
            self._spinner.stop()
            self._spinner = None

    def _end_word(self) -> None:
        word, self._word = self._word, ""
        if not word:
            return
        lines, indent = self._space.count("\n"), len(self._space.rpartition("\n")[2])
        if lines:
            self.end_line()
            if lines > 1:
                self.gap()
        self._space, blank = "", " " * bool(self._space)
        room = max(self.width - self.margin, LEAST)
        for piece in chop_cells(word, room) if cell_len(word) > room else [word]:
            if self._column > self.margin and self._column + len(blank) + cell_len(piece) > self.margin + room:
                self.end_line()
            at_begin = self._column <= self.margin
            self._indent(self.margin + (indent if lines and indent < room // 2 else 0) if at_begin else self._column)
            self._put(Text(piece if at_begin else blank + piece))
            blank, lines = "", 0

    def _indent(self, to: int) -> None:
        if to > self._column:
            self._put(Text(" " * (to - self._column)))

    def _put(self, text: Text) -> None:
        self._print(text, "")
        self._column += text.cell_len
        self._empty = False

    def _print(self, text: Text, end: str) -> None:
        self._stop()
        self.lines += end == "\n"
        # Soft: the console must not wrap what was measured here.
        self._console.print(text, end=end, soft_wrap=True)
