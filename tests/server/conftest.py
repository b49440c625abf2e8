"""One server process for each database, for all tests of a worker: to start one takes longer than most tests do."""

from collections.abc import Iterator

import pytest

from changeover.stores.store import Store, upgrade_store
from tests.any_store import any_store, postgres, shared_store, sqlite_file  # noqa: F401
from tests.databases import KINDS, drop_schema, empty_file, fresh_schema
from tests.server.process import ADMIN, Server, serving


@pytest.fixture(scope="session", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A real server with the token ADMIN, once on each database. Tests share its store."""
    if request.param == "sqlite":
        with serving(
            f"sqlite:///{empty_file(tmp_path_factory.mktemp('server') / 'store.db')}", "--token", ADMIN
        ) as found:
            yield found
        return
    url = fresh_schema()
    upgrade_store(Store(url))
    with serving(url, "--token", ADMIN) as found:
        yield found
    drop_schema(url)
