"""Hooks that act upon the conversation that they are told of: they must not wait for themselves."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

from changeover.engines.local.conversation import Live

Notice = tuple[Live, asyncio.Task[Any]]

_notices: ContextVar[tuple[Notice, ...]] = ContextVar("notices", default=())
"""In which tasks the hooks of which conversations are called, of which one does what is done here."""


def calls_hooks(live: Live) -> None:
    """The task that says so calls the hooks of this conversation, until it ends."""
    task = asyncio.current_task()
    assert task is not None
    _notices.set((*_open(), (live, task)))


def caller_of(live: Live) -> asyncio.Task[Any] | None:
    """The task that calls the hooks of this conversation, if one of these is what acts here."""
    return next((task for each, task in _open() if each is live), None)


def in_hook() -> bool:
    """Whether it is a hook that acts here."""
    return bool(_open())


def _open() -> tuple[Notice, ...]:
    # What a hook has begun may go on for long after it, and is no hook's then.
    return tuple(notice for notice in _notices.get() if not notice[1].done())
