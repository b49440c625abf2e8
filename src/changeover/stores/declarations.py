"""StoredDeclarations: the port `Declarations` over the rows of a store, and those rows in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from changeover.relay.ports.declarations import (
    Check,
    Declaration,
    Edit,
    EditionMoved,
    Kind,
    Standing,
    after,
    edited,
    in_order,
)
from changeover.relay.sanitize import text_of


class DeclarationRows(Protocol):
    """The rows of all versions."""

    async def edition(self) -> int:
        """The last edition; 0 if there is none."""
        ...

    async def at_edition(self, edition: int) -> list[Declaration]:
        """The last version of each declaration that was written by this edition, in any order."""
        ...

    async def history(self, kind: Kind, name: str) -> list[Declaration]:
        """All versions of a declaration, in any order."""
        ...

    async def append(self, rows: Sequence[Declaration]) -> float | None:
        """Store rows of the next edition, all or none, and return their time by the store's clock; None if another
        writer has used their edition."""
        ...


class StoredDeclarations:
    """Declarations over the rows of a store."""

    def __init__(self, rows: DeclarationRows, check: Check | None = None) -> None:
        self._rows, self._check = rows, check

    def checked_by(self, check: Check) -> StoredDeclarations:
        return StoredDeclarations(self._rows, check)

    async def edition(self) -> int:
        return await self._rows.edition()

    async def at_edition(self, edition: int) -> list[Declaration]:
        return in_order(await self._rows.at_edition(edition)) if edition else []

    async def listed(self, kind: Kind | None = None, include_removed: bool = False) -> list[Declaration]:
        current = await self.at_edition(await self.edition())
        return [each for each in current if kind in (None, each.kind) and (include_removed or each.state != "removed")]

    async def one(self, kind: Kind, name: str, version: int | None = None) -> Declaration | None:
        versions = {each.version: each for each in await self.history(kind, name)}
        return versions.get(max(versions, default=0) if version is None else version)

    async def history(self, kind: Kind, name: str) -> list[Declaration]:
        return sorted(await self._rows.history(kind, name), key=lambda each: each.version)

    async def put(
        self, kind: Kind, name: str, document: Mapping[str, Any], *, by: str = "", expected: int | None = None
    ) -> Declaration:
        [written] = await self.write([Edit(kind, name, document, expected=expected)], by=by)
        return written

    async def set_state(
        self, kind: Kind, name: str, state: Standing, *, by: str = "", expected: int | None = None
    ) -> Declaration:
        [written] = await self.write([Edit(kind, name, state=state, expected=expected)], by=by)
        return written

    async def write(self, edits: Sequence[Edit], *, by: str = "") -> list[Declaration]:
        while True:
            edition = await self.edition()
            current = await self.at_edition(edition)
            new = edited(current, edits, edition + 1, text_of(by))
            if new and self._check is not None:
                self._check(after(current, new))
            at = await self._rows.append(new) if new else 0.0
            if at is not None:  # else another writer was quicker, and its change is a part of what is checked next
                rows = {each.key: each for each in after(current, [replace(each, at=at) for each in new])}
                return [rows[edit.kind, edit.name] for edit in edits]


class MemoryDeclarations:
    """Rows in memory. The lock is the log's; `now` is the store's clock."""

    def __init__(self, lock: threading.Lock, now: Callable[[], float]) -> None:
        self._lock, self._now = lock, now
        self._rows: list[Declaration] = []
        """By edition."""

    async def edition(self) -> int:
        return self._last

    @property
    def _last(self) -> int:
        return self._rows[-1].edition if self._rows else 0

    def expect(self, edition: int) -> None:
        """Raise EditionMoved if this is not the last edition. The caller holds the lock."""
        if edition != self._last:
            raise EditionMoved(self._last)

    async def at_edition(self, edition: int) -> list[Declaration]:
        with self._lock:
            return list({each.key: each for each in self._rows if each.edition <= edition}.values())

    async def history(self, kind: Kind, name: str) -> list[Declaration]:
        with self._lock:
            return [each for each in self._rows if each.key == (kind, name)]

    async def append(self, rows: Sequence[Declaration]) -> float | None:
        with self._lock:
            if rows[0].edition <= self._last:
                return None
            at = self._now()
            self._rows += [replace(each, at=at) for each in rows]
            return at
