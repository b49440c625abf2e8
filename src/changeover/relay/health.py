"""Health: what a store says about itself."""

from __future__ import annotations

from msgspec import Struct


class LiveProcess(Struct, frozen=True):
    """A process that has the store open."""

    host: str
    pid: int
    started_at: float


class StoreHealth(Struct, frozen=True, kw_only=True):
    """What a store holds, and how it is."""

    database: str
    """Its kind and version, such as "SQLite 3.45"; "memory" for a team without a store."""
    schema: str = ""
    """The version of its tables."""
    conversations: int = 0
    """With those of delegates."""
    events: int = 0
    size: int | None = None
    """In bytes; None if unknown."""
    read_time: float = 0.0
    """Seconds that a short read took."""
    unfinished: int = 0
    """Conversations with outstanding work that no process works on."""
    processes: tuple[LiveProcess, ...] = ()
    """Those that are alive, the oldest first."""
