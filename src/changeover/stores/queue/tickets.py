"""The tickets that a batch of entries is about, as they will be when it is committed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from changeover.errors import ClaimLost
from changeover.facts import Ticket
from changeover.relay.ports import Head
from changeover.relay.queue import Claim
from changeover.stores.listeners import bell_of
from changeover.stores.queue.claims import lost
from changeover.stores.rounds import Round
from changeover.stores.sql.database import Row, Write
from changeover.stores.sql.jobs import Job
from changeover.stores.sql.statements import Statements


class Seen(NamedTuple):
    """A ticket as the transaction found it, or left it so far."""

    owner: str | None
    agent: str
    rests: bool


class Tickets:
    """Locks and reads the rows that jobs are about, and gathers what becomes of them. A batch that is about none costs
    nothing."""

    def __init__(self, sql: Statements) -> None:
        self._sql = sql
        self._seen: dict[str, Seen] = {}
        self._removed: set[str] = set()
        self._put: dict[str, Ticket] = {}
        self._ended: set[str] = set()
        self._resting: set[str] = set()
        self.bells: set[str] = set()
        """The topics of those for whom there may be something to take now."""

    def look(self, asked: Round, jobs: Sequence[Job[Any]]) -> None:
        """See how the tickets of these jobs stand; nobody can take them until the transaction ends."""
        # All at once and in one order: of two who are about the same, one waits for the other, and never each for the
        # other.
        if ids := {id for job in jobs for id in job.tickets}:
            asked.later(self._sql.queue.lock(ids=self._sql.listed(sorted(ids))), self._see)

    def _see(self, rows: list[Row]) -> None:
        self._seen = {id: Seen(*how) for id, *how in rows}

    def refusal(self, claim: Claim) -> ClaimLost | None:
        """Why nothing may be written by this claim; nothing if it holds."""
        seen = self._seen.get(claim.ticket)
        if seen and seen.owner == claim.token:
            return None
        return lost(claim, seen is not None, seen.owner if seen else None)

    def note(self, head: Head | None, claim: Claim | None) -> None:
        """What an entry does to tickets, now that it is going to be recorded."""
        if head is not None:
            for id in head.gone:
                self._remove(id)
            for ticket in head.tickets:
                self._put_in(ticket)
            for id in head.rests:
                self.rest(id)
        if claim is not None and claim.ends and (seen := self._seen.get(claim.ticket)) and seen.owner == claim.token:
            self._end(claim.ticket, seen.agent)

    def rest(self, id: str) -> None:
        """It is nobody's, and there is nothing to take."""
        if seen := self._seen.get(id):
            self._seen[id] = seen._replace(owner=None, rests=True)
            self._ended.discard(id)
            self._resting.add(id)

    def writes(self) -> list[Write]:
        """In the only order in which each does what it was asked to, whichever came first."""
        if not (self._removed or self._put or self._ended or self._resting):
            return []
        sql = self._sql.tickets
        rows = (
            (sql.remove.sql, [(id,) for id in sorted(self._removed)]),
            (sql.put.sql, [sql.row(ticket) for ticket in self._put.values()]),
            (sql.end.sql, [(id,) for id in sorted(self._ended)]),
            (sql.rest.sql, [(id,) for id in sorted(self._resting)]),
        )
        return [write for write in rows if write[1]]

    def _remove(self, id: str) -> None:
        self._seen.pop(id, None)
        self._put.pop(id, None)
        self._ended.discard(id)
        self._resting.discard(id)
        self._removed.add(id)

    def _put_in(self, ticket: Ticket) -> None:
        seen = self._seen.get(ticket.id)
        if seen and not seen.rests:
            return
        self._put[ticket.id] = ticket
        self._seen[ticket.id] = seen._replace(rests=False) if seen else Seen(None, ticket.agent, False)
        if ticket.id in self._resting:  # by another entry of this batch, which made it nobody's
            self._resting.remove(ticket.id)
            self._ended.add(ticket.id)
        self.bells.add(bell_of(self._seen[ticket.id].agent))

    def _end(self, id: str, agent: str) -> None:
        self._seen[id] = self._seen[id]._replace(owner=None)
        self._ended.add(id)
        self.bells.add(bell_of(agent))
