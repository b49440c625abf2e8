"""Locked rows: the conversations of a batch, as they will be at commit."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from msgspec import Struct

from changeover.relay.projection.admission import UNSPENT, Tally
from changeover.relay.projection.rows import Opening, Rows
from changeover.stores.sql.database import Round, Row, Write
from changeover.stores.sql.dialects.bulk import json_rows
from changeover.stores.sql.jobs import Append, Job
from changeover.stores.sql.statements import HELD, Statements

KEPT = 2_048
"""The most conversations that stay cached between transactions."""
UNREAD = -1
"""In the place of an edition that is not cached."""


class Place(Struct, gc=False):
    """A row of `conversations`, as it will be at commit."""

    number: int
    id: str
    position: int
    seq: int
    status: str
    agent: str
    owner: str | None
    due: float | None
    at: float
    tally: Tally = UNSPENT
    """The counters of the tree, if it is a root."""
    opened: Opening | None = None
    """The beginning of a conversation that this transaction opens."""
    changed: bool = False

    def change(self, status: str, owner: str | None, due: float | None) -> None:
        """Set status, owner and due time. They are indexed, so they are written only if one of them changed."""
        if status != self.status or owner != self.owner or due != self.due:
            self.status, self.owner, self.due, self.changed = status, owner, due, True

    def write(self, rows: Rows) -> None:
        """Add the row to those that are written."""
        counters = (self.position, self.seq, *self.tally)
        if not (self.opened or self.changed):
            rows["moved_conversations"].append((self.agent, *counters, self.at, self.number))
            return
        status = (self.status, self.agent, self.owner, self.due)
        if self.opened:
            rows.add_conversation(self.number, self.id, self.opened, (status, counters, self.at))
        else:
            rows["changed_conversations"].append((*status, *counters, self.at, self.number))
        self.opened, self.changed = None, False


class Places:
    """Locks and reads the rows of conversations, and reads the last edition of the declarations; what no other process
    can have changed is cached."""

    def __init__(self, sql: Statements) -> None:
        self._sql = sql
        self.known: dict[str, Place] = {}
        """Cached rows, by conversation."""
        self._last = 0
        """The highest number of a conversation; 0 if not known."""
        self._numbers: list[int] = []
        self._held: list[Row] = []
        """Cached rows that the transaction uses unread, as they were before it."""
        self.alive: Collection[str] = ()
        """The processes whose lease holds, by the clock of the database."""
        self.edition = UNREAD
        """The last edition of the declarations, or UNREAD."""

    def look(self, asked: Round, jobs: Sequence[Job[Any]], me: str | None, alone: bool) -> None:
        """Lock and read the rows of these jobs. `me` names this process, if its lease certainly holds; `alone` is True
        if nothing else has to be read."""
        compares, self._held = self._sql.log.unmoved is not None, []
        if len(self.known) > KEPT or not (compares or asked.session.undisturbed()):
            self.forget()
        if me and ((alone and self._holds(jobs, me)) if compares else self._knows(jobs, me)):
            self.alive = (me,)
        else:
            self._read(asked, jobs)

    def look_edition(self, asked: Round) -> None:
        """Read the last edition of the declarations, unless it is cached and no other process can have changed it."""
        if self.edition == UNREAD or self._sql.log.unmoved is not None:
            asked.later(self._sql.declarations.edition(), self._see_edition)

    def comparison(self, me: str) -> list[Write]:
        """Statements that fail if another process has changed a row which this transaction uses unread, or if the lease
        has run out while it waited for such a row."""
        log = self._sql.log
        if log.unmoved is None or not self._held:
            return []
        [held] = json_rows(HELD, self._held)
        return [(log.unmoved.sql, [(held,)]), (log.still_leased.sql, [(me,)])]

    def open(self, conversation: str, opened: Opening) -> Place:
        """The row of a conversation that begins."""
        number = self._numbers.pop(0) if self._numbers else self._last + 1
        self._last = max(self._last, number)
        place = Place(number, conversation, 0, 0, "running", "", None, None, opened.at, opened=opened)
        self.known[conversation] = place
        return place

    def forget(self) -> None:
        """Drop the cache: another process wrote, or a transaction was rolled back."""
        self.known.clear()
        self._numbers.clear()
        self._last = 0
        self.edition = UNREAD

    def _knows(self, jobs: Sequence[Job[Any]], me: str) -> bool:
        """True if all rows of these jobs are cached. A conversation at position 0 is taken to be new: if it is not, the
        insert fails."""
        known = self.known
        for job in jobs:
            place = known.get(job.conversation)
            if place is None:
                if not self._last or job.root != job.conversation or not _begins(job):
                    return False
            elif (place.owner is not None and place.owner != me) or job.root not in known:
                return False
        return True

    def _holds(self, jobs: Sequence[Job[Any]], me: str) -> bool:
        """True if these are appends to conversations that this process owns, and whose rows are cached."""
        held: dict[int, Row] = {}
        for job in jobs:
            place, root = self.known.get(job.conversation), self.known.get(job.root)
            if not (place and root and isinstance(job, Append) and job.entry.position == place.position):
                return False
            if place.owner != me or root.owner != me or job.reserve is not None:
                return False
            for each in (place, root):
                held[each.number] = (each.number, each.position, each.seq, each.status, me)
        self._held = list(held.values())
        return True

    def _read(self, asked: Round, jobs: Sequence[Job[Any]]) -> None:
        log, listed = self._sql.log, self._sql.listed
        ids = sorted({id for job in jobs for id in (job.conversation, job.root)})
        for id in ids:
            self.known.pop(id, None)
        self._numbers = []
        asked.later(log.places(ids=listed(ids)), self._learn)
        asked.later(log.alive(), self._see)
        if new := [job.conversation for job in jobs if _begins(job)]:
            asked.later(log.numbers(ids=listed(new)), self._count)

    def _learn(self, rows: list[Row]) -> None:
        self.known.update({row[1]: _place_of(row) for row in rows})

    def _see_edition(self, rows: list[Row]) -> None:
        [[self.edition]] = rows

    def _see(self, alive: list[Row]) -> None:
        self.alive = {name for (name,) in alive}

    def _count(self, numbers: list[Row]) -> None:
        self._numbers = [number for (number,) in numbers]


def _begins(job: Job[Any]) -> bool:
    return isinstance(job, Append) and job.entry.position == 0


def _place_of(row: Row) -> Place:
    number, id, position, seq, status, agent, owner, due, at, *spent = row
    return Place(number, id, position, seq, status, agent, owner, due, at, Tally(*spent))
