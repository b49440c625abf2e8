"""Page: a conversation on a terminal, speakers on the left, text on the right; and the commands to try next."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from changeover.cli.terminal.render import is_unicode

WIDTH = 80
"""The widest line, for legibility, on any terminal."""
FIELD = 12
"""The width of the name of a field."""
SPEAKER_COLOURS = ("default", "cyan", "magenta", "green", "blue", "bright_cyan", "bright_magenta")


def pace_on(console: Console) -> float:
    """The default pace: 1 on a terminal, to read along; 0 in a pipe."""
    return 1.0 if console.file.isatty() else 0.0


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
    """Writes from top to bottom and never goes back, so that a file reads the same."""

    def __init__(self, console: Console, speakers: Iterable[str]) -> None:
        names = list(speakers)
        self._console = console
        self._width = min(console.width, WIDTH)
        self.margin = max(map(len, names)) + 2
        self._colours = {name: SPEAKER_COLOURS[index % len(SPEAKER_COLOURS)] for index, name in enumerate(names)}
        self._column = 0
        self._space = False
        self._empty = True
        self.marks = DRAWN if is_unicode(console) else TYPED

    def title(self, title: str, about: str) -> None:
        """Write a title and an introduction."""
        self.line(Text(title, "bold"), margin=0)
        self.gap()
        self.line(about, margin=0)

    def name(self, speaker: str) -> Text:
        """The name of a speaker, in the colour of that speaker."""
        return Text(speaker, f"bold {self._colours.get(speaker, 'default')}")

    def speaker(self, name: str) -> None:
        """Begin a paragraph of this speaker."""
        self.gap()
        self._put(self.name(name))

    def label(self, text: str, *parts: Text | str, colour: str = "black on yellow") -> None:
        """Begin a paragraph about an event, under a coloured label."""
        self.gap()
        self._put(Text(text, colour))
        self.line(*parts)

    def gap(self) -> None:
        """Leave one line empty, however often it is called."""
        self._break()
        if not self._empty:
            self._console.print()
        self._empty = True

    def rule(self, title: str) -> None:
        """Draw a line with a title across the page."""
        self.gap()
        lead = f"{self.marks.dash * 2} {title} "
        self._put(Text(lead + self.marks.dash * (self._width - len(lead)), "dim"))
        self.gap()

    def entry(self, label: str, *parts: Text | str) -> None:
        """Write a line with a label on the left."""
        self._break()
        self._put(Text(label, "dim"))
        self.line(*parts)

    def write(self, text: str) -> None:
        """Append text on the right; the next piece continues on the same line."""
        for word, space in re.findall(r"(\S*)(\s*)", text):
            if word:
                self._word(word)
            self._space = self._space or bool(space)

    def line(self, *parts: Text | str, margin: int | None = None, lead: Text | str = "", more: Text | str = "") -> None:
        """Write a line of its own after `lead`, at the right column unless `margin` is given; if it is wrapped, further
        lines begin with `more`."""
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
        """Write a line without wrapping it, so that it can be copied."""
        self._break()
        self._put(Text(f"  {text}", "bold"))
        self._break()

    def typed(self) -> None:
        """The user ended the line by pressing Enter."""
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
        # Soft: the console must not wrap what was measured here.
        self._console.print(text, end="", soft_wrap=True)
        self._column += text.cell_len
        self._empty = False


def field(name: str) -> Text:
    """The name of a field, padded."""
    return Text(f"{name:<{FIELD}}", "yellow")


def store_url(store: str | None) -> str:
    """The URL of the store that the user gave as URL or file; by default a new file, which is kept."""
    if store is None:
        handle, store = tempfile.mkstemp(prefix="desk-", suffix=".db")
        os.close(handle)
    return store if "://" in store else f"sqlite:///{store}"


def program() -> str:
    """The command that starts this program from the current folder."""
    if shutil.which("changeover"):
        return "changeover"
    called = Path(sys.argv[0]).absolute()
    if called.name != "changeover":
        return f"{shlex.quote(sys.executable)} -m changeover"
    here = Path.cwd()
    return shlex.quote(str(called.relative_to(here) if called.is_relative_to(here) else called))


def show_store(page: Page, url: str, conversation: str, events: int) -> None:
    """Write where the log is stored, and commands that read it."""
    page.entry("log", f"{events} events in {url.removeprefix('sqlite:///')}; all of the above is read from them")
    page.rule("what to try next")
    for command in ("conversations", "handoffs list", f"graph {conversation}"):
        page.verbatim(f"{program()} {command} --store {shlex.quote(url)}")
