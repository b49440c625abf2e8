from collections.abc import Iterator

import pytest

from tests.any_store import any_store, postgres, shared_store, sqlite_file
from tests.bus.process import Mother

__all__ = ["any_store", "postgres", "shared_store", "sqlite_file"]


@pytest.fixture(scope="session")
def mother() -> Iterator[Mother]:
    """Starts processes that hand out events; it takes seconds to begin, so all tests share it."""
    with Mother() as started:
        yield started
