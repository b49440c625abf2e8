"""Where conversations stand, while a transaction has them to itself."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from changeover.stores.database import Row
from changeover.stores.jobs import Append, Job
from changeover.stores.legs import KEPT
from changeover.stores.rounds import Round
from changeover.stores.rows import Rows
from changeover.stores.statements import Statements
from changeover.stores.tally import Tally


class Place:
    """A row of `conversations`, as it will be."""

    __slots__ = (
        *("agent", "at", "changed", "due", "id", "moved", "number", "opened", "owner", "position", "seq", "status"),
        "tally",
    )

    def __init__(self, row: Row) -> None:
        self.number: int
        self.id: str
        self.position: int
        self.seq: int
        self.owner: str | None
        self.due: float | None
        self.number, self.id, self.position, self.seq, self.status, self.agent, self.owner, self.due, self.at = row[:9]
        self.tally = Tally(*row[9:])
        """What its tree has spent, if it is a root."""
        self.opened: tuple[str, str | None, float] | None = None
        """Its root, its parent and when it was opened, if that is only now."""
        self.moved = self.changed = False

    def count(self, events: int) -> int:
        """Give out so many numbers in the tree of this root; return the first."""
        self.seq += events
        self.moved = True
        return self.seq - events + 1

    def move(self, events: int, at: float) -> None:
        """The end of its log goes forward."""
        self.position += events
        self.at, self.moved = at, True

    def change(self, status: str, owner: str | None, due: float | None) -> None:
        """How it stands, who works on it, and when it goes on of itself: that is in indexes, which are left alone if
        all stays the same."""
        if status != self.status or owner != self.owner or due != self.due:
            self.status, self.owner, self.due, self.changed = status, owner, due, True

    def write(self, rows: Rows) -> None:
        """Add what has to be written."""
        counters = (self.position, self.seq, *self.tally.row)
        if self.opened:
            root, parent, at = self.opened
            names, standing = (self.number, self.id, root, parent), (self.status, self.agent, self.owner, self.due)
            rows.new_conversations.append((*names, *standing, *counters, at, self.at))
        elif self.changed:
            standing = (self.status, self.agent, self.owner, self.due)
            rows.changed_conversations.append((*standing, *counters, self.at, self.number))
        elif self.moved:
            rows.moved_conversations.append((self.agent, *counters, self.at, self.number))
        self.opened, self.moved, self.changed = None, False, False


class Places:
    """Locks and reads the rows that jobs are about; what nobody else can have changed is not read again."""

    def __init__(self, sql: Statements) -> None:
        self._sql = sql
        self._known: dict[str, Place] = {}
        self._last = 0
        """The highest number of a conversation, if we can know it."""
        self._numbers: list[int] = []
        self.alive: Collection[str] = ()
        """The processes that live, by the clock of the database."""

    def look(self, asked: Round, jobs: Sequence[Job[Any]], me: str | None) -> None:
        """Find out how the conversations of these jobs stand. `me` is who we are, if our lease certainly holds."""
        if not asked.session.undisturbed() or len(self._known) > KEPT:
            self.forget()
        new = [job.conversation for job in jobs if isinstance(job, Append) and job.entry.position == 0]
        if me and (self._last or not new) and all(self._knows(job, me) for job in jobs):
            self.alive = (me,)
        else:
            self._read(asked, sorted({id for job in jobs for id in (job.conversation, job.root)}), new)

    def get(self, conversation: str) -> Place | None:
        return self._known.get(conversation)

    def open(self, conversation: str, opened: tuple[str, str | None, float]) -> Place:
        """A place for a conversation that begins."""
        number = self._numbers.pop(0) if self._numbers else self._last + 1
        self._last = max(self._last, number)
        place = self._known[conversation] = Place((number, conversation, 0, 0, "running", "", None, None, opened[2]))
        place.opened = opened
        return place

    def forget(self) -> None:
        """Somebody else wrote, or what we were about to write was not written."""
        self._known.clear()
        self._numbers.clear()
        self._last = 0

    def _knows(self, job: Job[Any], me: str) -> bool:
        """Whether nothing is left to ask for this job. A conversation that begins is taken to be new: if it is not,
        the database will say so."""
        place = self._known.get(job.conversation)
        if place is None:
            return job.root == job.conversation and isinstance(job, Append) and job.entry.position == 0
        return place.owner in (None, me) and job.root in self._known

    def _read(self, asked: Round, ids: list[str], new: list[str]) -> None:
        log, listed = self._sql.log, self._sql.listed
        for id in ids:
            self._known.pop(id, None)
        self._numbers = []
        asked.later(log.places(ids=listed(ids)), self._learn)
        asked.later(log.alive(), self._see)
        if new:
            asked.later(log.numbers(ids=listed(new)), self._count)

    def _learn(self, rows: list[Row]) -> None:
        self._known.update({row[1]: Place(row) for row in rows})

    def _see(self, alive: list[Row]) -> None:
        self.alive = {name for (name,) in alive}

    def _count(self, numbers: list[Row]) -> None:
        self._numbers = [number for (number,) in numbers]
