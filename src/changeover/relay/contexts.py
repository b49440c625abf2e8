"""What is kept whole for those who may ask for it later, as a store keeps it, in the core's words.

Each tree keeps its own: what one conversation left out of a receiver's view is nobody's business in another.
"""

from __future__ import annotations

import hashlib
from typing import Protocol

from msgspec import Struct


class Kept(Struct, frozen=True):
    """What was kept."""

    body: str
    expires_at: float | None = None
    """In seconds since the epoch, by the clock of whoever kept it."""


class Contexts(Protocol):
    """The contexts of a store. Whether one has expired is for whoever gets it to judge; it is there until it is swept
    away."""

    async def put(self, root: str, id: str, body: str, expires_at: float | None = None) -> None:
        """Keep it for the tree of this root. What is there under this id stays, but lives until the later of both
        times; None is for ever."""
        ...

    async def get(self, root: str, id: str) -> Kept | None:
        """What was kept under this id in this very tree; None if nothing was, wherever else it may be."""
        ...

    async def sweep(self, now: float) -> int:
        """Remove all that has expired by then; how many."""
        ...


def context_id(body: str) -> str:
    """The id of a context: the same for the same text, and for no other."""
    # Half of a surrogate pair has no place in UTF-8, and still has to have an id.
    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:32]
