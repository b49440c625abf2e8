"""Compiler: SQLAlchemy statements compiled once per dialect into text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from changeover.stores.sql.database import CHANNEL, Call
from changeover.stores.sql.dialects.bulk import json_texts

ZERO: sa.ColumnElement[int] = sa.literal_column("0")
ONE: sa.ColumnElement[int] = sa.literal_column("1")


class Statement:
    """SQL for one driver, and the names of its parameters in the driver's order."""

    __slots__ = ("_pick", "names", "sql")

    def __init__(self, sql: str, names: tuple[str, ...]) -> None:
        self.sql, self.names = sql, names
        self._pick: Callable[[Mapping[str, Any]], tuple[Any, ...]]
        if len(names) > 1:
            self._pick = itemgetter(*names)
        else:
            self._pick = lambda values: tuple([values[name] for name in names])

    def __call__(self, **values: Any) -> Call:
        return self.sql, self._pick(values)


class Compiler:
    """Compiles statements for one dialect."""

    def __init__(self, dialect: str) -> None:
        self.postgresql = dialect == "postgresql"
        kind, marks = (PGDialect_psycopg, "format") if self.postgresql else (SQLiteDialect_pysqlite, "qmark")
        self._dialect: Dialect = kind(paramstyle=marks)

    def __call__(self, statement: sa.ClauseElement) -> Statement:
        compiled = statement.compile(dialect=self._dialect)
        assert isinstance(compiled, SQLCompiler)
        return Statement(str(compiled), tuple(compiled.positiontup or ()))

    def among(self, column: sa.ColumnElement[str], name: str) -> sa.ColumnElement[bool]:
        """The condition that a value is in the list parameter `name`; see `listed`."""
        if self.postgresql:
            # An array, which is built once; a subquery of elements would be joined.
            return column == sa.func.any(sa.func.array(sa.select(_texts(name)).scalar_subquery()))
        return column.in_(sa.select(sa.literal_column("value")).select_from(sa.func.json_each(bind(name))))

    def each(self, name: str) -> sa.ColumnElement[str]:
        """The elements of the list parameter `name`, as a table to select from; see `listed`."""
        if self.postgresql:
            return _texts(name).table_valued("id").render_derived().c.id
        return sa.func.json_each(bind(name)).table_valued("value").c.value

    def listed(self, values: Sequence[str]) -> Any:
        """The value of a list parameter."""
        return json_texts(values) if self.postgresql else msgspec.json.encode(values).decode()

    def notify(self) -> Statement | None:
        """The statement that notifies all processes of `topics`; None if the database has no notifications."""
        topics = sa.func.pg_notify(sa.literal_column(f"'{CHANNEL}'"), self.each("topics"))
        return self(sa.select(topics)) if self.postgresql else None

    def new_numbers(self) -> sa.TextClause:
        """A query for new conversation numbers, one for each of `ids`."""
        if self.postgresql:
            sequence = "pg_get_serial_sequence('conversations', 'number')"
            return sa.text(f"SELECT nextval({sequence}) FROM json_array_elements_text(:ids)")
        # No number is used twice, even if its conversation was removed.
        last = ", ".join(f"(SELECT coalesce(max(number), 0) FROM {name})" for name in ("conversations", "forgotten"))
        return sa.text(f"SELECT max({last}) + 1 + key FROM json_each(:ids)")

    def ddl(self, statement: sa.schema.ExecutableDDLElement) -> str:
        """The SQL of a DDL statement, which has no parameters."""
        return str(statement.compile(dialect=self._dialect))

    def insert(self, table: sa.Table, **values: Any) -> sqlite.Insert | postgresql.Insert:
        """An insert of a whole row, which can become an upsert; each column is in `values` or a parameter."""
        construct = postgresql.insert if self.postgresql else sqlite.insert
        names = [column.name for column in table.columns if column is not table.autoincrement_column]
        return construct(table).values({name: bind(name) for name in names} | values)

    def insert_from(
        self, table: sa.Table, names: Sequence[str], rows: sa.Select[Any]
    ) -> sqlite.Insert | postgresql.Insert:
        """An insert of the rows of a query into these columns."""
        construct = postgresql.insert if self.postgresql else sqlite.insert
        return construct(table).from_select(names, rows)


def _texts(name: str) -> sa.Function[str]:
    """The elements of a list parameter in PostgreSQL. As one JSON value, lists of any length share a plan."""
    return sa.func.json_array_elements_text(bind(name))


def bind(name: str, type_: Any = None) -> sa.BindParameter[Any]:
    """A named parameter."""
    return sa.bindparam(name, type_=type_)


def of_team(column: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """The condition that a row belongs to the team of the parameter `team`, or to any team if that is NULL."""
    return sa.func.coalesce(bind("team", sa.Text), column) == column


class now(FunctionElement[float]):  # noqa: N801 - as SQL spells it
    """Seconds since the epoch by the database's own clock: the only one that all processes on a store share."""

    type = sa.Double()
    inherit_cache = True


@compiles(now, "sqlite")
def _sqlite_now(element: now, compiler: SQLCompiler, **options: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(now, "postgresql")
def _postgresql_now(element: now, compiler: SQLCompiler, **options: Any) -> str:
    return "(extract(epoch from clock_timestamp())::double precision)"
