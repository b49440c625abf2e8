"""Feed: wakes listeners when a conversation tree has new entries or an agent has new work."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress

from changeover.errors import StoreUnavailable
from changeover.stores.sql.database import Database


class Listener:
    """Waits for news of some topics: the tree of a root, or the work that waits for an agent."""

    def __init__(self, topics: Collection[str]) -> None:
        self.topics = frozenset(topics)
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def wake(self) -> None:
        """Wake the listener, from any thread."""
        with suppress(RuntimeError):  # its loop is closed
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self) -> None:
        """Wait until there may be news since the last wait."""
        await self._event.wait()
        self._event.clear()


class Listeners:
    """The listeners of one store in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: list[Listener] = []

    def __bool__(self) -> bool:
        return bool(self._all)

    @contextmanager
    def listening(self, topics: Collection[str]) -> Iterator[Listener]:
        """A listener that is woken from now on: news between a read and a wait is not lost."""
        listener = Listener(topics)
        with self._lock:
            self._all.append(listener)
        try:
            yield listener
        finally:
            with self._lock:
                self._all.remove(listener)

    def tell(self, topics: Collection[str] | None) -> None:
        """Wake the listeners of these topics; of all topics for None."""
        if not self._all or (topics is not None and not topics):
            return
        with self._lock:
            woken = [each for each in self._all if topics is None or not each.topics.isdisjoint(topics)]
        for listener in woken:
            listener.wake()


logger = logging.getLogger("changeover.stores")

RETRY = 1.0
"""Seconds before a broken watch is restarted."""


class Feed:
    """Wakes listeners when other processes write. Its thread runs while there are listeners."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._listeners = Listeners()
        self._thread: threading.Thread | None = None
        self.closed = False

    @contextmanager
    def listening(self, topics: Collection[str]) -> Iterator[Listener]:
        """A listener that is woken from now on: news between a read and a wait is not lost."""
        with self._listeners.listening(topics) as listener:
            with self._lock:
                if self._thread is None and not self.closed:
                    self._thread = threading.Thread(target=self._watch, name="changeover-feed", daemon=True)
                    self._thread.start()
            yield listener

    @property
    def listened(self) -> bool:
        """True if there are listeners."""
        return bool(self._listeners)

    def tell(self, topics: Collection[str] | None) -> None:
        """Wake the listeners of these trees and agents; of all for None."""
        self._listeners.tell(topics)

    def close(self) -> None:
        """End the thread, and wake all listeners for the last time."""
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
        """True if the thread should go on; if not, the next listener starts a new one."""
        with self._lock:
            if self._listeners and not self.closed:
                return True
            self._thread = None
            return False
