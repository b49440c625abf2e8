"""MemoryContexts: full contexts that receivers can fetch later, in memory."""

from __future__ import annotations

import threading

from changeover.relay.tables import Kept


class MemoryContexts:
    """Contexts in memory. The lock is the log's."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self._trees: dict[str, dict[str, Kept]] = {}

    async def put(self, root: str, id: str, body: str, expires_at: float | None = None) -> None:
        with self._lock:
            tree = self._trees.setdefault(root, {})
            before = tree.get(id)
            tree[id] = Kept(before.body, _later(before.expires_at, expires_at)) if before else Kept(body, expires_at)

    async def get(self, root: str, id: str) -> Kept | None:
        with self._lock:
            return self._trees.get(root, {}).get(id)

    async def sweep(self, now: float) -> int:
        with self._lock:
            return sum(self._sweep(root, now) for root in list(self._trees))

    def forget(self, root: str) -> None:
        """Remove what a tree has kept. By whoever has the lock."""
        self._trees.pop(root, None)

    def _sweep(self, root: str, now: float) -> int:
        tree = self._trees[root]
        expired = [id for id, kept in tree.items() if kept.expires_at is not None and kept.expires_at <= now]
        for id in expired:
            del tree[id]
        if not tree:
            del self._trees[root]
        return len(expired)


def _later(one: float | None, other: float | None) -> float | None:
    """The later of two times, of which None is never."""
    return None if one is None or other is None else max(one, other)
