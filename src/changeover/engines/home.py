"""The event loop on which a team's conversations live: the one that uses it or, when several do, a loop of its own."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]


class Home:
    """One loop at a time. A loop that somebody else runs may end at any moment, so only its own work is done there;
    as soon as plain code, a thread or a second loop comes, everything moves to a loop that ends with the team."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._own: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self.blocked: set[asyncio.AbstractEventLoop | None] = set()
        """Loops that stand still because somebody waits in their thread."""

    def carry(self, work: Work[T]) -> Awaitable[T]:
        """This work, done on the home loop, wherever that is."""
        here = asyncio.get_running_loop()
        if here is self._loop:
            return work()
        with self._lock:
            if self._loop is None or not self._loop.is_running():
                self._loop = here
                return work()
            self._loop = self._own_loop()
            return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), self._loop))

    def wait(self, work: Work[T]) -> T:
        """Do this work and block until it is done: from plain code, a thread, or a notebook's cell."""
        here = asyncio._get_running_loop()
        with self._lock:
            # Never the loop that runs in this thread: it stands still while we block.
            self._loop = self._own_loop()
            if here is not None:
                self.blocked.add(here)
            done = asyncio.run_coroutine_threadsafe(work(), self._loop)
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
        return self._own


def _live(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped, and leave nothing of it behind."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().run_forever()
