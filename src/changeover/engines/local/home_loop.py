"""HomeLoop: the event loop of an engine, which is the caller's own or one in a thread."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Awaitable, Callable, Coroutine
from threading import get_ident
from typing import Any, TypeVar

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]


class HomeLoop:
    """One loop at a time. A caller's loop may end at any moment, so it only serves callers on that loop; as soon as
    plain code, a thread or a second loop calls, everything moves to a loop in a thread, which ends with the engine."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self._thread_id: int | None = None
        self._own: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self.blocked: set[asyncio.AbstractEventLoop | None] = set()
        """Loops that stand still because a caller blocks their thread."""

    def carry(self, work: Work[T]) -> Awaitable[T]:
        """Do this work on the home loop."""
        # Not get_running_loop: up to Python 3.11 it costs a system call, and every run comes through here.
        if self._thread_id == get_ident() and self.loop is not None and self.loop.is_running():
            return work()
        with self._lock:
            if self.loop is None or not self.loop.is_running():
                self.loop, self._thread_id = asyncio.get_running_loop(), get_ident()
                return work()
            return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), self._own_loop()))

    def wait(self, work: Work[T]) -> T:
        """Do this work and block until it is done: for plain code, threads and notebook cells."""
        here = asyncio._get_running_loop()
        with self._lock:
            # Not the loop of this thread: it does not run while this call blocks.
            if here is not None:
                self.blocked.add(here)
            done = asyncio.run_coroutine_threadsafe(work(), self._own_loop())
        try:
            return done.result()
        finally:
            self.blocked.discard(here)

    def leave(self) -> None:
        """Stop the loop in the thread, if there is one."""
        with self._lock:
            own, self._own = self._own, None
        if own is not None and self._thread is not None:
            own.call_soon_threadsafe(own.stop)
            self._thread.join()
            atexit.unregister(self.leave)

    def _own_loop(self) -> asyncio.AbstractEventLoop:
        if self._own is None:
            self._own = asyncio.new_event_loop()
            self._thread = threading.Thread(target=_run, args=(self._own,), name="changeover", daemon=True)
            self._thread.start()
            atexit.register(self.leave)
        self.loop, self._thread_id = self._own, self._thread.ident if self._thread else None
        return self._own


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped, then close it."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().run_forever()
