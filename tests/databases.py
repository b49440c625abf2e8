"""Databases for tests: files, and fresh schemas on a PostgreSQL server that the tests bring along.

A conftest takes what it needs: `from tests.databases import postgres, shared_store  # noqa: F401`.
"""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from tests.postgres import server

KINDS = ("sqlite", "postgresql")


def fresh_schema() -> str:
    """The address of a PostgreSQL store without tables; a schema is made in a twentieth of a database's time."""
    name = f"test_{uuid4().hex[:12]}"
    with psycopg.connect(server(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    more = "&" if "?" in server() else "?"
    return f"{server()}{more}options=-csearch_path%3D{name}&application_name={name}"


def drop_schema(url: str) -> None:
    with psycopg.connect(server(), autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {_name(url)} CASCADE")


def cut_connections(url: str) -> None:
    """Cut everybody's connections to this store."""
    with psycopg.connect(server(), autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s", (_name(url),)
        )


def _name(url: str) -> str:
    return url.rpartition("=")[2]


@pytest.fixture
def postgres() -> Iterator[str]:
    """The address of an empty PostgreSQL store of this test's own."""
    url = fresh_schema()
    yield url
    drop_schema(url)


@pytest.fixture
def sqlite_file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture(params=KINDS)
def shared_store(request: pytest.FixtureRequest) -> str:
    """The address of an empty store, once on each database."""
    if request.param == "sqlite":
        return f"sqlite:///{request.getfixturevalue('sqlite_file')}"
    return str(request.getfixturevalue("postgres"))
