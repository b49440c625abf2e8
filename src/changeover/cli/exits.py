"""Exit codes, and how errors become one line on standard error."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import typer


class Exit(IntEnum):
    """What the command tells a script."""

    FINE = 0
    FAILED = 1
    WRONG_USE = 2
    """Typer's own."""
    WAITING = 3
    INTERRUPTED = 130
    """As shells have it."""


EXITS = (
    "Exit codes: 0 fine, 1 the run failed or something is wrong, 2 wrong use, 3 the run waits for a person"
    " or a worker, 130 interrupted."
)


class Mistake(Exception):
    """Something that the user can put right; its text says how."""


def tell(text: str) -> None:
    """Say something that is no result, where it is in nobody's way."""
    typer.echo(text, err=True)


@contextmanager
def plainly() -> Iterator[None]:
    """Turn what can go wrong in the world into a line on standard error and exit code 1."""
    from changeover.errors import ChangeoverError

    _log_plainly()
    try:
        yield
    except (Mistake, ChangeoverError) as error:
        tell(f"changeover: {lined(error)}")
        raise typer.Exit(Exit.FAILED) from None


def lined(error: BaseException) -> str:
    """An error as people read it; several faults stand below one another."""
    from changeover.errors import MisconfiguredError

    if isinstance(error, MisconfiguredError) and len(error.faults) > 1:
        return "\n".join([f"{len(error.faults)} things are wrong:", *(f"  - {fault}" for fault in error.faults)])
    return " ".join(str(error).split()) or type(error).__name__


class _Lines(logging.Formatter):
    """A line for each record: what was raised stands at its end, and not as a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        raised = f": {type(record.exc_info[1]).__name__}: {record.exc_info[1]}" if record.exc_info else ""
        return f"changeover: {record.getMessage()}{raised}"


def _log_plainly() -> None:
    # What the user configured, in the module of a team or before, stays as it is.
    ours = logging.getLogger("changeover")
    if not ours.handlers and not logging.getLogger().handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_Lines())
        ours.addHandler(handler)
