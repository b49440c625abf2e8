"""Views: a store opened for reading only, and a check of its log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path

import sqlalchemy as sa

from changeover.errors import StoreUnavailable
from changeover.relay.lists import PAGE
from changeover.relay.state import State
from changeover.stores.codec import entry_of
from changeover.stores.sql import schema
from changeover.stores.sql.compiler import ZERO, Compiler, Statement, bind
from changeover.stores.sql.database import Database
from changeover.stores.sql.lists import SqlLists
from changeover.stores.sql.reader import Reader
from changeover.stores.sql.statements import statements
from changeover.stores.store import Store, database_of
from changeover.stores.upgrade import version_found


class Views(SqlLists):
    """Reads a store without a lease: this process works on no conversation of it."""

    def __init__(self, database: Database) -> None:
        self._reader = Reader(database)
        super().__init__(database.dialect, self._reader.rows, self._reader.large)

    def close(self) -> None:
        self._reader.close()

    async def checked(self) -> AsyncIterator[tuple[str, str]]:
        """The id of every conversation, each with the fault of its log; "" if it is sound."""
        after = 0
        page = _page(self._dialect)
        while rows := await self._small(page(after=after, limit=PAGE)):
            for _, id, position in rows:
                yield id, await self._fault(id, position)
            after = rows[-1][0]

    async def _fault(self, conversation: str, end: int) -> str:
        try:
            rows = await self._small(statements(self._dialect).log.read(conversation=conversation, after=0))
            state = State(conversation)
            for entry in map(entry_of, rows):
                if entry.position != state.position:
                    return f"the log goes on at {entry.position}, and should at {state.position}"
                state.fold([entry])
        except Exception as error:  # any error is a fault of the log
            return f"the log cannot be read: {type(error).__name__}: {error}"
        if state.unreadable:
            return f"a newer version wrote {state.unreadable!r}, which this one does not know"
        return "" if state.position == end else f"the log ends at {state.position}, and its table says {end}"


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
        raise StoreUnavailable(f"the store {store.url} does not exist; `changeover run` or `db upgrade` would make it")
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


@cache
def _page(dialect: str) -> Statement:
    c = schema.conversations.c
    query = sa.select(c.number, c.id, c.position).where(c.number > bind("after", sa.Integer)).order_by(c.number)
    return Compiler(dialect)(query.limit(bind("limit", sa.Integer)).offset(ZERO))
