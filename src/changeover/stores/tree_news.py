"""What is new in the tree of a root, from one look to the next."""

from __future__ import annotations

from changeover.relay.events import Entry
from changeover.stores.codec import entry_of
from changeover.stores.over import forgotten
from changeover.stores.sql.reader import Reader
from changeover.stores.sql.statements import FeedStatements


class TreeNews:
    """Looks again and again, each time for what comes after the last look."""

    def __init__(self, sql: FeedStatements, reader: Reader, root: str, seq: int) -> None:
        self._sql, self._reader, self._root, self._seq = sql, reader, root, seq
        self._number = 0
        """Which conversation it is, as soon as there is one: another may come to bear its name."""
        self._position: int | None = None if seq else 0
        """Where the root's own next entry stands at the earliest; not known while the seq may lie inside an entry."""

    async def look(self) -> list[Entry]:
        """The entries that end after this seq; raises EngineError if the conversation was forgotten meanwhile."""
        rows = await self._reader.rows(self._sql.standing(root=self._root))
        number, last = rows[0] if rows else (0, 0)
        if self._number not in (0, number):
            raise forgotten(self._root)
        self._number = number
        return await self._entries() if last > self._seq else []

    def pass_by(self, entry: Entry) -> None:
        """This one has been seen."""
        self._seq = entry.seq + len(entry.events) - 1
        here = entry.conversation == self._root
        self._position = entry.position + len(entry.events) if here else self._position or 0

    async def _entries(self) -> list[Entry]:
        where = {"root": self._number, "seq": self._seq}
        if self._position is not None:
            return [entry_of(row) for row in await self._reader.rows(self._sql.news(**where, position=self._position))]
        entries = [entry_of(row) for row in await self._reader.rows(self._sql.rest(**where))]
        return [entry for entry in entries if entry.seq + len(entry.events) > self._seq + 1]
