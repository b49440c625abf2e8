"""Exit codes, messages that are safe to print on a terminal, and errors as one line on standard error."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from inspect import cleandoc
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console

CONTROL = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b\]|\x9d)[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)"
    r"|[\x00-\x09\x0b-\x1f\x7f-\x9f]"
)
"""An escape sequence, or a control character other than a newline."""
STEERING = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""A character that turns the direction of a text, or half a character, which no terminal can print."""
BROKEN = re.compile("[\ud800-\udfff]")
"""Half a character: Python's stand-in for a byte of an argument that is not UTF-8."""
LONGEST = 500
"""Largest number of characters of a text that are shown on one line."""
RAW = re.compile(rf"{STEERING.pattern}|[\x7f-\x9f]")


class Exit(IntEnum):
    """Exit codes of all commands."""

    FINE = 0
    FAILED = 1
    WRONG_USE = 2
    """Set by Typer."""
    WAITING = 3
    INTERRUPTED = 130
    """The convention of shells for Ctrl-C."""


EXITS = (
    "Exit codes: 0 fine, 1 the run failed or something is wrong, 2 wrong use, 3 the run waits for a person"
    " or a worker, 130 interrupted."
)


def add_exits(*commands: Callable[..., None]) -> None:
    """Append the exit codes to the help of commands that run a team."""
    for command in commands:
        command.__doc__ = f"{cleandoc(command.__doc__ or '')}\n\n{EXITS}"


class Mistake(Exception):
    """An error that the user can correct; its text says how."""


def clean(text: str) -> str:
    """The text, safe for a terminal: without control characters except newlines, and with the code of each character
    that turns the direction of a text, as in <U+202E>. Everything that commands print for people passes through here.
    """
    text = CONTROL.sub("", text.replace("\t", " ").replace("\r\n", "\n"))
    return STEERING.sub(lambda found: f"<U+{ord(found[0]):04X}>", text)


def escaped(json: str) -> str:
    """JSON with the same characters as escapes, for programs: its meaning is the same."""
    return RAW.sub(lambda found: f"\\u{ord(found[0]):04x}", json)


def one_line(text: str) -> str:
    """The text on one line, without control characters."""
    return clean(" ".join(text.split()))


def short(text: str) -> str:
    """The beginning of a text on one line; the log has all of it."""
    shown = one_line(text)
    return shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}..."


def console(error: bool = False) -> Console:
    """Standard output or error: coloured on a terminal, plain in a pipe or if NO_COLOR is set."""
    from rich.console import Console

    return Console(color_system=None if os.environ.get("NO_COLOR") else "auto", highlight=False, stderr=error)


def say(text: str) -> None:
    """Print a result on standard output."""
    typer.echo(clean(text))


def tell(text: str) -> None:
    """Print a message that is not a result on standard error. On a terminal it is wrapped between words."""
    lines = clean(text).split("\n")
    typer.echo("\n".join(_wrapped(lines) if sys.stderr.isatty() else lines), err=True)


def _wrapped(lines: Iterable[str]) -> Iterator[str]:
    from rich.text import Text

    out = console(error=True)
    for line in lines:
        said = line.lstrip(" -")
        indent = len(line) - len(said)
        if said.startswith("changeover ") or indent + 20 > out.width:
            yield line  # a command to copy: the terminal breaks the line and copies it whole
            continue
        for index, part in enumerate(Text(said).wrap(out, out.width - indent) or [Text("")]):
            part.rstrip()
            yield f"{' ' * indent if index else line[:indent]}{part}"


@contextmanager
def errors_reported() -> Iterator[None]:
    """Print a Mistake, a ChangeoverError or invalid UTF-8 in an argument on standard error, and exit with code 1."""
    from changeover.errors import ChangeoverError

    _configure_log()
    try:
        if any(map(BROKEN.search, sys.argv[1:])):
            raise Mistake("an argument is not valid UTF-8")
        yield
    except (Mistake, ChangeoverError) as error:
        tell(f"changeover: {error_text(error)}")
        raise typer.Exit(Exit.FAILED) from None


@contextmanager
def interruption_reported() -> Iterator[None]:
    """End a command that Ctrl-C interrupts with a line, unless it has said more about it itself, and with code 130."""
    try:
        yield
    except KeyboardInterrupt:
        tell("\nInterrupted.")
        raise typer.Exit(Exit.INTERRUPTED) from None


def error_text(error: BaseException) -> str:
    """An error on one line; several faults of a team as a list."""
    from changeover.errors import MisconfiguredError

    if isinstance(error, MisconfiguredError) and len(error.faults) > 1:
        return "\n".join([f"{len(error.faults)} things are wrong:", *(f"  - {fault}" for fault in error.faults)])
    return " ".join(str(error).split()) or type(error).__name__


class _LogHandler(logging.Handler):
    """One line on standard error per record: an exception is appended to it, without a traceback."""

    def emit(self, record: logging.LogRecord) -> None:
        raised = f": {type(record.exc_info[1]).__name__}: {record.exc_info[1]}" if record.exc_info else ""
        tell(f"changeover: {record.getMessage()}{raised}")


def _configure_log() -> None:
    # A configuration made by the team's module or by the environment is kept.
    logger = logging.getLogger("changeover")
    if not logger.handlers and not logging.getLogger().handlers:
        logger.addHandler(_LogHandler())
