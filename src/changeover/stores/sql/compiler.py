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
    """SQL for one driver, and what is bound to it, in the driver's order."""

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
    """Turns statements into the SQL of one dialect."""

    def __init__(self, dialect: str) -> None:
        self.postgresql = dialect == "postgresql"
        kind, marks = (PGDialect_psycopg, "format") if self.postgresql else (SQLiteDialect_pysqlite, "qmark")
        self._dialect: Dialect = kind(paramstyle=marks)

    def __call__(self, statement: sa.ClauseElement) -> Statement:
        compiled = statement.compile(dialect=self._dialect)
        assert isinstance(compiled, SQLCompiler)
        return Statement(str(compiled), tuple(compiled.positiontup or ()))

    def among(self, column: sa.ColumnElement[str], name: str) -> sa.ColumnElement[bool]:
        """Whether a value is in the list that is bound by this name; see `listed`."""
        if self.postgresql:
            # An array, which is made once; each of a list would be joined.
            return column == sa.func.any(sa.func.array(sa.select(_texts(name)).scalar_subquery()))
        return column.in_(sa.select(sa.literal_column("value")).select_from(sa.func.json_each(bind(name))))

    def each(self, name: str) -> sa.ColumnElement[str]:
        """Each of the list that is bound by this name, as a table to select from; see `listed`."""
        if self.postgresql:
            return _texts(name).table_valued("id").render_derived().c.id
        return sa.func.json_each(bind(name)).table_valued("value").c.value

    def listed(self, values: Sequence[str]) -> Any:
        """A list as it is bound."""
        return json_texts(values) if self.postgresql else msgspec.json.encode(values).decode()

    def notify(self) -> Statement | None:
        """Tells all processes of the list `topics`, where the database can."""
        topics = sa.func.pg_notify(sa.literal_column(f"'{CHANNEL}'"), self.each("topics"))
        return self(sa.select(topics)) if self.postgresql else None

    def new_numbers(self) -> sa.TextClause:
        """As many new numbers of conversations as the list `ids` is long."""
        if self.postgresql:
            sequence = "pg_get_serial_sequence('conversations', 'number')"
            return sa.text(f"SELECT nextval({sequence}) FROM json_array_elements_text(:ids)")
        # None is given twice, also not that of a conversation which was forgotten.
        last = ", ".join(f"(SELECT coalesce(max(number), 0) FROM {name})" for name in ("conversations", "forgotten"))
        return sa.text(f"SELECT max({last}) + 1 + key FROM json_each(:ids)")

    def ddl(self, statement: sa.schema.ExecutableDDLElement) -> str:
        """SQL that makes tables and the like; it takes no parameters."""
        return str(statement.compile(dialect=self._dialect))

    def insert(self, table: sa.Table, **values: Any) -> sqlite.Insert | postgresql.Insert:
        """An insert of a whole row, with an upsert's abilities; each column is bound by its name, or given here."""
        construct = postgresql.insert if self.postgresql else sqlite.insert
        names = [column.name for column in table.columns if column is not table.autoincrement_column]
        return construct(table).values({name: bind(name) for name in names} | values)


def _texts(name: str) -> sa.Function[str]:
    """Each of the list that is bound by this name, in PostgreSQL. By nothing but its plan does the server know how
    many there are, so that one plan does for all."""
    return sa.func.json_array_elements_text(bind(name))


def bind(name: str, type_: Any = None) -> sa.BindParameter[Any]:
    """Something that is bound by this name at each use."""
    return sa.bindparam(name, type_=type_)


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
