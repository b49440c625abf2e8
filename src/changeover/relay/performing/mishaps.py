"""What goes wrong in code that is not ours: it has failed, and what it said is kept in words."""

from __future__ import annotations

import asyncio

from changeover.errors import ModelError
from changeover.relay.sanitize import text_of

# A user's code may also ask for the end of the process, or let a cancellation of its own out: it has failed.
TROUBLE = (Exception, asyncio.CancelledError, SystemExit)


def let_go(error: BaseException) -> None:
    """Raise a cancellation that is meant for this task; one that a user's code let out is an error like any other."""
    task = asyncio.current_task()
    if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
        raise error


def words_of(error: BaseException) -> str:
    """An error as people read it, cut where it rambles."""
    text = str(error)
    if not isinstance(error, ModelError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text_of(text[:2_000])
