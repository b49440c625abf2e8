"""Databases for the crash tests, and a nursery of processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.nursery import Mother, Nursery
from tests.databases import postgres, shared_store, sqlite_file

__all__ = ["mother", "nursery", "postgres", "shared_store", "sqlite_file"]

pytest.register_assert_rewrite("tests.crash.checks")


@pytest.fixture(scope="session")
def mother(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mother]:
    """The process that all others are forked from."""
    mother = Mother(tmp_path_factory.mktemp("mother"))
    yield mother
    mother.leave()


@pytest.fixture
def nursery(mother: Mother, tmp_path: Path) -> Iterator[Nursery]:
    """Starts processes that work on a store; those that are still alive at the end of the test are killed."""
    with Nursery(mother, tmp_path) as nursery:
        yield nursery
