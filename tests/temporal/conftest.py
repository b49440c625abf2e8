"""A Temporal server, a task queue for each test, and databases."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from changeover.engines.temporal import Temporal
from tests.crash.conftest import mother, nursery
from tests.databases import postgres, shared_store, sqlite_file
from tests.temporal.server import server

__all__ = ["mother", "nursery", "postgres", "shared_store", "sqlite_file"]


@pytest.fixture
def temporal() -> Callable[..., Temporal]:
    """Makes engines that share one task queue."""
    queue = uuid4().hex[:12]

    def engine(**options: Any) -> Temporal:
        return Temporal(server(), **{"queue": queue, "grace": 0.1, **options})

    return engine
