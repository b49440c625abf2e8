"""SQLite: the driver for a store in a file, in WAL mode and synced at every commit."""

from __future__ import annotations

import random
import re
import sqlite3
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from pathlib import Path
from typing import ParamSpec, TypeVar

from sqlalchemy import Engine, NullPool, create_engine
from sqlalchemy.event import listen

from changeover.errors import StoreUnavailable
from changeover.stores.deltas import LocalDeltas
from changeover.stores.sql.database import Call, Row, Trouble, Write

PATIENCE = 10.0
"""Seconds to wait for a file that another program has locked."""

PAGE = 1_024
"""Bytes of a page. A commit writes every page that it touches, and most rows of a run are small: a quarter of SQLite's
default writes about a third as much, for a file that is a fifth larger."""

CHECKPOINT = 8 << 20
"""Bytes of the write-ahead log after which its pages are copied to the file. Most commits write the same few pages, the
ends of tables and indexes, so a checkpoint that comes later copies fewer of them for each run."""

POLL = 0.03
"""Seconds between two looks for writes of other processes."""

BLOCKS = (32, 8)
"""Rows per insert statement, because the driver releases the GIL with each statement and has to acquire it again. The
largest block stays within the parameter limit of the oldest SQLite."""
SMALLEST = BLOCKS[-1]

LITTLE = 64
"""The most rows that `glance` reads."""

BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
DOWN = BUSY | {
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_READONLY,
}

TOO_BIG = sqlite3.SQLITE_TOOBIG

P = ParamSpec("P")
T = TypeVar("T")


class SqliteSession:
    """One connection to the file; used by one thread at a time."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection, self._cursor, self._seen = connection, connection.cursor(), -1
        # SQLite's own function knows ASCII letters only.
        connection.create_function("lower", 1, str.lower, deterministic=True)

    def begin(self) -> None:
        # IMMEDIATE: two processes that both read position 7 must not both append 8.
        patiently(self._cursor.execute, "BEGIN IMMEDIATE")

    def undisturbed(self) -> bool:
        seen, self._seen = self._seen, self._cursor.execute("PRAGMA data_version").fetchone()[0]
        return seen == self._seen

    def run(self, calls: Sequence[Call]) -> list[list[Row]]:
        execute = self.connection.execute
        return [execute(sql, args).fetchall() for sql, args in calls]

    def commit(self, writes: Sequence[Write] = ()) -> None:
        execute = self._cursor.executemany
        for sql, rows in writes:
            execute(sql, rows if len(rows) < SMALLEST else self._insert_blocks(sql, rows))
        self._cursor.execute("COMMIT")

    def _insert_blocks(self, sql: str, rows: Sequence[Row]) -> Sequence[Row]:
        """Insert rows in whole blocks; returns the rows that are left."""
        done = 0
        for size in BLOCKS:
            block = _of_many(sql, size)
            while block and len(rows) - done >= size:
                self._cursor.execute(block, tuple(chain.from_iterable(rows[done : done + size])))
                done += size
        return rows[done:]

    def rollback(self) -> None:
        with suppress(sqlite3.Error):  # SQLite rolls back by itself when the disk is full
            self.connection.rollback()

    def ask(self, call: Call) -> list[Row]:
        return patiently(lambda: self.connection.execute(*call).fetchall())

    def glance(self, call: Call) -> list[Row] | None:
        try:
            cursor = self.connection.execute(*call)
            rows = cursor.fetchmany(LITTLE)
        except sqlite3.Error:
            return None  # the full read finds out why
        if len(rows) < LITTLE:
            return rows
        cursor.close()
        return None

    def close(self) -> None:
        self.connection.close()


class SqliteWatch:
    """Polls whether another connection wrote."""

    def __init__(self, session: SqliteSession) -> None:
        self._session, self._seen = session, -1

    def news(self) -> Collection[str] | None:
        time.sleep(POLL)
        seen, self._seen = self._seen, self._session.ask(("PRAGMA data_version", ()))[0][0]
        return () if seen == self._seen else None

    def close(self) -> None:
        self._session.close()


class Sqlite:
    """The SQLite database in a file."""

    dialect, near = "sqlite", True

    def __init__(self, path: Path) -> None:
        self.path = path
        self.shown = f"sqlite:///{path}"

    def connect(self) -> SqliteSession:
        if self.path.is_dir() or not self.path.absolute().parent.is_dir():
            what = (
                "is a directory"
                if self.path.is_dir()
                else f"lies in {self.path.absolute().parent}, which does not exist"
            )
            raise StoreUnavailable(f"the store {self.shown} cannot be opened: it {what}")
        try:
            return SqliteSession(self._connect())
        except sqlite3.Error as error:
            raise StoreUnavailable(f"the store {self.shown} cannot be opened: {error}") from error

    def _connect(self) -> sqlite3.Connection:
        # Without a timeout: SQLite's own waiting sleeps 100 ms at a time, and a busy neighbour locks the file again.
        connection = sqlite3.connect(
            self.path, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        try:
            connection.execute(f"PRAGMA page_size={PAGE}")  # of a new file; an older one keeps its own
            mode = patiently(lambda: connection.execute("PRAGMA journal_mode=WAL").fetchone()[0])
            if mode != "wal":
                raise sqlite3.OperationalError(f"its file system does not allow SQLite's WAL, only {mode!r}")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT // PAGE}")
            connection.execute("PRAGMA journal_size_limit=67108864")
        except BaseException:
            connection.close()
            raise
        return connection

    def engine(self) -> Engine:
        engine = create_engine("sqlite://", creator=self._patient_connection, poolclass=NullPool)
        listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
        return engine

    def _patient_connection(self) -> sqlite3.Connection:
        connection = self.connect().connection
        connection.execute(f"PRAGMA busy_timeout={PATIENCE * 1000:.0f}")
        return connection

    def watch(self) -> SqliteWatch:
        return SqliteWatch(self.connect())

    def deltas(self) -> LocalDeltas:
        return LocalDeltas()

    def trouble(self, error: Exception) -> Trouble | None:
        if isinstance(error, OverflowError) or (isinstance(error, sqlite3.Error) and code(error) == TOO_BIG):
            return Trouble.LARGE
        if not isinstance(error, sqlite3.Error):
            return None
        if isinstance(error, sqlite3.IntegrityError):
            return Trouble.CLASH
        return Trouble.DOWN if code(error) in DOWN else Trouble.MINE


@cache
def _of_many(sql: str, rows: int) -> str:
    """The insert of one row as an insert of several; empty if it is another statement."""
    values = re.fullmatch(r"(INSERT INTO .* VALUES )(\([?, ]+\))", sql)
    return f"{values[1]}{', '.join([values[2]] * rows)}" if values else ""


def code(error: sqlite3.Error) -> int | None:
    """The primary result code of an error; the driver's own errors have none."""
    extended = getattr(error, "sqlite_errorcode", None)
    return None if extended is None else extended & 0xFF


def patiently(action: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Retry until the file is not locked."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return action(*given, **named)
        except sqlite3.OperationalError as error:
            if code(error) not in BUSY or time.monotonic() > deadline:
                raise
        time.sleep(random.uniform(0.0005, 0.005))
