"""How those who want to hear of new entries and new work do: from this process at once, from others by a watch."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from changeover.errors import StoreUnavailable
from changeover.stores.listeners import Listener, Listeners
from changeover.stores.sql.database import Database

logger = logging.getLogger("changeover.stores")

RETRY = 1.0
"""After how many seconds a watch that broke is set up again."""


class Feed:
    """Wakes listeners. Its thread lives while there are any."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._listeners = Listeners()
        self._thread: threading.Thread | None = None
        self.closed = False

    @contextmanager
    def listening(self, topics: Collection[str]) -> Iterator[Listener]:
        """Be woken from now on, so that nothing falls between reading and waiting."""
        with self._listeners.listening(topics) as listener:
            with self._lock:
                if self._thread is None and not self.closed:
                    self._thread = threading.Thread(target=self._watch, name="changeover-feed", daemon=True)
                    self._thread.start()
            yield listener

    @property
    def listened(self) -> bool:
        """Whether anybody wants to hear."""
        return bool(self._listeners)

    def tell(self, topics: Collection[str] | None) -> None:
        """Something new in these trees, or for these agents; None if it may be any."""
        self._listeners.tell(topics)

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
