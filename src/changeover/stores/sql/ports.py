"""SqlQueue: the tickets of a log in a database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from changeover.relay.queue import Bell, Claim, Queued, Taken
from changeover.stores.feed import Feed
from changeover.stores.listeners import bell_of
from changeover.stores.queue.jobs import GiveBack, Renew, Retry, Take
from changeover.stores.sql.claims import ticket_of
from changeover.stores.sql.database import Row
from changeover.stores.sql.queue import QueueStatements
from changeover.stores.sql.reader import Reader
from changeover.stores.sql.writer import Writer


class SqlQueue:
    """Whoever takes, holds or gives back asks the writer; whoever lists only reads."""

    def __init__(
        self, sql: QueueStatements, writer: Writer, reader: Reader, feed: Feed, check: Callable[[], None]
    ) -> None:
        self._sql, self._writer, self._reader, self._feed = sql, writer, reader, feed
        self._check = check
        """Raises if the store is closed."""

    async def take(
        self, agents: Sequence[str], token: str, lease: float, limit: int, most: int, now: float
    ) -> list[Taken]:
        self._check()
        self._writer.put(take := Take(agents, token, lease, limit, most, now))
        try:
            return await asyncio.shield(take.future)
        except asyncio.CancelledError:
            take.future.add_done_callback(self._give_back_all)
            raise

    async def renew(self, claims: Sequence[Claim], lease: float) -> list[str]:
        self._check()
        self._writer.put(renewal := Renew(claims, lease))
        return await renewal.future

    async def give_back(self, claim: Claim, counted: bool) -> bool:
        self._check()
        self._writer.put(back := GiveBack(claim, counted))
        return await back.future

    async def worn_out(self, most: int) -> list[Queued]:
        self._check()
        return [_queued_of(row) for row in await self._reader.rows(self._sql.worn_out(most=most))]

    async def retry(self, ticket: str, offered: bool = False) -> bool:
        self._check()
        self._writer.put(retry := Retry(ticket, offered))
        return await retry.future

    async def tickets(self, ticket: str | None = None) -> list[Queued]:
        self._check()
        wanted = self._sql.all() if ticket is None else self._sql.one(ticket=ticket)
        return [_queued_of(row) for row in await self._reader.rows(wanted)]

    def listening(self, agents: Sequence[str]) -> AbstractContextManager[Bell]:
        self._check()
        return self._feed.listening([bell_of(agent) for agent in agents])

    def _give_back_all(self, taking: asyncio.Future[list[Taken]]) -> None:
        """Whoever wanted these has gone, and others need not wait until their leases run out."""
        for taken in () if taking.cancelled() or taking.exception() else taking.result():
            self._writer.put(GiveBack(Claim(taken.ticket.id, taken.token), counted=False))


def _queued_of(row: Row) -> Queued:
    attempts, owner, until, rests = row[8:]
    return Queued(ticket_of(row), attempts, owner or "", until, bool(rests))
