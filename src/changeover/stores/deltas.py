"""LocalDeltas: the readers of deltas in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from changeover.relay.stream import Delta

Hear = Callable[[Delta], None]


class LocalDeltas:
    """Passes deltas to readers in the same process, in the thread of the sender."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers: dict[str, tuple[Hear, ...]] = {}
        """By root; each tuple is replaced and never changed, so that a sender needs no lock."""

    @property
    def roots(self) -> set[str]:
        """The trees that are read."""
        with self._lock:
            return set(self._readers)

    def wanted(self, root: str) -> bool:
        return root in self._readers

    def send(self, root: str, delta: Delta) -> None:
        for hear in self._readers.get(root, ()):
            hear(delta)

    @contextmanager
    def listening(self, root: str, hear: Hear) -> Iterator[None]:
        with self._lock:
            self._readers[root] = (*self._readers.get(root, ()), hear)
        try:
            yield
        finally:
            with self._lock:
                left = list(self._readers[root])
                left.remove(hear)
                if left:
                    self._readers[root] = tuple(left)
                else:
                    del self._readers[root]

    def close(self) -> None:
        """Do nothing: there is nothing to close."""
