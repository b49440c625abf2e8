"""PostgreSQL: the driver by psycopg, with statements pipelined so that a batch takes two round trips."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import cache
from itertools import count
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from typing import Any, NamedTuple

import psycopg
from psycopg.adapt import Buffer, Dumper, PyFormat, Transformer
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGresult
from psycopg.types.numeric import Int8BinaryDumper
from psycopg.types.string import StrDumper
from sqlalchemy import Engine, NullPool, create_engine

from changeover.errors import StoreUnavailable
from changeover.stores.address import without_password, without_quotes
from changeover.stores.sql.database import CHANNEL, Call, Row, Trouble, Write
from changeover.stores.sql.dialects.bulk import Listed, bulk, holdable
from changeover.stores.sql.dialects.notified import NotifiedDeltas

Types = tuple[int, ...]
"""The type oids of a statement's parameters."""


class Bound(NamedTuple):
    """A statement and its encoded parameters."""

    sql: str
    types: Types
    values: Sequence[Any]
    formats: Sequence[Any]


class Pipeline:
    """Sends several statements over one connection in one round trip, each prepared on first use."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._pg = connection.pgconn
        self._convert = Transformer(connection)
        self._prepared: dict[tuple[str, Types], bytes] = {}
        self._numbers = count()
        self._selector = DefaultSelector()
        self._selector.register(self._pg.socket, EVENT_READ)

    def ask(self, calls: Sequence[Call]) -> list[list[Row]]:
        """The rows of each call. If one fails, so do those after it, and its psycopg error is raised."""
        bound = [self._bind(*call) for call in calls]  # all before any is sent, because this may raise
        self._pg.enter_pipeline_mode()
        sent = [self._send(each) for each in bound]
        self._pg.pipeline_sync()
        self._flush()
        results = self._results()
        self._pg.exit_pipeline_mode()
        answers = [self._answer(key, results) for key in sent]
        return [self._rows(answer) for answer in answers]

    def close(self) -> None:
        self._selector.close()

    def _bind(self, sql: str, args: Sequence[Any]) -> Bound:
        values = self._convert.dump_sequence(args, [PyFormat.AUTO] * len(args))
        return Bound(_numbered(sql), self._convert.types or (), values, self._convert.formats or ())

    def _send(self, bound: Bound) -> tuple[str, Types] | None:
        """Send a statement; returns its cache key if it has to be prepared first."""
        key = bound.sql, bound.types
        if name := self._prepared.get(key):
            self._pg.send_query_prepared(name, bound.values, bound.formats)
            return None
        name = self._prepared[key] = f"changeover_{next(self._numbers)}".encode()
        self._pg.send_prepare(name, bound.sql.encode(), bound.types)
        self._pg.send_query_prepared(name, bound.values, bound.formats)
        return key

    def _flush(self) -> None:
        """Send what libpq has buffered, and read at the same time: the server may block until its output is read."""
        while self._pg.flush():
            self._selector.modify(self._pg.socket, EVENT_READ | EVENT_WRITE)
            if any(ready & EVENT_READ for _, ready in self._selector.select()):
                self._pg.consume_input()
            self._selector.modify(self._pg.socket, EVENT_READ)

    def _results(self) -> list[PGresult]:
        """The results of all sent commands, last first."""
        results: list[PGresult] = []
        while True:
            while self._pg.is_busy():
                self._selector.select()
                self._pg.consume_input()
            result = self._pg.get_result()
            if result is not None and result.status == ExecStatus.PIPELINE_SYNC:
                return results[::-1]
            if result is not None:
                results.append(result)
            elif self._pg.status == ConnStatus.BAD:
                raise psycopg.OperationalError("the connection was lost")

    def _answer(self, key: tuple[str, Types] | None, results: list[PGresult]) -> PGresult:
        """The next result; a statement that was prepared has two, and the first may be the error."""
        if key is not None and (prepared := results.pop()).status != ExecStatus.COMMAND_OK:
            del self._prepared[key]
            results[-1] = prepared
        return results.pop()

    def _rows(self, result: PGresult) -> list[Row]:
        if result.status == ExecStatus.TUPLES_OK:
            self._convert.set_pgresult(result)
            return self._convert.load_rows(0, result.ntuples, tuple)
        if result.status != ExecStatus.COMMAND_OK:
            raise psycopg.errors.error_from_result(result)
        return []


@cache
def _numbered(sql: str) -> str:
    """The SQL with numbered placeholders ($1) instead of %s."""
    numbers = count(1)
    return re.sub("%[s%]", lambda found: f"${next(numbers)}" if found[0] == "%s" else "%", sql)


DEFAULTS = {
    "application_name": "changeover",
    "connect_timeout": 10,
    # Detect a vanished server within seconds; by default it takes a quarter of an hour.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}

PAUSE = 0.2
"""Seconds that a watch waits for a notification."""
LOOK = 3.0
"""Seconds after which listeners look without a notification."""

BY_KEY = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_sort": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
}
"""Planner settings of the writer, whose statements all use an index: generic plans are reused, and a plan that was made
while a table was small does not scan it. JIT compilation does not pay for such statements."""

# Whatever the default of the server: after a wait for a lock, the rows of its last holder must be visible.
BEGIN: Call = "BEGIN ISOLATION LEVEL READ COMMITTED", ()
COMMIT: Call = "COMMIT", ()

TROUBLES = {
    ("08", "26000", "57P01", "57P02", "57P03", "57P05", "25P03", "25P04"): Trouble.LOST,
    ("40", "55P03"): Trouble.AGAIN,
    ("23505", "22012"): Trouble.CLASH,  # the latter from a comparison of cached rows
    ("25006", "53", "57", "58", "F0", "XX"): Trouble.DOWN,
}
"""The meaning of PostgreSQL's error codes, by prefix."""


class PostgresSession:
    """One connection, whose statements are pipelined."""

    def __init__(self, connection: psycopg.Connection[Row], pause: int) -> None:
        self.connection, self._pause = connection, pause
        self._pipeline = Pipeline(connection)
        self._limited = self._beginning = False

    def begin(self) -> None:
        if not self._limited:
            self._limit()
        self._beginning = True  # in the round trip of the first statements

    def undisturbed(self) -> bool:
        return False  # cached rows are compared when a transaction is committed

    def run(self, calls: Sequence[Call]) -> list[list[Row]]:
        begin = self._begin()
        return self._pipeline.ask([*begin, *calls])[len(begin) :]

    def commit(self, writes: Sequence[Write] = ()) -> None:
        calls = self._begin()
        for sql, rows in writes:
            whole = bulk(sql)
            calls += whole.calls(rows) if whole else [(sql, row) for row in rows]
        self._pipeline.ask([*calls, COMMIT])

    def rollback(self) -> None:
        self._beginning = False
        with suppress(psycopg.Error):  # the connection is gone, and the transaction with it
            self.connection.rollback()

    def ask(self, call: Call) -> list[Row]:
        return self.connection.execute(*call).fetchall()

    def glance(self, call: Call) -> list[Row] | None:
        return None

    def close(self) -> None:
        self._pipeline.close()
        self.connection.close()

    def _limit(self) -> None:
        """Set timeouts, so that a process that is suspended in a transaction does not make others lose their leases."""
        self.connection.execute(f"SET idle_in_transaction_session_timeout = {self._pause}")
        settings = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in BY_KEY.items())
        self.connection.execute(f"SELECT {settings}")
        if self.connection.info.server_version >= 170000:
            # The server does not count a process that is suspended while it sends as idle.
            self.connection.execute(f"SET transaction_timeout = {2 * self._pause}")
        self._limited = True

    def _begin(self) -> list[Call]:
        begin, self._beginning = [BEGIN] if self._beginning else [], False
        return begin


class PostgresWatch:
    """Listens to notifications, and reports possible news every LOOK seconds in case one was lost."""

    def __init__(self, session: PostgresSession) -> None:
        self._session = session
        self._look_at = 0.0
        session.connection.execute(f"LISTEN {CHANNEL}")

    def news(self) -> Collection[str] | None:
        roots = {notice.payload for notice in self._session.connection.notifies(timeout=PAUSE, stop_after=1)}
        if time.monotonic() < self._look_at:
            return roots
        self._look_at = time.monotonic() + LOOK
        return None

    def close(self) -> None:
        self._session.close()


PORTS = re.compile(r"[\d,\s]*")


class Postgres:
    """The PostgreSQL database of a URL."""

    dialect, near = "postgresql", False

    def __init__(self, url: str, lease: float) -> None:
        self.shown = without_password(url)
        try:
            self._options: dict[str, Any] = {**DEFAULTS, **conninfo_to_dict(url)}
        except psycopg.ProgrammingError as error:
            # Without its cause, which a traceback would show.
            raise StoreUnavailable(f"the store {self.shown} cannot be opened: {without_quotes(str(error))}") from None
        if not PORTS.fullmatch(str(self._options.get("port", ""))) or "@" in str(self._options.get("host", "")):
            # libpq would quote them, and they may be parts of a password.
            why = "its host or port cannot be; in a password, write @ as %40 and / as %2F"
            raise StoreUnavailable(f"the store {self.shown} cannot be opened: {why}")
        self._longest_pause = max(100, int(lease / 3 * 1000))

    def connect(self) -> PostgresSession:
        try:
            connection = psycopg.connect(**self._options, autocommit=True)
        except psycopg.Error as error:
            raise StoreUnavailable(f"the store {self.shown} cannot be reached: {error}") from error
        connection.adapters.register_dumper(str, TextDumper)
        connection.adapters.register_dumper(int, Int8BinaryDumper)  # one type for all sizes, so one plan
        connection.adapters.register_dumper(Listed, ListedDumper)
        return PostgresSession(connection, self._longest_pause)

    def engine(self) -> Engine:
        return create_engine(
            "postgresql+psycopg://", creator=lambda: psycopg.connect(**self._options), poolclass=NullPool
        )

    def watch(self) -> PostgresWatch:
        session = self.connect()
        try:
            return PostgresWatch(session)
        except psycopg.Error as error:
            session.close()
            raise StoreUnavailable(f"the store {self.shown} cannot be watched: {error}") from error

    def deltas(self) -> NotifiedDeltas:
        return NotifiedDeltas(lambda: self.connect().connection, self.shown)

    def trouble(self, error: Exception) -> Trouble | None:
        if isinstance(error, OverflowError):
            return Trouble.LARGE
        if not isinstance(error, psycopg.Error):
            return None
        if error.sqlstate is None:
            lost = isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
            return Trouble.LOST if lost else Trouble.MINE
        found = (trouble for states, trouble in TROUBLES.items() if error.sqlstate.startswith(states))
        return next(found, Trouble.MINE)


class TextDumper(StrDumper):
    """Replaces NUL, which PostgreSQL's texts cannot hold."""

    def dump(self, obj: str) -> Buffer | None:
        return super().dump(holdable(obj))


class ListedDumper(Dumper):
    """Sends bytes that are JSON already."""

    oid = psycopg.adapters.types["json"].oid

    def dump(self, obj: Listed) -> Buffer | None:
        return obj
