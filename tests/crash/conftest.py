"""Databases for the crash tests, and a nursery of processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.nursery import Nursery
from tests.databases import postgres, shared_store, sqlite_file

__all__ = ["nursery", "postgres", "shared_store", "sqlite_file"]

pytest.register_assert_rewrite("tests.crash.checks")


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    """Starts processes that work on a store; those that are still alive at the end of the test are killed."""
    with Nursery(tmp_path) as nursery:
        yield nursery
