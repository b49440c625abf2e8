"""Who wants to hear of new entries, and how they hear: from this process at once, from others by a watch."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress

from changeover.errors import StoreUnavailable
from changeover.stores.database import Database

logger = logging.getLogger("changeover.stores")

RETRY = 1.0
"""After how many seconds a watch that broke is set up again."""


class Listener:
    """One reader of a root's tree."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def wake(self) -> None:
        """There may be something new; from any thread."""
        with suppress(RuntimeError):  # its loop is closed, and nobody listens there any more
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self) -> None:
        """Until there may be something new since the last time."""
        await self._event.wait()
        self._event.clear()


class Feed:
    """Wakes listeners. Its thread lives while there are any."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._listeners: list[Listener] = []
        self._thread: threading.Thread | None = None
        self.closed = False

    @contextmanager
    def listening(self, root: str) -> Iterator[Listener]:
        """Be woken from now on, so that nothing falls between reading and waiting."""
        listener = Listener(root)
        with self._lock:
            self._listeners.append(listener)
            if self._thread is None and not self.closed:
                self._thread = threading.Thread(target=self._watch, name="changeover-feed", daemon=True)
                self._thread.start()
        try:
            yield listener
        finally:
            with self._lock:
                self._listeners.remove(listener)

    @property
    def listened(self) -> bool:
        """Whether anybody wants to hear."""
        return bool(self._listeners)

    def tell(self, roots: Collection[str] | None) -> None:
        """Something new in these trees; None if it may be any."""
        if not self._listeners or (roots is not None and not roots):
            return
        with self._lock:
            woken = [each for each in self._listeners if roots is None or each.root in roots]
        for listener in woken:
            listener.wake()

    def close(self) -> None:
        """End the thread, and everybody's listening."""
        with self._lock:
            self.closed, thread = True, self._thread
        self.tell(None)
        if thread is not None:
            thread.join()

    def _watch(self) -> None:
        while self._wanted():
            try:
                watch = self._database.watch()
                try:
                    while self._wanted():
                        self.tell(watch.news())
                finally:
                    watch.close()
            except Exception as error:
                if not self._database.trouble(error) and not isinstance(error, StoreUnavailable):
                    raise
                logger.warning("the feed of %s broke and is set up again: %s", self._database.shown, error)
                time.sleep(RETRY)
                self.tell(None)

    def _wanted(self) -> bool:
        """Whether the thread should go on; if not, the next listener starts another."""
        with self._lock:
            if self._listeners and not self.closed:
                return True
            self._thread = None
            return False
