"""MemoryTable: the rows of a side table in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic

from msgspec.structs import replace

from changeover.stores.tables import R, TableSpec


class MemoryTable(Generic[R]):
    """Rows in memory. The lock is the log's; `now` is the store's clock."""

    def __init__(self, spec: TableSpec[R], lock: threading.Lock, now: Callable[[], float] = time.time) -> None:
        self._spec, self._lock, self._now = spec, lock, now
        self._rows: dict[str, dict[tuple[str, ...], R]] = {}
        """By the first column of the key, then by the key."""

    async def put(self, row: R, columns: Sequence[str] = ()) -> None:
        with self._lock:
            self.put_locked(row, columns)

    async def get(self, *key: str) -> R | None:
        with self._lock:
            return self._rows.get(key[0], {}).get(key)

    async def all(self) -> list[R]:
        with self._lock:
            return self.rows()

    async def version(self) -> int:
        with self._lock:
            return sum(getattr(row, self._spec.counter) for rows in self._rows.values() for row in rows.values())

    async def sweep(self, now: float) -> int:
        with self._lock:
            return sum(self._sweep(first, now) for first in list(self._rows))

    def put_locked(self, row: R, columns: Sequence[str] = ()) -> None:
        """The same as `put`. The caller holds the lock."""
        key = self._spec.key_of(row)
        rows = self._rows.setdefault(key[0], {})
        before = rows.get(key)
        after = row if before is None else replace(before, **self._changes(before, row, columns))
        rows[key] = replace(after, **self._stamps(before))

    def rows(self) -> list[R]:
        """The same as `all`. The caller holds the lock."""
        rows = {key: row for rows in self._rows.values() for key, row in rows.items()}
        return [row for _, row in sorted(rows.items(), key=lambda each: each[0])]

    def starting(self, first: str) -> list[R]:
        """The rows whose key begins with this value. The caller holds the lock."""
        return list(self._rows.get(first, {}).values())

    def forget(self, first: str) -> None:
        """Remove the rows whose key begins with this value. The caller holds the lock."""
        self._rows.pop(first, None)

    def _changes(self, before: R, row: R, columns: Sequence[str]) -> dict[str, Any]:
        extends = self._spec.extends
        if extends and not _is_later(getattr(row, extends), getattr(before, extends)):
            return {}
        return {name: getattr(row, name) for name in self._spec.replaced(columns)}

    def _stamps(self, before: R | None) -> dict[str, Any]:
        spec = self._spec
        stamps: dict[str, Any] = {spec.clock: self._now()} if spec.clock else {}
        if spec.counter:
            stamps[spec.counter] = 1 if before is None else getattr(before, spec.counter) + 1
        return stamps

    def _sweep(self, first: str, now: float) -> int:
        rows = self._rows[first]
        times = {key: getattr(row, self._spec.extends) for key, row in rows.items()}
        expired = [key for key, at in times.items() if at is not None and at <= now]
        for key in expired:
            del rows[key]
        if not rows:
            del self._rows[first]
        return len(expired)


def _is_later(one: float | None, other: float | None) -> bool:
    """True if a time is later than another; None is never."""
    return other is not None and (one is None or one > other)
