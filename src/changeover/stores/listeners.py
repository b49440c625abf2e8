"""Who waits for something new, in whichever loop, and is woken from whichever thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress


class Listener:
    """Somebody who wants to hear of some topics: the tree of a root, or the work that waits for an agent."""

    def __init__(self, topics: Collection[str]) -> None:
        self.topics = frozenset(topics)
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


class Listeners:
    """All who listen to one store in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: list[Listener] = []

    def __bool__(self) -> bool:
        return bool(self._all)

    @contextmanager
    def listening(self, topics: Collection[str]) -> Iterator[Listener]:
        """Be woken from now on, so that nothing falls between looking and waiting."""
        listener = Listener(topics)
        with self._lock:
            self._all.append(listener)
        try:
            yield listener
        finally:
            with self._lock:
                self._all.remove(listener)

    def tell(self, topics: Collection[str] | None) -> None:
        """Something new about these topics; None if it may be any."""
        if not self._all or (topics is not None and not topics):
            return
        with self._lock:
            woken = [each for each in self._all if topics is None or not each.topics.isdisjoint(topics)]
        for listener in woken:
            listener.wake()


def bell_of(agent: str) -> str:
    """The topic of what waits for an agent; no conversation is called like that."""
    return f"%{agent}"
