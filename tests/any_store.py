"""A store of every kind by fixture: in memory, a file, PostgreSQL.

A conftest takes what it needs: `from tests.any_store import any_store, postgres, shared_store, sqlite_file`.
"""

import pytest

from tests.databases import KINDS, postgres, shared_store, sqlite_file

__all__ = ["any_store", "postgres", "shared_store", "sqlite_file"]


@pytest.fixture(params=["memory", *KINDS])
def any_store(request: pytest.FixtureRequest) -> str | None:
    """What `Team(store=…)` takes for an empty store of each kind; None keeps conversations in memory."""
    match request.param:
        case "memory":
            return None
        case "sqlite":
            return f"sqlite:///{request.getfixturevalue('sqlite_file')}"
        case _:
            return str(request.getfixturevalue("postgres"))
