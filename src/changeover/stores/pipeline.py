"""Statements that go to PostgreSQL together and are answered together, each of them prepared once.

By libpq, which psycopg brings along: to make a cursor for each takes longer than the server takes for most of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from itertools import count
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from typing import Any, NamedTuple

import psycopg
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGresult

from changeover.stores.sql.database import Call, Row

Types = tuple[int, ...]
"""Those of what is bound, by the server's numbers."""


class Bound(NamedTuple):
    """A statement and what is bound to it, as they travel."""

    sql: str
    types: Types
    values: Sequence[Any]
    formats: Sequence[Any]


class Pipeline:
    """The way to the server and back, by one connection."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._pg = connection.pgconn
        self._convert = Transformer(connection)
        self._prepared: dict[tuple[str, Types], bytes] = {}
        self._numbers = count()
        self._selector = DefaultSelector()
        self._selector.register(self._pg.socket, EVENT_READ)

    def ask(self, calls: Sequence[Call]) -> list[list[Row]]:
        """The rows of each. If one fails, so do those after it, and what psycopg would raise is raised."""
        bound = [self._bind(*call) for call in calls]  # all of them before any is sent, for this may fail
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
        """By what it will be known, if it has to be prepared first."""
        key = bound.sql, bound.types
        if name := self._prepared.get(key):
            self._pg.send_query_prepared(name, bound.values, bound.formats)
            return None
        name = self._prepared[key] = f"changeover_{next(self._numbers)}".encode()
        self._pg.send_prepare(name, bound.sql.encode(), bound.types)
        self._pg.send_query_prepared(name, bound.values, bound.formats)
        return key

    def _flush(self) -> None:
        """Send what libpq has put off; the server may be waiting meanwhile for us to read."""
        while self._pg.flush():
            self._selector.modify(self._pg.socket, EVENT_READ | EVENT_WRITE)
            if any(ready & EVENT_READ for _, ready in self._selector.select()):
                self._pg.consume_input()
            self._selector.modify(self._pg.socket, EVENT_READ)

    def _results(self) -> list[PGresult]:
        """One for each that was sent, in order."""
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
        """The next result; of what had to be prepared there are two."""
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
    """With places for what is bound as the server counts them."""
    numbers = count(1)
    return re.sub("%[s%]", lambda found: f"${next(numbers)}" if found[0] == "%s" else "%", sql)
