"""Store: where a team keeps its conversations, and the functions that open or upgrade it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from changeover.errors import MisconfiguredError

if TYPE_CHECKING:
    from changeover.stores.sql.database import Database
    from changeover.stores.sql.log import SqlLog


@dataclass(frozen=True)
class Store:
    """A database by its URL: `sqlite:///file.db`, `sqlite:////absolute/file.db` or `postgresql://user@host/name`."""

    url: str
    lease: float = 10.0
    """Seconds without renewal after which a process counts as dead, and others take up its conversations."""

    def __post_init__(self) -> None:
        if faults := [*_url_faults(self.url), *_lease_faults(self.lease)]:
            raise MisconfiguredError(*faults)


def open_log(store: Store) -> SqlLog:
    """Connect to a store. This blocks until it is open, or raises StoreUnavailable."""
    from changeover.stores.sql.log import SqlLog

    return SqlLog(database_of(store), store.lease)


def upgrade_store(store: Store) -> tuple[str | None, str]:
    """Bring the tables of a store up to date; the version they had (None if there were none) and the one they have."""
    from changeover.stores.upgrade import migrate

    database = database_of(store)
    session = database.connect()
    try:
        return migrate(database, session)
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


def _url_faults(url: object) -> list[str]:
    """Faults of the URL of a store."""
    if not isinstance(url, str):
        return [f"a store is a URL, not {type(url).__name__}; for a file write sqlite:///file.db"]
    if url.startswith("sqlite:///") and url.removeprefix("sqlite:///").strip("/") not in ("", ":memory:"):
        return []
    try:
        parts = urlsplit(url)
    except ValueError:  # its text may quote a password
        return [f"{_scheme(url)!r} cannot be read as a URL; write it as in postgresql://user@host/database"]
    if parts.scheme in ("postgresql", "postgres") and "://" in url:
        return []
    if parts.scheme == "sqlite":
        return [f"{url!r} names no file; write sqlite:///file.db, or leave store= out to keep conversations in memory"]
    return [f"{_scheme(url)!r} is no store; there are: sqlite:///file.db, postgresql://user@host/database"]


def _scheme(url: str) -> str:
    """The URL without the part that may hold a password."""
    return url.partition("://")[0] + "://…" if "@" in url else url


def _lease_faults(lease: object) -> list[str]:
    if isinstance(lease, int | float) and not isinstance(lease, bool) and 0 < lease < float("inf"):
        return []
    return [f"a lease is a number of seconds above 0, not {lease!r}"]
