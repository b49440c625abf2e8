"""Many rows in one statement of PostgreSQL: they travel as one JSON text, and the types of the table read it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import msgspec

from changeover.stores.database import Call, Row

BOUND = r"%s(?:::\w+)?(?: COLLATE \"C\")?"
INSERT = re.compile(rf"INSERT INTO (\w+) \(([\w, ]+)\) VALUES \({BOUND}(?:, {BOUND})*\)")
UPDATE = re.compile(
    rf"UPDATE (\w+) SET (\w+={BOUND}(?:, \w+={BOUND})*) WHERE ([\w.]+ = {BOUND}(?: AND [\w.]+ = {BOUND})*)"
)
DELETE = re.compile(rf"DELETE FROM (\w+) WHERE ([\w.]+ = {BOUND}(?: AND [\w.]+ = {BOUND})*)")

_ENCODER = msgspec.json.Encoder()


class Listed(bytes):
    """Rows as JSON, which goes out as it is."""


class Bulk(NamedTuple):
    """A statement that takes a list of rows instead of one."""

    sql: str
    fields: tuple[str, ...]
    keys: int
    """How many of the fields, at the end, say which row is meant; none if it adds rows."""

    def __call__(self, rows: Sequence[Row]) -> Call:
        if self.keys:  # of several changes to one row the last one holds, as if they were made one after the other
            rows = list({row[-self.keys :]: row for row in rows}.values())
        return self.sql, (_listed(self.fields, rows),)


@cache
def bulk(sql: str) -> Bulk | None:
    """The statement for one row as one for many; nothing if what it does to one may depend on the one before."""
    flat = " ".join(sql.split())
    if found := INSERT.fullmatch(flat):
        table, columns = found.groups()
        return Bulk(
            f"INSERT INTO {table} ({columns}) SELECT {columns} FROM {_rows(table)}", tuple(columns.split(", ")), 0
        )
    if found := UPDATE.fullmatch(flat):
        table, values, which = found.groups()
        columns, keys = re.findall(r"(\w+)=", values), _keys(which)
        new = ", ".join(f"{name}=new.{name}" for name in columns)
        change = f"UPDATE {table} SET {new} FROM {_rows(table)} WHERE {_same(table, keys)}"
        return Bulk(change, (*columns, *keys), len(keys))
    if found := DELETE.fullmatch(flat):
        table, which = found.groups()
        keys = _keys(which)
        return Bulk(f"DELETE FROM {table} USING {_rows(table)} WHERE {_same(table, keys)}", tuple(keys), len(keys))
    return None


def holdable(text: str) -> str:
    """A text as PostgreSQL can hold it: every character but one."""
    return text.replace("\0", "\ufffd")


def _rows(table: str) -> str:
    return f"json_populate_recordset(NULL::{table}, %s) AS new"


def _keys(which: str) -> list[str]:
    return re.findall(r"(\w+) = ", which)


def _same(table: str, keys: Sequence[str]) -> str:
    return " AND ".join(f"{table}.{name} = new.{name}" for name in keys)


def _listed(fields: Sequence[str], rows: Sequence[Row]) -> Listed:
    listed = _ENCODER.encode([dict(zip(fields, row, strict=True)) for row in rows])
    if b"\\u0000" in listed:  # the one character that no text of PostgreSQL holds, or what looks like it
        listed = _ENCODER.encode([dict(zip(fields, map(_holdable, row), strict=True)) for row in rows])
    return Listed(listed)


def _holdable(value: object) -> object:
    return holdable(value) if isinstance(value, str) else value
