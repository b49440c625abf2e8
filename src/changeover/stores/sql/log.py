"""SqlLog: the log in a SQL database, and TreeNews, its cursor over the new entries of a tree."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import AsyncIterator

import msgspec

from changeover.errors import StoreUnavailable
from changeover.facts import ApprovalRequest
from changeover.relay.events import Entry
from changeover.relay.ports.health import StoreHealth, Traffic
from changeover.relay.ports.log import Circuits, Head, Reserve
from changeover.relay.ports.queue import Claim
from changeover.relay.projection.admission import forgotten
from changeover.relay.projection.rows import Rows
from changeover.stores.codec import entry_of, log_of
from changeover.stores.declarations import StoredDeclarations
from changeover.stores.deltas import LocalDeltas
from changeover.stores.feed import Feed
from changeover.stores.sql.breakers import SqlBreakers
from changeover.stores.sql.database import Database, Row, Session
from changeover.stores.sql.declarations import SqlDeclarations
from changeover.stores.sql.erasure import Erasure, Forget
from changeover.stores.sql.experience import SqlLessons
from changeover.stores.sql.health import health
from changeover.stores.sql.jobs import Append, OpenStore, Own, Release
from changeover.stores.sql.lease import Lease
from changeover.stores.sql.lists import SqlLists
from changeover.stores.sql.outbox import SqlTimetable
from changeover.stores.sql.queue import SqlQueue
from changeover.stores.sql.reader import Reader, Together
from changeover.stores.sql.statements import FeedStatements, Statements, statements
from changeover.stores.sql.table import SqlTable
from changeover.stores.sql.trials import SqlTrials
from changeover.stores.sql.writer import Writer
from changeover.stores.tables import StoredAgents, StoredContexts, StoredWorkers
from changeover.stores.tokens import StoredAudit, StoredTokens
from changeover.stores.upgrade import make_current


class TreeNews:
    """A cursor over the entries of one tree."""

    def __init__(self, sql: FeedStatements, reader: Reader, root: str, seq: int) -> None:
        self._sql, self._reader, self._root, self._seq = sql, reader, root, seq
        self._number = 0
        """The number of the root's row; a new conversation under the same id has another."""
        self._position: int | None = None if seq else 0
        """The lowest position of the root's next entry; None while the seq may lie inside an entry."""

    async def look(self) -> list[Entry]:
        """The entries after the cursor. Raises EngineError if the conversation was removed."""
        rows = await self._reader.rows(self._sql.root(root=self._root))
        number, last = rows[0] if rows else (0, 0)
        if self._number not in (0, number):
            raise forgotten(self._root)
        self._number = number
        return await self._entries() if last > self._seq else []

    def pass_by(self, entry: Entry) -> None:
        """Move the cursor behind this entry."""
        self._seq = entry.seq + len(entry.events) - 1
        here = entry.conversation == self._root
        self._position = entry.position + len(entry.events) if here else self._position or 0

    async def _entries(self) -> list[Entry]:
        where = {"root": self._number, "seq": self._seq}
        if self._position is not None:
            return [entry_of(row) for row in await self._reader.rows(self._sql.news(**where, position=self._position))]
        entries = [entry_of(row) for row in await self._reader.rows(self._sql.rest(**where))]
        return [entry for entry in entries if entry.seq + len(entry.events) > self._seq + 1]


class SqlLog:
    """A log in a SQL database. The constructor connects, and creates or upgrades the tables if that is safe."""

    projects = True

    def __init__(self, database: Database, lease: float) -> None:
        session = _current(database)
        self._database = database
        self._sql = statements(database.dialect)
        self._lease = Lease(self._sql.lease, lease)
        self._reader = Reader(database)
        self._together = _together(self._sql, self._reader)
        self._feed = Feed(database)
        self.deltas = database.deltas()
        self.traffic = Traffic()
        self._writer = Writer(database, session, self._sql, self._lease, self._feed, self.traffic)
        # No side table refers to the log: the log is finalized as soon as its last user drops it.
        store = self._store = OpenStore(database, self._reader, self._writer.put)
        self.queue = SqlQueue(self._sql.queue, store, self._feed.listening, self.traffic)
        self.agents = StoredAgents(SqlTable(self._sql.agents, store))
        self.contexts = StoredContexts(SqlTable(self._sql.contexts, store))
        self.breakers = SqlBreakers(self._sql.breakers, store)
        self.lists = SqlLists(database.dialect, store.rows, store.large)
        self.measures = self.lists.measures
        self.experience = SqlLessons(self._sql.lessons, store, SqlTable(self._sql.resets, store))
        self.trials = SqlTrials(self._sql.trials, store)
        self.audit = StoredAudit(SqlTable(self._sql.audit, store))
        self.workers = StoredWorkers(SqlTable(self._sql.workers, store))
        self.tokens = StoredTokens(SqlTable(self._sql.tokens, store), self.audit)
        self.declarations = StoredDeclarations(SqlDeclarations(self._sql.declarations, store))
        self.outbox = self.timetable = SqlTimetable(self._sql.outbox, store, self._feed.listening, self.traffic)
        self._erasure = Erasure(self._sql)
        # Also if it is never closed: at the end of the process, or when its last user drops it.
        self._finish = weakref.finalize(self, _finish, os.getpid(), self._writer, self._feed, self._reader, self.deltas)

    @property
    def epoch(self) -> int:
        """Number of leases that this process took; a new number means that the one before was lost."""
        return self._lease.epoch

    @property
    def commits(self) -> int:
        """Number of transactions that this process wrote; concurrent appends share one."""
        return self._writer.commits

    async def read(self, conversation: str, after: int = 0) -> list[Entry]:
        self._store.check()
        # An id that a database cannot hold is read alone, so that only its own read fails.
        if self._together and not after and conversation.isascii() and conversation.isprintable():
            rows = await self._together.rows(conversation)
        else:
            rows = await self._reader.rows(self._sql.log.read(conversation=conversation, after=after))
        return log_of(rows, after)

    async def tree(self, conversation: str) -> list[Entry]:
        return await self.lists.tree(conversation)

    async def append(
        self,
        entry: Entry,
        head: Head | None,
        reserve: Reserve | None = None,
        claim: Claim | None = None,
        circuits: Circuits | None = None,
        rows: Rows | None = None,
    ) -> None:
        self._store.check()
        append = Append(entry, head, reserve, claim, circuits, rows)
        append.epoch = self._lease.epoch
        self._writer.put(append)
        await append.future

    async def find(self, conversation: str, cause: str) -> int | None:
        self._store.check()
        rows = await self._reader.rows(self._sql.log.find(conversation=conversation, cause=cause))
        return rows[0][0] if rows else None

    async def unfinished(self, team: str | None = None) -> list[str]:
        self._store.check()
        return sorted({id for row in await self._reader.rows(self._sql.log.unfinished(team=team)) for id in row})

    async def holder(self, conversation: str) -> tuple[str, int, float] | None:
        """The host and id of the process that owns a conversation, and the seconds until its lease ends."""
        rows = await self._reader.rows(self._sql.log.holder(conversation=conversation))
        return (rows[0][0], rows[0][1], rows[0][2]) if rows else None

    async def approvals(self, team: str | None = None) -> list[ApprovalRequest]:
        self._store.check()
        return [_pending_of(row) for row in await self._reader.rows(self._sql.views.approvals(team=team))]

    async def at_work(self, agent: str, team: str | None = None) -> list[str]:
        self._store.check()
        return [row[0] for row in await self._reader.rows(self._sql.log.at_work(agent=agent, team=team))]

    async def claim(self, conversation: str) -> bool:
        """Own this conversation, unless another live process does; True too if it does not exist yet."""
        self._store.check()
        own = Own(conversation)
        self._writer.put(own)
        return await own.future

    async def release(self, conversation: str, position: int, rests: str = "", due: float | None = None) -> bool:
        self._store.check()
        release = Release(conversation, position, rests, due)
        self._writer.put(release)
        return await release.future

    async def owned(self) -> dict[str, int]:
        self._store.check()
        return dict(await self._reader.rows(self._sql.log.owned(me=self._lease.owner)))

    async def health(self) -> StoreHealth:
        return await health(self._database.dialect, self._store.large, len(await self.unfinished()))

    async def forget(self, root: str) -> bool:
        self._store.check()
        self._writer.put(forget := Forget(self._erasure.write, root))
        return await forget.future

    def may_begin(self) -> bool:
        return self._lease.valid

    async def changes(self, root: str, after_seq: int = 0) -> AsyncIterator[Entry]:
        """The entries of a root's tree that end after this seq, then each new one; the first may begin before it."""
        self._store.check()
        news = TreeNews(self._sql.feed, self._reader, root, after_seq)
        with self._feed.listening((root,)) as listener:
            while not self._store.closed:
                for entry in await self._look(news):
                    news.pass_by(entry)
                    yield entry
                await listener.wait()

    async def close(self) -> None:
        if not self._store.closed:
            self._store.closed = True
            await asyncio.to_thread(self._finish)

    async def _look(self, news: TreeNews) -> list[Entry]:
        try:
            return await news.look()
        except StoreUnavailable:
            if self._store.closed:
                return []
            raise


def _current(database: Database) -> Session:
    """A connection, once the tables have the version that this code needs."""
    session = database.connect()
    try:
        make_current(database, session)
    except BaseException:
        session.close()
        raise
    return session


def _together(sql: Statements, reader: Reader) -> Together | None:
    """Joins concurrent reads, where one query is quicker than several."""
    read_all = sql.log.read_all
    return Together(reader, lambda ids: read_all(ids=sql.listed(ids))) if read_all else None


def _pending_of(row: Row) -> ApprovalRequest:
    conversation, call, agent, tool, arguments, receiver, message, kind, at, expires_at, on_expiry, roles = row
    return ApprovalRequest(
        conversation=conversation,
        call=call,
        agent=agent,
        tool=tool,
        arguments=msgspec.json.decode(arguments),
        receiver=receiver,
        message=message,
        at=at,
        expires_at=expires_at,
        on_expiry=on_expiry,
        roles=tuple(msgspec.json.decode(roles)),
        kind=kind,
    )


def _finish(pid: int, writer: Writer, feed: Feed, reader: Reader, deltas: LocalDeltas) -> None:
    if os.getpid() == pid:  # threads and connections are the parent's, not those of a fork
        deltas.close()
        writer.stop()
        feed.close()
        reader.close()
