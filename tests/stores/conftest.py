"""Stores to test: each kind by fixture, and as many processes' worth of logs on one store as a test wants."""

from collections.abc import AsyncIterator, Callable

import pytest

from changeover.relay.ports.log import Log
from changeover.stores.memory.log import MemoryLog
from changeover.stores.sql.database import Trouble
from changeover.stores.sql.dialects.postgres import Postgres
from changeover.stores.sql.log import SqlLog
from changeover.stores.store import Store
from tests.databases import KINDS, bare_file, bare_postgres, bare_store, postgres, shared_store, sqlite_file
from tests.stores.projecting import open_log

__all__ = [
    "another",
    "bare_file",
    "bare_postgres",
    "bare_store",
    "deadlocks",
    "log",
    "opened",
    "postgres",
    "shared_store",
    "sqlite_file",
]

Opened = Callable[..., SqlLog]

DEADLOCK = "40P01"
"""How PostgreSQL says that two transactions waited for each other, one of which it broke off."""


@pytest.fixture
async def opened() -> AsyncIterator[Opened]:
    """Opens stores, and closes them when the test is over."""
    logs: list[SqlLog] = []

    def open_(url: str, lease: float = 10.0) -> SqlLog:
        logs.append(open_log(Store(url, lease)))
        return logs[-1]

    yield open_
    for log in logs:
        await log.close()


@pytest.fixture
def another(shared_store: str, opened: Opened) -> Callable[..., SqlLog]:
    """Opens the shared store once more, as another process would."""
    return lambda lease=10.0: opened(shared_store, lease)


@pytest.fixture
def deadlocks(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """The deadlocks of all logs so far: they are tried again, so that nobody else hears of them."""
    found: list[Exception] = []
    judge = Postgres.trouble

    def judging(database: Postgres, error: Exception) -> Trouble | None:
        if getattr(error, "sqlstate", None) == DEADLOCK:
            found.append(error)
        return judge(database, error)

    monkeypatch.setattr(Postgres, "trouble", judging)
    return found


@pytest.fixture(params=["memory", *KINDS])
def log(request: pytest.FixtureRequest) -> Log:
    """An empty log of each kind."""
    match request.param:
        case "memory":
            return MemoryLog()
        case "sqlite":
            url = f"sqlite:///{request.getfixturevalue('sqlite_file')}"
        case _:
            url = request.getfixturevalue("postgres")
    # Asked for last, so that it is closed before its database goes.
    opened: Opened = request.getfixturevalue("opened")
    return opened(url)
