"""Bulk statements for PostgreSQL: many rows or texts bound as one JSON value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from math import inf
from operator import itemgetter
from typing import NamedTuple

import msgspec

from changeover.stores.sql.database import Call, Row

_ENCODER = msgspec.json.Encoder()

NUL = b"\\u0000"
"""NUL as JSON writes it; PostgreSQL's texts cannot hold it."""


class Listed(bytes):
    """A list as JSON."""


def json_texts(values: Sequence[str]) -> Listed:
    """A list of texts as JSON, without NUL."""
    listed = _ENCODER.encode(values)
    return Listed(_ENCODER.encode([holdable(value) for value in values]) if NUL in listed else listed)


def json_rows(fields: Sequence[str], values: Sequence[Row]) -> Listed:
    """A list of rows as JSON objects, with values that PostgreSQL accepts."""
    listed = _ENCODER.encode([dict(zip(fields, row, strict=True)) for row in values])
    if NUL in listed or any(inf in row or -inf in row for row in values):
        listed = _ENCODER.encode([dict(zip(fields, map(_encodable, row), strict=True)) for row in values])
    return Listed(listed)


def holdable(text: str) -> str:
    """The text with NUL replaced."""
    return text.replace("\0", "\ufffd")


def _encodable(value: object) -> object:
    if isinstance(value, str):
        return holdable(value)
    # JSON has no infinity; PostgreSQL accepts the text that Python writes.
    return str(value) if value in (inf, -inf) else value


BOUND = r"%s(?:::\w+)?(?: COLLATE \"C\")?"
SAME = rf"[\w.]+ = {BOUND}"
EXCLUDED = r"\w+ = excluded\.\w+"
INSERT = re.compile(rf"INSERT INTO (\w+) \(([\w, ]+)\) VALUES \({BOUND}(?:, {BOUND})*\)(.*)")
UPSERT = re.compile(rf" ON CONFLICT \(([\w, ]+)\) DO UPDATE SET ({EXCLUDED}(?:, {EXCLUDED})*)")
UPDATE = re.compile(rf"UPDATE (\w+) SET (\w+={BOUND}(?:, \w+={BOUND})*) WHERE ({SAME}(?: AND {SAME})*)")
DELETE = re.compile(rf"DELETE FROM (\w+) WHERE ({SAME}(?: AND {SAME})*)")


class Bulk(NamedTuple):
    """A statement that takes a list of rows instead of one."""

    sql: str
    fields: tuple[str, ...]
    keys: tuple[str, ...] = ()
    """The fields that identify the row; none if it only adds rows."""

    def __call__(self, rows: Sequence[Row]) -> Call:
        if self.keys and len(rows) > 1:
            # Of several changes to one row only the last takes effect, as if they were executed in order.
            key = itemgetter(*map(self.fields.index, self.keys))
            rows = list({key(row): row for row in rows}.values())
        return self.sql, (json_rows(self.fields, rows),)


@cache
def bulk(sql: str) -> Bulk | None:
    """The statement for many rows; None if its effect on a row depends on the row's current values."""
    normalized = " ".join(sql.split())
    if inserts := INSERT.fullmatch(normalized):
        return _insert(*inserts.groups())
    if updates := UPDATE.fullmatch(normalized):
        return _update(*updates.groups())
    if deletes := DELETE.fullmatch(normalized):
        return _delete(*deletes.groups())
    return None


def _insert(table: str, columns: str, more: str) -> Bulk | None:
    fields, keys = tuple(columns.split(", ")), ()
    if more:
        upsert = UPSERT.fullmatch(more)
        keys = tuple(upsert[1].split(", ")) if upsert else ()
        if upsert is None or {*keys, *re.findall(r"(\w+) =", upsert[2])} != set(fields):
            return None
    return Bulk(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM {_rows(table)}{more}", fields, keys)


def _update(table: str, values: str, which: str) -> Bulk:
    columns, keys = re.findall(r"(\w+)=", values), _keys(which)
    new = ", ".join(f"{name}=new.{name}" for name in columns)
    change = f"UPDATE {table} SET {new} FROM {_rows(table)} WHERE {_same(table, keys)}"
    return Bulk(change, (*columns, *keys), keys)


def _delete(table: str, which: str) -> Bulk:
    keys = _keys(which)
    return Bulk(f"DELETE FROM {table} USING {_rows(table)} WHERE {_same(table, keys)}", keys, keys)


def _rows(table: str) -> str:
    return f"json_populate_recordset(NULL::{table}, %s) AS new"


def _keys(which: str) -> tuple[str, ...]:
    return tuple(re.findall(r"(\w+) = ", which))


def _same(table: str, keys: Sequence[str]) -> str:
    return " AND ".join(f"{table}.{name} = new.{name}" for name in keys)
