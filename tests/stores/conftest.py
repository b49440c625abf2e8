"""Stores to test: each kind by fixture, and as many processes' worth of logs on one store as a test wants."""

from collections.abc import AsyncIterator, Callable

import pytest

from changeover.relay.ports import Log
from changeover.stores.memory import MemoryLog
from changeover.stores.open import Store, open_log
from changeover.stores.sql import SqlLog
from tests.databases import KINDS, bare_file, bare_postgres, bare_store, postgres, shared_store, sqlite_file

__all__ = [
    "another",
    "bare_file",
    "bare_postgres",
    "bare_store",
    "log",
    "opened",
    "postgres",
    "shared_store",
    "sqlite_file",
]

Opened = Callable[..., SqlLog]


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
