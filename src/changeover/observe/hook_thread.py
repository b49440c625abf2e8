"""HookThread: calls plain functions one after the other, in one thread beside the event loop."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Any

IDLE = 1.0
"""Seconds after which a thread without work ends."""

Outcome = tuple[Any, BaseException | None]


class Job:
    """One call: `started` when the thread begins it, `outcome` when it has returned. Both belong to one event loop."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._loop, self._context, self._call = asyncio.get_running_loop(), copy_context(), call
        self.started: asyncio.Future[None] = self._loop.create_future()
        self.outcome: asyncio.Future[Outcome] = self._loop.create_future()

    def run(self) -> None:
        """Make the call; called by the thread."""
        self._tell(self.started, None)
        try:
            outcome: Outcome = (self._context.run(self._call), None)
        except BaseException as error:
            outcome = (None, error)
        self._tell(self.outcome, outcome)

    def _tell(self, future: asyncio.Future[Any], value: Any) -> None:
        with suppress(RuntimeError):  # the loop may be closed by the time a late function returns
            self._loop.call_soon_threadsafe(_set, future, value)


class HookThread:
    """Calls functions in the order in which they are put.

    The thread is started when it is needed. If a caller gives up a call under way, another thread takes its place.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._jobs: deque[Job] = deque()
        self._running: Job | None = None
        self._thread: threading.Thread | None = None

    def put(self, function: Callable[..., Any], *args: Any) -> Job:
        job = Job(functools.partial(function, *args))
        with self._changed:
            self._jobs.append(job)
            if self._thread is None:
                self._start()
            self._changed.notify()
        return job

    def give_up(self, job: Job) -> None:
        """Do not begin this job, or let other jobs pass it if it is under way; does nothing if it has ended."""
        with self._changed:
            if job in self._jobs:
                self._jobs.remove(job)
            elif self._running is job:
                self._running = None
                self._start()

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._serve, name="changeover-hooks", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        me = threading.current_thread()
        while (job := self._next(me)) is not None:
            job.run()

    def _next(self, me: threading.Thread) -> Job | None:
        """The next job; None if another thread took the place of this one, or if there was no work for a while."""
        with self._changed:
            if self._thread is not me:
                return None
            self._running = None
            if not self._jobs and not self._changed.wait_for(lambda: self._jobs, IDLE):
                self._thread = None
                return None
            self._running = self._jobs.popleft()
            return self._running


def _set(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():  # the caller may have given up
        future.set_result(value)


def is_async(function: Callable[..., Any]) -> bool:
    """True if calling this only makes a coroutine: an async function, a partial of one, or an object with an async
    `__call__`."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
