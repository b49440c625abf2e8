"""Logs that compute the rows of what a test appends, as an engine does."""

from typing import Any

from changeover.relay.events import Entry
from changeover.relay.ports.log import Head
from changeover.relay.projection.projection import rows_of
from changeover.relay.projection.rows import Rows
from changeover.relay.state import State
from changeover.stores.sql.log import SqlLog
from changeover.stores.store import Store, database_of


class ProjectingLog(SqlLog):
    """Computes rows where the caller brings none."""

    async def append(self, entry: Entry, head: Head | None, *more: Any, rows: Rows | None = None, **named: Any) -> None:
        if rows is None and len(more) < 4:
            rows = await self._rows_of(entry)
        await super().append(entry, head, *more, **(named if rows is None else {"rows": rows} | named))

    async def _rows_of(self, entry: Entry) -> Rows | None:
        state = State(entry.conversation)
        if entry.position:
            state.fold(await self.read(entry.conversation))
        return rows_of(state, entry) if state.position == entry.position else None  # the log will refuse it


def open_log(store: Store) -> ProjectingLog:
    return ProjectingLog(database_of(store), store.lease)
