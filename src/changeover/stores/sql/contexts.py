"""What the writer is asked to do about contexts."""

from __future__ import annotations

from typing import TypeVar

from changeover.relay.sanitize import text_of
from changeover.stores.sql.database import Row
from changeover.stores.sql.side_jobs import Beside

MOST = 4_000_000
"""How many characters are written in one transaction, if they are of several contexts: whoever appends waits for it."""

T = TypeVar("T")


class ContextJob(Beside[T]):
    """Something about contexts."""

    __slots__ = ()


class Put(ContextJob[None]):
    """Keep a context."""

    __slots__ = ("row",)

    def __init__(self, root: str, id: str, body: str, expires_at: float | None) -> None:
        super().__init__(None, share=len(body) / MOST, root=root)
        self.row: Row = (root, id, expires_at, text_of(body))


class Sweep(ContextJob[int]):
    """Remove some of what has expired."""

    __slots__ = ("now",)

    def __init__(self, now: float) -> None:
        super().__init__(0, share=1.0)
        self.now = now
