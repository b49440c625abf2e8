"""Store: where a team keeps its conversations, and the functions that open or upgrade it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from changeover.errors import MisconfiguredError
from changeover.stores.address import url_faults, without_password

if TYPE_CHECKING:
    from changeover.stores.sql.database import Database
    from changeover.stores.sql.log import SqlLog
    from changeover.stores.upgrade import Progress


@dataclass(frozen=True)
class Store:
    """A database by its URL. Raises MisconfiguredError if the URL or the lease cannot be used."""

    url: str
    """`sqlite:///file.db`, `sqlite:////absolute/file.db` or `postgresql://user@host/name`."""
    lease: float = 10.0
    """Seconds without renewal after which a process counts as dead, and others take up its conversations."""

    def __post_init__(self) -> None:
        if faults := [*url_faults(self.url), *_lease_faults(self.lease)]:
            raise MisconfiguredError(*faults)

    def __repr__(self) -> str:
        return f"Store(url={without_password(self.url)!r}, lease={self.lease!r})"


def open_log(store: Store) -> SqlLog:
    """Connect to a store. This blocks until it is open, or raises StoreUnavailable."""
    from changeover.stores.sql.log import SqlLog

    return SqlLog(database_of(store), store.lease)


def upgrade_store(store: Store, progress: Progress | None = None) -> tuple[str | None, str]:
    """Bring the tables of a store up to date; the version they had (None if there were none) and the one they have.
    `progress` is called after each migration."""
    from changeover.stores.upgrade import migrate

    database = database_of(store)
    session = database.connect()
    try:
        return migrate(database, session, progress)
    finally:
        session.close()


def database_of(store: Store) -> Database:
    """The database that a store lives in, not connected yet."""
    if store.url.startswith("sqlite:"):
        from changeover.stores.sql.dialects.sqlite import Sqlite

        return Sqlite(Path(store.url.removeprefix("sqlite:///")).absolute())
    try:
        from changeover.stores.sql.dialects.postgres import Postgres
    except ImportError as error:
        raise MisconfiguredError(
            "a store on PostgreSQL needs psycopg; install it with: pip install 'changeover[postgres]'"
        ) from error
    return Postgres(store.url, store.lease)


def _lease_faults(lease: object) -> list[str]:
    if isinstance(lease, int | float) and not isinstance(lease, bool) and 0 < lease < float("inf"):
        return []
    return [f"a lease is a number of seconds above 0, not {lease!r}"]
