"""Many jobs in one transaction: each entry is recorded whole, or refused and not there at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from changeover.errors import ChangeoverError, Conflict, ConversationNotFound, LeaseLost, Owned
from changeover.relay.events import Started
from changeover.stores.breakers.board import Board
from changeover.stores.database import Row, Session, Write
from changeover.stores.jobs import Append, Job, Own, Release
from changeover.stores.lease import Lease
from changeover.stores.legs import Leg, Legs
from changeover.stores.over import ENDED
from changeover.stores.past import Foreseen, SqlPast
from changeover.stores.places import Place, Places
from changeover.stores.projections import project
from changeover.stores.queue.tickets import Tickets
from changeover.stores.rounds import Round
from changeover.stores.rows import Rows
from changeover.stores.statements import Statements
from changeover.stores.tally import Tally


class Batch:
    """One transaction. Its jobs concern different conversations, whose rows are ours until it ends."""

    def __init__(self, session: Session, sql: Statements, lease: Lease, places: Places, legs: Legs) -> None:
        self._session, self._sql, self._lease, self._places, self._legs = session, sql, lease, places, legs
        self._me = lease.owner
        self._rows = Rows()
        self._touched: dict[str, Place] = {}
        self._moved: list[tuple[Append, int, Leg | None]] = []
        self._tickets, self._board = Tickets(sql), Board(sql.breakers)
        self._buries = False

    def write(self, jobs: Sequence[Job[Any]], careful: bool) -> None:
        """Write what can be written; each job has its outcome then. Raises LeaseLost, or what the driver raises.

        Whether a cause was recorded before is left to the database to find, unless `careful`: it hardly ever was.
        """
        self._session.begin()
        if careful:
            self._places.forget()
        appends = [job for job in jobs if isinstance(job, Append)]
        # Rows are locked before anything is read that only their owner may change; all of it takes one round trip.
        asked = Round(self._session)
        self._places.look(asked, jobs, self._me if self._lease.valid else None)
        self._tickets.look(asked, jobs)
        self._foreseen = Foreseen(asked, self._sql, appends, self._legs)
        self._board.look(asked, jobs)
        asked.run()
        if self._me not in self._places.alive:
            raise LeaseLost("the lease of this process has run out")
        before = self._recorded([append for append in appends if careful or append.tried])
        for job in jobs:
            if isinstance(job, Append):
                self._append(job, before.get(job.conversation))
            elif isinstance(job, Own):
                self._own(job)
            elif isinstance(job, Release):
                self._release(job)
        self._session.commit(self._writes())
        for append, number, leg in self._moved:
            self._legs.keep(append.conversation, number, append.entry.position + len(append.entry.events), leg)

    @property
    def bells(self) -> set[str]:
        """The topics of those for whom it made something to take."""
        return self._tickets.bells

    def _recorded(self, appends: Sequence[Append]) -> dict[str, Row]:
        """What is recorded already under the causes of these."""
        find = self._sql.log.find
        calls = [find(conversation=append.conversation, cause=append.entry.cause) for append in appends]
        found = self._session.run(calls) if calls else []
        return {append.conversation: rows[0] for append, rows in zip(appends, found, strict=True) if rows}

    def _append(self, append: Append, before: Row | None) -> None:
        entry, place = append.entry, self._places.get(append.conversation)
        if before and append.tried and _same(append, before):
            entry.seq = before[2]
            return
        root = self._places.get(append.root) if append.root != append.conversation else place
        append.error = self._refusal(append, place, root, before)
        if append.error is not None:
            return
        place = place or self._open(append)
        root = root or place
        entry.seq = root.count(len(entry.events))
        self._take(append, root)
        place.move(len(entry.events), entry.at)
        if (head := append.head) is not None:
            place.agent = head.agent
            for spent in head.spent:
                self._rows.add_spending(entry, spent)
            self._change(place, head.status, self._me if head.working else None, head.due)
            if head.status in ENDED and root is not place and root.owner != self._me and root.status not in ENDED:
                # Whoever waits for it rests, or is elsewhere: should nobody live to tell them, it is found.
                root.change(root.status, root.owner, entry.at)
        else:  # somebody has to take it up, also if whoever worked on it has just finished
            place.change("running", place.owner, place.due)
        self._touched[place.id], self._touched[root.id] = place, root
        self._record(append, place, root)
        if append.tickets:
            self._tickets.note(head, append.claim)

    def _refusal(
        self, append: Append, place: Place | None, root: Place | None, before: Row | None
    ) -> ChangeoverError | None:
        entry = append.entry
        if append.claim and (lost := self._tickets.refusal(append.claim)):
            return lost
        if before or entry.position != (place.position if place else 0):
            return Conflict(entry.conversation, entry.position, entry.cause)
        if root is None and append.conversation != append.root:
            return ConversationNotFound(append.root)
        if place and append.head is not None and self._is_elsewhere(place):
            return Owned(entry.conversation, place.owner or "")
        return self._hindrance(append, root.tally if root else Tally())

    def _hindrance(self, append: Append, tally: Tally) -> ChangeoverError | None:
        """Why the tree may not spend what this takes, or those get nothing to whom it offers something."""
        refusal: ChangeoverError | None = None
        if append.circuits is not None:
            refusal = self._board.refusal(append.circuits, append.entry.at)
        if refusal is None and append.reserve is not None:
            refusal = tally.refusal(append.reserve)
        # Looked up now: the insert, by which the database would find it, is not made.
        if refusal and self._recorded([append]):
            return Conflict(append.conversation, append.entry.position, append.entry.cause)
        return refusal

    def _take(self, append: Append, root: Place) -> None:
        """What it spends, and what it means for receivers."""
        if append.reserve is not None:
            root.tally.take(append.reserve)
        if append.circuits is not None:
            self._board.take(append.entry.at)

    def _open(self, append: Append) -> Place:
        entry = append.entry
        first = entry.events[0]
        parent = (first.parent or None) if isinstance(first, Started) else None
        return self._places.open(entry.conversation, (entry.root, parent, entry.at))

    def _record(self, append: Append, place: Place, root: Place) -> None:
        entry = append.entry
        above = None if root is place else root.number
        what = (entry.cause, entry.at, entry.seq, entry.schema, append.body)
        self._rows.entries.append((place.number, entry.position, above, *what))
        past = SqlPast(self._session, self._sql, entry.conversation, self._foreseen)
        id, end = entry.conversation, entry.position
        leg = self._legs.get(id, place.number, end, past.leg) if end else None
        self._moved.append((append, place.number, project(entry, append.events, leg, past, self._rows)))

    def _own(self, own: Own) -> None:
        """What nobody has begun can be begun by whoever asks; what has ended is nobody's."""
        place = self._places.get(own.conversation)
        own.result = place is None or not self._is_elsewhere(place)
        if place and own.result and place.status in ("running", "waiting"):
            self._change(place, "running", self._me, place.due)
            self._touched[place.id] = place

    def _release(self, release: Release) -> None:
        place = self._places.get(release.conversation)
        if place is None or place.owner != self._me or place.status != "running":
            return
        # Whoever left word meanwhile counts on the owner to hear it.
        release.result = place.position == release.position
        if release.result:
            self._change(place, "waiting", None, place.due)
            self._touched[place.id] = place
            if release.rests:
                self._tickets.rest(release.rests)

    def _is_elsewhere(self, place: Place) -> bool:
        """Whether another live process works on it."""
        return place.owner is not None and place.owner != self._me and place.owner in self._places.alive

    def _change(self, place: Place, status: str, owner: str | None, due: float | None) -> None:
        self._buries = self._buries or place.owner not in (None, self._me)
        place.change(status, owner, due)

    def _writes(self) -> list[Write]:
        # In one order for everybody, as their rows were locked: of two who begin the same conversations, one waits for
        # the other, and never each for the other.
        for _, place in sorted(self._touched.items()):
            place.write(self._rows)
        writes: list[Write] = [(self._sql.writes[name].sql, rows) for name, rows in self._rows.by_statement()]
        writes += [*self._tickets.writes(), *self._board.writes()]
        if self._buries:  # whoever lost a conversation to us is dead
            writes.append((self._sql.lease.bury.sql, [()]))
        if self._sql.notify and self._moved:
            topics = {append.root for append, _, _ in self._moved} | self.bells
            writes.append((self._sql.notify.sql, [(self._sql.listed(sorted(topics)),)]))
        return writes


def _same(append: Append, row: Row) -> bool:
    """Whether this row is the very entry, recorded by a commit of which nobody heard."""
    position, at, _, body = row
    return (position, at, body) == (append.entry.position, append.entry.at, append.body)
