"""Database, Session and Watch: what the store needs of a driver; and Round, which saves round trips."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Protocol

from changeover.errors import StoreUnavailable

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from changeover.stores.deltas import LocalDeltas

TRIES = 5
"""Attempts when connections break or transactions conflict."""
PATIENCE = 5.0
"""Seconds for which a lost connection is tried again: a server may be restarting."""

CHANNEL = "changeover"
"""The PostgreSQL channel on which processes are notified of new entries, tickets and events."""

Row = tuple[Any, ...]
Call = tuple[str, tuple[Any, ...]]
"""A statement and its parameters."""
Write = tuple[str, Sequence[Row]]
"""A statement and the rows that it writes."""


class Trouble(Enum):
    """What an error of the driver means for its transaction."""

    LOST = auto()
    """The connection is gone, perhaps after the commit: look, then retry on a new one."""
    AGAIN = auto()
    """The database broke the transaction off in favour of another: retry."""
    CLASH = auto()
    """Another process wrote the same row: look first, then retry."""
    DOWN = auto()
    """The database is not available."""
    MINE = auto()
    """One of the statements is at fault; the others would succeed without it."""
    LARGE = auto()
    """As MINE: a value is larger than the database takes."""


class Session(Protocol):
    """One connection."""

    def begin(self) -> None:
        """Begin a transaction that is going to write."""
        ...

    def undisturbed(self) -> bool:
        """True if no other process can have written since the last call. Only called in a transaction."""
        ...

    def run(self, calls: Sequence[Call]) -> list[list[Row]]:
        """Run these statements in order; returns the rows of each."""
        ...

    def commit(self, writes: Sequence[Write] = ()) -> None:
        """Write these rows, then commit."""
        ...

    def rollback(self) -> None:
        """Roll the transaction back; never raises."""
        ...

    def ask(self, call: Call) -> list[Row]:
        """The rows of a query, outside of a transaction."""
        ...

    def glance(self, call: Call) -> list[Row] | None:
        """The rows of a query, if they are few and can be read without waiting; None otherwise."""
        ...

    def close(self) -> None: ...


class Watch(Protocol):
    """Reports what other processes write."""

    def news(self) -> Collection[str] | None:
        """Wait a little; returns the topics with news: roots, queues of agents, teams. None if any may have some."""
        ...

    def close(self) -> None: ...


class Database(Protocol):
    """A database that a store can live in."""

    dialect: str
    shown: str
    """Its address without the password."""
    near: bool
    """True if a read on the caller's thread is faster than one on another thread."""

    def connect(self) -> Session:
        """Connect, or raise StoreUnavailable."""
        ...

    def engine(self) -> Engine:
        """An SQLAlchemy engine, for migrations; each of its transactions locks for writing."""
        ...

    def watch(self) -> Watch:
        """Begin to watch, or raise StoreUnavailable."""
        ...

    def deltas(self) -> LocalDeltas:
        """Carries deltas to readers, to those in other processes too if the database has notifications."""
        ...

    def trouble(self, error: Exception) -> Trouble | None:
        """What this error means; None if it is not the driver's."""
        ...


def connect_again(database: Database) -> Session:
    """A new connection instead of one that was lost, or StoreUnavailable."""
    deadline, pause = time.monotonic() + PATIENCE, 0.01
    while True:
        try:
            return database.connect()
        except StoreUnavailable:
            if time.monotonic() + pause > deadline:
                raise
        time.sleep(pause)
        pause = min(2 * pause, 0.5)


Step = tuple[Call, Callable[[list[Row]], None]]
"""A statement, and the function that gets its rows."""


class Round:
    """Collects the queries of a transaction, and runs them in one round trip, in order."""

    __slots__ = ("_later", "session")

    def __init__(self, session: Session) -> None:
        self.session = session
        self._later: list[Step] = []

    def later(self, call: Call, heed: Callable[[list[Row]], None] = lambda rows: None) -> None:
        """Run this query with the next ones."""
        self._later.append((call, heed))

    def run(self, calls: Sequence[Call] = ()) -> list[list[Row]]:
        """Run the collected queries, then these; returns the rows of these."""
        if not self._later and not calls:
            return []
        later, self._later = self._later, []
        found = self.session.run([*(call for call, _ in later), *calls])
        for (_, heed), rows in zip(later, found, strict=False):
            heed(rows)
        return found[len(later) :]
