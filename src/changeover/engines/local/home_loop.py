"""Home: the event loop on which a team's conversations live, which is the caller's own or one in a thread."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Awaitable, Callable, Coroutine
from threading import get_ident
from typing import Any, TypeVar

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]


class Home:
    """One loop at a time. A loop that somebody else runs may end at any moment, so only its own work is done there;
    as soon as plain code, a thread or a second loop comes, everything moves to a loop that ends with the team."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self._thread_id: int | None = None
        self._own: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self.blocked: set[asyncio.AbstractEventLoop | None] = set()
        """Loops that stand still because somebody waits in their thread."""

    def carry(self, work: Work[T]) -> Awaitable[T]:
        """This work, done on the home loop, wherever that is."""
        # Not get_running_loop: up to Python 3.11 it costs a system call, and this is asked with every run.
        if self._thread_id == get_ident() and self.loop is not None and self.loop.is_running():
            return work()
        with self._lock:
            if self.loop is None or not self.loop.is_running():
                self.loop, self._thread_id = asyncio.get_running_loop(), get_ident()
                return work()
            return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), self._own_loop()))

    def wait(self, work: Work[T]) -> T:
        """Do this work and block until it is done: from plain code, a thread, or a notebook's cell."""
        here = asyncio._get_running_loop()
        with self._lock:
            # Never the loop that runs in this thread: it stands still while we block.
            if here is not None:
                self.blocked.add(here)
            done = asyncio.run_coroutine_threadsafe(work(), self._own_loop())
        try:
            return done.result()
        finally:
            self.blocked.discard(here)

    def leave(self) -> None:
        """Stop the loop of our own, if one was needed."""
        with self._lock:
            own, self._own = self._own, None
        if own is not None and self._thread is not None:
            own.call_soon_threadsafe(own.stop)
            self._thread.join()
            atexit.unregister(self.leave)

    def _own_loop(self) -> asyncio.AbstractEventLoop:
        if self._own is None:
            self._own = asyncio.new_event_loop()
            self._thread = threading.Thread(target=_live, args=(self._own,), name="changeover", daemon=True)
            self._thread.start()
            atexit.register(self.leave)
        self.loop, self._thread_id = self._own, self._thread.ident if self._thread else None
        return self._own


def _live(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped, and leave nothing of it behind."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().run_forever()
