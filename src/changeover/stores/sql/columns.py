"""Columns: the kinds of columns that tables are made of, the same in both databases, and tables of declarations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from msgspec.structs import fields
from sqlalchemy import Boolean, CheckConstraint, Column, Double, Integer, MetaData, Table, Text
from sqlalchemy.types import TypeEngine

from changeover.ids import DEFAULT_TEAM
from changeover.stores.tables import TableSpec

_TYPES: dict[type, type[TypeEngine[Any]]] = {str: Text, int: Integer, float: Double, bool: Boolean}
_BYTES = Text().with_variant(Text(collation="C"), "postgresql")


def text_column(name: str, *, key: bool = False) -> Column[str]:
    return Column(name, Text, primary_key=key, nullable=False)


def prefixed_key(name: str) -> Column[str]:
    """A key that begins with the id of a conversation, so that a range of keys finds the rows of a conversation."""
    # Compared by byte, whatever the collation of the database: only then do keys with one prefix form a range.
    return Column(name, _BYTES, primary_key=True, nullable=False)


def number_column(name: str, *, key: bool = False) -> Column[int]:
    return Column(name, Integer, primary_key=key, nullable=False, autoincrement=False)


def time_column(name: str) -> Column[float]:
    """Seconds since the epoch."""
    return Column(name, Double, nullable=False)


def added_column(name: str, kind: type[TypeEngine[Any]], default: str) -> Column[Any]:
    """A column that a migration added; the rows of older versions get this value."""
    return Column(name, kind, nullable=False, server_default=default)


def team_column() -> Column[str]:
    """The name of a team; rows of versions without names belong to the default one."""
    return added_column("team", Text, DEFAULT_TEAM)


def declared(spec: TableSpec[Any], metadata: MetaData) -> Table:
    """The table of a TableSpec."""
    columns = []
    for field in fields(spec.row):
        kinds = get_args(field.type) or (field.type,)
        key, optional = field.name in spec.key, type(None) in kinds
        columns.append(Column(field.name, _TYPES[kinds[0]], primary_key=key, nullable=optional))
    return Table(spec.name, metadata, *columns)


def one_of(column: str, values: Sequence[str], table: str) -> CheckConstraint:
    """The condition that a column holds one of these words."""
    listed = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({listed})", name=f"{table}_{column}_check")
