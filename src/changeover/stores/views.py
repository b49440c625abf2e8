"""Views: a store opened for reading only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from changeover.errors import StoreUnavailable
from changeover.stores.check import Check
from changeover.stores.sql import schema
from changeover.stores.sql.database import Database
from changeover.stores.sql.lists import SqlLists
from changeover.stores.sql.reader import Reader
from changeover.stores.store import Store, database_of
from changeover.stores.upgrade import version_found


class Views(SqlLists):
    """Reads a store without a lease: this process works on no conversation of it."""

    def __init__(self, database: Database) -> None:
        self._reader = Reader(database)
        super().__init__(database.dialect, self._reader.rows, self._reader.large)

    def close(self) -> None:
        self._reader.close()

    def checked(self) -> AsyncIterator[tuple[str, str]]:
        """The id of every conversation, each with the fault of its log or read models; "" if it is sound."""
        return Check(self._dialect, self._large, self).conversations()


def open_views(store: Store) -> Views:
    """Open a store for reading. Raises StoreUnavailable if it does not exist or its tables have another version."""
    database = existing(store)
    found = version_of(database)
    if found is None:
        raise StoreUnavailable(f"the store {database.shown} has no tables; make them with: changeover db upgrade")
    if found != schema.VERSION:
        raise StoreUnavailable(
            f"the store {database.shown} has tables of version {found}, and this version of changeover reads"
            f" {schema.VERSION}; see: changeover db current"
        )
    return Views(database)


def existing(store: Store) -> Database:
    """The database of a store; raises StoreUnavailable if it is a file that does not exist."""
    if store.url.startswith("sqlite:") and not Path(store.url.removeprefix("sqlite:///")).exists():
        raise StoreUnavailable(
            f"the store {store.url} does not exist; `changeover run` or `changeover db upgrade` creates it"
        )
    return database_of(store)


def version_of(database: Database) -> str | None:
    """The version of a store's tables, None if it has none."""
    session = database.connect()
    try:
        return version_found(database, session)
    except StoreUnavailable:
        raise
    except Exception as error:
        raise StoreUnavailable(f"the store {database.shown} cannot be read: {error}") from error
    finally:
        session.close()
