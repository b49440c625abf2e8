"""DatabasePool: connections to PostgreSQL that calls of SQL functions borrow, one call at a time."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psycopg import Connection

CONNECT_TIMEOUT = 10
"""Seconds for a connection to the database."""
KEPT = 4
"""How many connections to one database stay open while no call uses them."""

Prepare = Callable[["Connection[Any]"], None]


class DatabasePool:
    """Open connections by address. Calls use it from threads of their own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[str, list[Connection[Any]]] = {}
        # A team that is dropped without being closed leaves no connection open.
        weakref.finalize(self, _close_all, self._idle)

    @contextmanager
    def lent(self, address: str, prepare: Prepare) -> Iterator[Connection[Any]]:
        """A connection in a transaction that `prepare` has begun, and that is committed at the end. A connection on
        which a call failed is closed."""
        connection = self._prepared(address, prepare)
        try:
            yield connection
            connection.commit()
        except BaseException:
            connection.close()
            raise
        self._give_back(address, connection)

    def close(self) -> None:
        """Close the connections that no call uses."""
        with self._lock:
            _close_all(self._idle)

    def _prepared(self, address: str, prepare: Prepare) -> Connection[Any]:
        import psycopg

        while (idle := self._take(address)) is not None:
            with suppress(psycopg.OperationalError):  # the server may have ended it meanwhile: nothing was called yet
                prepare(idle)
                return idle
            idle.close()
        # Nothing is prepared by name: such statements would not outlive the reset after each call.
        connection = psycopg.connect(address, connect_timeout=CONNECT_TIMEOUT, prepare_threshold=None)
        try:
            prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _take(self, address: str) -> Connection[Any] | None:
        with self._lock:
            idle = self._idle.get(address)
            return idle.pop() if idle else None

    def _give_back(self, address: str, connection: Connection[Any]) -> None:
        """Reset the session of a connection, and keep it for the next call."""
        import psycopg

        with suppress(psycopg.Error):  # the call has succeeded: the connection is closed, and nothing is reported
            connection.autocommit = True
            connection.execute("DISCARD ALL")
            connection.autocommit = False
            with self._lock:
                idle = self._idle.setdefault(address, [])
                if len(idle) < KEPT:
                    idle.append(connection)
                    return
        connection.close()


def _close_all(idle: dict[str, list[Connection[Any]]]) -> None:
    while idle:
        _, connections = idle.popitem()
        for connection in connections:
            connection.close()
