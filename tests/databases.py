"""Databases for tests: files, and schemas on a PostgreSQL server that the tests bring along.

To make the tables takes longer than most tests do, so each process makes them once: a file is a copy of one that has
them, and a schema goes from test to test, emptied. Who cares how tables are made, changed or planned for asks for a
bare store, which has none and is thrown away.

A conftest takes what it needs: `from tests.databases import postgres, shared_store  # noqa: F401`.
"""

import atexit
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from changeover.stores.store import Store, upgrade_store
from tests.postgres import server

KINDS = ("sqlite", "postgresql")

# What grew is cut off, and what was counted forgotten; to delete a few rows takes a fraction of the time.
EMPTY = """
DO $$
DECLARE own record;
BEGIN
  FOR own IN
    SELECT oid::regclass AS name, pg_relation_size(oid) > 65536 OR reltuples > 0 AS grown FROM pg_class
    WHERE relnamespace = '{0}'::regnamespace AND relkind = 'r' AND relname <> 'changeover_version'
  LOOP
    EXECUTE CASE WHEN own.grown THEN 'TRUNCATE ' ELSE 'DELETE FROM ' END || own.name;
  END LOOP;
  PERFORM setval(oid, 1, false) FROM pg_class WHERE relnamespace = '{0}'::regnamespace AND relkind = 'S';
END $$
"""
LAYOUT = "SELECT array_agg(relname ORDER BY relname) FROM pg_class WHERE relnamespace = %s::regnamespace"
BUSY = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"

_spare: dict[str, Any] = {}
"""The addresses of schemas that nobody uses, and what they consist of."""
_one_at_a_time = Lock()


@cache
def _ours() -> psycopg.Connection[Any]:
    """A connection that this process keeps: to make one takes longer than to empty a schema."""
    connection = psycopg.connect(server(), autocommit=True)
    atexit.register(_leave, connection)
    return connection


def _leave(connection: psycopg.Connection[Any]) -> None:
    for url in _spare:
        drop_schema(url)
    connection.close()


def fresh_schema() -> str:
    """The address of a PostgreSQL store without tables; a schema is made in a twentieth of a database's time."""
    name = f"test_{uuid4().hex[:12]}"
    _ours().execute(f"CREATE SCHEMA {name}".encode())
    more = "&" if "?" in server() else "?"
    return f"{server()}{more}options=-csearch_path%3D{name}&application_name={name}"


def drop_schema(url: str) -> None:
    _ours().execute(f"DROP SCHEMA IF EXISTS {_name(url)} CASCADE".encode())


def cut_connections(url: str) -> None:
    """Cut everybody's connections to this store."""
    _ours().execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s", (_name(url),))


def ask(url: str, sql: str) -> list[tuple[Any, ...]]:
    """What a PostgreSQL store answers to somebody who has been connected for long."""
    with _one_at_a_time:
        _ours().execute(f"SET search_path = {_name(url)}".encode())
        cursor = _ours().execute(sql.encode())
        return cursor.fetchall() if cursor.description else []


def empty(url: str) -> None:
    """Remove every row from a PostgreSQL store but the one that holds its version."""
    _ours().execute(EMPTY.format(_name(url)).encode())


def _name(url: str) -> str:
    return url.rpartition("=")[2]


def _layout(url: str) -> Any:
    return _ours().execute(LAYOUT, (_name(url),)).fetchone()


def _with_tables() -> tuple[str, Any]:
    if _spare:
        return _spare.popitem()
    url = fresh_schema()
    upgrade_store(Store(url))
    return url, _layout(url)


def _deserted(url: str) -> bool:
    """Whether everybody has gone, which a server notices a moment later than they do."""
    for _ in range(20):
        if _ours().execute(BUSY, (_name(url),)).fetchone() == (0,):
            return True
        time.sleep(0.005)
    return False


def _give_back(url: str, layout: Any) -> None:
    """Keep a schema for the next test, unless somebody is still there or has changed more than rows."""
    if _deserted(url) and _layout(url) == layout:
        empty(url)
        _spare[url] = layout
    else:
        drop_schema(url)


@cache
def _file_with_tables() -> bytes:
    with TemporaryDirectory() as folder:
        file = Path(folder, "store.db")
        upgrade_store(Store(f"sqlite:///{file}"))
        return file.read_bytes()


def empty_file(path: Path) -> Path:
    """A file with our tables, and nothing in them."""
    path.write_bytes(_file_with_tables())
    return path


@pytest.fixture
def bare_postgres() -> Iterator[str]:
    """The address of a PostgreSQL store without tables."""
    url = fresh_schema()
    yield url
    drop_schema(url)


@pytest.fixture
def bare_file(tmp_path: Path) -> Path:
    """Where a file may be made."""
    return tmp_path / "store.db"


@pytest.fixture(params=KINDS)
def bare_store(request: pytest.FixtureRequest) -> str:
    """The address of a store without tables, once on each database."""
    if request.param == "sqlite":
        return f"sqlite:///{request.getfixturevalue('bare_file')}"
    return str(request.getfixturevalue("bare_postgres"))


@pytest.fixture
def postgres() -> Iterator[str]:
    """The address of an empty PostgreSQL store of this test's own."""
    url, layout = _with_tables()
    yield url
    _give_back(url, layout)


@pytest.fixture
def sqlite_file(tmp_path: Path) -> Path:
    return empty_file(tmp_path / "store.db")


@pytest.fixture(params=KINDS)
def shared_store(request: pytest.FixtureRequest) -> str:
    """The address of an empty store, once on each database."""
    if request.param == "sqlite":
        return f"sqlite:///{request.getfixturevalue('sqlite_file')}"
    return str(request.getfixturevalue("postgres"))
