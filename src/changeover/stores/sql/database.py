"""Database, Session and Watch: what the store needs of a driver; and Round, which saves round trips."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Protocol

from changeover.errors import StoreUnavailable

if TYPE_CHECKING:
    from sqlalchemy import Engine

TRIES = 5
"""How often something is tried when connections break or other processes are in the way."""
PATIENCE = 5.0
"""For how many seconds we try to reach a database that we had reached before: a server may be starting again."""

CHANNEL = "changeover"
"""On which PostgreSQL tells all processes of new entries."""

Row = tuple[Any, ...]
Call = tuple[str, tuple[Any, ...]]
"""A statement and what is bound to it."""
Write = tuple[str, Sequence[Row]]
"""A statement and the rows that it writes."""


class Trouble(Enum):
    """What an error of the driver means for the transaction it broke; nothing of it was written."""

    LOST = auto()
    """The connection is gone, perhaps after the commit: look, then do it again on a new one."""
    AGAIN = auto()
    """The database chose this transaction to yield to another: do it again."""
    CLASH = auto()
    """Somebody wrote the same meanwhile: look first, then do it again."""
    DOWN = auto()
    """The database cannot be used now, by nobody."""
    MINE = auto()
    """One of the statements is at fault, and the others would do without it."""


class Session(Protocol):
    """One connection."""

    def begin(self) -> None:
        """Begin a transaction that is going to write."""
        ...

    def undisturbed(self) -> bool:
        """In a transaction: whether certainly nobody else has written since we were last asked."""
        ...

    def run(self, calls: Sequence[Call]) -> list[list[Row]]:
        """Carry out these statements in order; the rows of each."""
        ...

    def commit(self, writes: Sequence[Write] = ()) -> None:
        """Write these rows, then make the transaction last."""
        ...

    def rollback(self) -> None:
        """Undo the transaction; never raises."""
        ...

    def ask(self, call: Call) -> list[Row]:
        """What a query finds, outside of any transaction."""
        ...

    def glance(self, call: Call) -> list[Row] | None:
        """What a query finds, if it is little and can be had without waiting for anybody."""
        ...

    def close(self) -> None: ...


class Watch(Protocol):
    """Notices what other processes write."""

    def news(self) -> Collection[str] | None:
        """Wait a little; the roots in whose trees something is new by then, None if it may be any."""
        ...

    def close(self) -> None: ...


class Database(Protocol):
    """A database that a store can live in."""

    dialect: str
    shown: str
    """Its address without the password."""
    near: bool
    """Whether a glance is quicker than asking another thread to look."""

    def connect(self) -> Session:
        """Connect, or raise StoreUnavailable."""
        ...

    def engine(self) -> Engine:
        """For what is rare: every transaction of it is one that writes."""
        ...

    def watch(self) -> Watch:
        """Begin to notice, or raise StoreUnavailable."""
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
"""A statement, and what is done with what it finds."""


class Round:
    """What a transaction is going to ask next; in the order in which it was asked for."""

    __slots__ = ("_later", "session")

    def __init__(self, session: Session) -> None:
        self.session = session
        self._later: list[Step] = []

    def later(self, call: Call, heed: Callable[[list[Row]], None] = lambda rows: None) -> None:
        """Ask this with what is asked next."""
        self._later.append((call, heed))

    def run(self, calls: Sequence[Call] = ()) -> list[list[Row]]:
        """Ask these, after what was put off; what these find."""
        if not self._later and not calls:
            return []
        later, self._later = self._later, []
        found = self.session.run([*(call for call, _ in later), *calls])
        for (_, heed), rows in zip(later, found, strict=False):
            heed(rows)
        return found[len(later) :]
