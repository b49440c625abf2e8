"""The event loop on which a team's conversations live: the first that used it, as long as that one runs."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Home:
    """One loop at a time: calls from other threads and loops are carried there."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._own: asyncio.AbstractEventLoop | None = None

    def arrive(self) -> bool:
        """Make the running loop the home if there is none that runs; True if it just moved here."""
        here = asyncio.get_running_loop()
        if here is self._loop:
            return False
        with self._lock:
            if self._loop is None or not self._loop.is_running():
                self._loop = here
                return True
        return False

    def carry(self, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """This work, done on the home loop, wherever that is."""
        if self._loop is None or self._loop is asyncio.get_running_loop():
            return work
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Do this work and block until it is done: from plain code, a thread, or a notebook's cell."""
        try:
            here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        loop = self._loop
        if loop is None or loop is here or not loop.is_running():
            # A notebook's own loop cannot run while its cell blocks on us: it needs another one.
            loop = self._loop = self._own_loop()
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    def _own_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._own is None or self._own.is_closed():
                self._own = asyncio.new_event_loop()
                threading.Thread(target=self._own.run_forever, name="changeover", daemon=True).start()
                atexit.register(self.leave)
            return self._own

    def leave(self) -> None:
        """Stop the loop of our own, if one was needed."""
        with self._lock:
            own, self._own = self._own, None
        if own is not None:
            own.call_soon_threadsafe(own.stop)
            atexit.unregister(self.leave)
