"""Batch: many appends in one transaction, each recorded whole or refused."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from changeover.bus.delivery import Publication
from changeover.errors import ChangeoverError, Conflict, ConversationNotFound, LeaseLost, Owned
from changeover.ids import bus_topic
from changeover.relay.ports.declarations import EditionMoved
from changeover.relay.projection.admission import ENDED, UNSPENT, Tally
from changeover.relay.projection.rows import Rows, opening_of
from changeover.stores.sql.breakers import LockedBoard
from changeover.stores.sql.database import Round, Row, Session, Write
from changeover.stores.sql.jobs import Append, Job, Own, Release
from changeover.stores.sql.lease import Lease
from changeover.stores.sql.locks import Place, Places
from changeover.stores.sql.outbox import publication_writes
from changeover.stores.sql.statements import Statements
from changeover.stores.sql.tickets import Tickets

_TICKETS, _CIRCUITS, _BEGINS = attrgetter("tickets"), attrgetter("circuits"), attrgetter("begins")


class Batch:
    """One transaction. Its jobs concern different conversations, whose rows it locks until it ends."""

    def __init__(self, session: Session, sql: Statements, lease: Lease, places: Places) -> None:
        self._session, self._sql, self._lease, self._places = session, sql, lease, places
        self._me, self._epochs = lease.owner, (0, lease.epoch)
        self._rows = Rows()
        self._touched: dict[str, Place] = {}
        self.recorded: list[Append] = []
        """The appends that are in the log after this transaction."""
        self.published: Sequence[Publication] = ()
        """The events of the bus that they publish."""
        self.bells: set[str] = set()
        """The topics of the agents that have new work in the queue, and of the teams that have new events."""
        self._before: dict[str, Row] = {}
        """Entries that are recorded already, by conversation, as far as they were looked up."""
        # Most batches have no tickets and no circuits, and do not pay for them.
        self._tickets: Tickets | None = None
        self._board: LockedBoard | None = None
        self._buries = False

    def write(self, jobs: Sequence[Job[Any]], careful: bool) -> None:
        """Write what can be written, and give each job its result. Raises LeaseLost, or the driver's error.

        A cause that was recorded before is found by the unique index, unless `careful`: then it is looked up first.
        """
        self._session.begin()
        if careful:
            self._places.forget()
        self._look(jobs)
        if careful:
            self._before = self._find_recorded([job for job in jobs if isinstance(job, Append)])
        for job in jobs:
            if isinstance(job, Append):
                self._append(job)
            elif isinstance(job, Own):
                self._own(job)
            elif isinstance(job, Release):
                self._release(job)
        self._session.commit(self._writes())

    def _look(self, jobs: Sequence[Job[Any]]) -> None:
        """Lock and read the rows that these jobs are about."""
        # Rows are locked before what only their owner may change is read; all of it takes one round trip.
        asked = Round(self._session)
        tickets, circuits, begins = any(map(_TICKETS, jobs)), any(map(_CIRCUITS, jobs)), any(map(_BEGINS, jobs))
        me = self._me if self._lease.valid else None
        self._places.look(asked, jobs, me, alone=not (tickets or circuits or begins))
        if tickets:
            self._tickets = Tickets(self._sql.queue)
            self._tickets.look(asked, jobs)
        if circuits:
            self._board = LockedBoard(self._sql.breakers)
            self._board.look(asked, jobs)
        if begins:
            self._places.look_edition(asked)
        asked.run()
        if self._me not in self._places.alive:
            raise LeaseLost("the lease of this process has run out")

    def _find_recorded(self, appends: Sequence[Append]) -> dict[str, Row]:
        """The entries that are recorded already under the causes of these appends."""
        find = self._sql.log.find
        calls = [find(conversation=append.conversation, cause=append.entry.cause) for append in appends]
        found = self._session.run(calls) if calls else []
        return {append.conversation: rows[0] for append, rows in zip(appends, found, strict=True) if rows}

    def _append(self, append: Append) -> None:
        before = self._before.get(append.conversation) if self._before else None
        place = self._places.known.get(append.conversation)
        root = place if append.root == append.conversation else self._places.known.get(append.root)
        if append.epoch not in self._epochs:
            append.error = LeaseLost("the lease of this process ran out before this could be written")
        elif before and append.tried and self._is_ours(append, place) and _same(append, before):
            append.entry.seq = before[2]
            self.recorded.append(append)
        elif refusal := append.error or self._refusal(append, place, root, before):
            append.error = refusal
        else:
            place = place or self._places.open(append.conversation, opening_of(append.entry))
            self._record(append, place, root or place)

    def _refusal(
        self, append: Append, place: Place | None, root: Place | None, before: Row | None
    ) -> ChangeoverError | None:
        entry = append.entry
        if append.claim and self._tickets and (lost := self._tickets.refusal(append.claim)):
            return lost
        if before or entry.position != (place.position if place else 0):
            return Conflict(entry.conversation, entry.position, entry.cause)
        if root is None and append.conversation != append.root:
            return ConversationNotFound(append.root)
        if place and append.head is not None and self._is_elsewhere(place):
            return Owned(entry.conversation, place.owner or "")
        if append.circuits is None and append.reserve is None and not append.begins:
            return None
        return self._hindrance(append, root.tally if root else UNSPENT)

    def _hindrance(self, append: Append, tally: Tally) -> ChangeoverError | None:
        """The refusal of an append by declarations, a circuit or the budget of its tree; None if it may be recorded."""
        refusal: ChangeoverError | None = None
        if append.head is not None and append.head.edition not in (None, self._places.edition):
            refusal = EditionMoved(self._places.edition)
        if refusal is None and self._board and append.circuits is not None:
            refusal = self._board.refusal(append.circuits, append.entry.at)
        if refusal is None and append.reserve is not None:
            refusal = tally.refusal(append.reserve)
        # Looked up here: a refused append makes no insert in which the unique index would find it.
        if refusal and self._find_recorded([append]):
            return Conflict(append.conversation, append.entry.position, append.entry.cause)
        return refusal

    def _record(self, append: Append, place: Place, root: Place) -> None:
        entry, events, above = append.entry, len(append.entry.events), None
        entry.seq, root.seq = root.seq + 1, root.seq + events
        place.position, place.at = place.position + events, entry.at
        self._touched[place.id] = place
        if root is not place:
            self._touched[root.id], above = root, root.number
        self._stand(append, place, root)
        if append.reserve is not None:
            root.tally = root.tally.after(append.reserve)
        if self._board and append.circuits is not None:
            self._board.take(entry.at)
        if self._tickets:
            self._tickets.note(append.head, append.claim)
        row = (place.number, entry.position, above, entry.cause, entry.at, entry.seq, entry.schema, append.body)
        self._rows["entries"].append(row)
        if append.rows is not None:
            self._rows.take(append.rows, entry.seq)
        self.recorded.append(append)

    def _stand(self, append: Append, place: Place, root: Place) -> None:
        """Set the status and the owner of the conversation."""
        entry, head = append.entry, append.head
        if head is None:  # an input: some process has to take it up, even if the owner has just finished
            place.change("running", place.owner, place.due)
            return
        place.agent = head.agent
        for spent in head.spent:
            self._rows.add_spending(entry, spent)
        if place.owner is not None and place.owner != self._me:
            self._buries = True
        place.change(head.status, self._me if head.working else None, head.due)
        if root is not place and head.status in ENDED and root.owner != self._me and root.status not in ENDED:
            # The root waits, or another process works on it: should that process die, recovery finds the root.
            root.change(root.status, root.owner, entry.at)

    def _own(self, own: Own) -> None:
        """A conversation that does not exist can be owned; one that has ended has no owner."""
        place = self._places.known.get(own.conversation)
        own.result = place is None or not self._is_elsewhere(place)
        if place and own.result and place.status in ("running", "waiting"):
            self._buries = self._buries or place.owner not in (None, self._me)
            place.change("running", self._me, place.due)
            if place.changed:
                self._touched[place.id] = place

    def _release(self, release: Release) -> None:
        place = self._places.known.get(release.conversation)
        if place is None or place.owner != self._me or place.status != "running":
            return
        # Another process appended an input meanwhile, and relies on the owner to take it up.
        release.result = place.position == release.position
        if release.result:
            # A delegate may have ended just now, so that it is due already.
            due = min((each for each in (place.due, release.due) if each is not None), default=None)
            place.change("waiting", None, due)
            self._touched[place.id] = place
            if self._tickets and release.rests:
                self._tickets.rest(release.rests)

    def _is_ours(self, append: Append, place: Place | None) -> bool:
        """True if this process may have written the entry: another one may have begun the same conversation."""
        works = append.head is not None and append.head.working
        return not works or (place is not None and place.owner == self._me)

    def _is_elsewhere(self, place: Place) -> bool:
        """True if another live process owns the conversation."""
        return place.owner is not None and place.owner != self._me and place.owner in self._places.alive

    def _writes(self) -> list[Write]:
        # In the order in which rows were locked: two processes that begin the same conversations must not deadlock.
        for _, place in sorted(self._touched.items()):
            place.write(self._rows)
        writes: list[Write] = self._places.comparison(self._me)
        writes += self._rows.in_order(self._sql.writes)
        self.published = self._rows.published
        if self._tickets:
            writes += self._tickets.writes()
            self.bells |= self._tickets.bells
        if self._board:
            writes += self._board.writes()
            self.published = [*self.published, *self._board.published]
        if self._buries:  # the process that owned the conversation before is dead
            writes.append((self._sql.lease.bury.sql, [()]))
        if self.published:
            writes += publication_writes(self._sql.outbox, self.published)
            self.bells.update(bus_topic(each.team) for each in self.published)
        if self._sql.notify and self.recorded:
            topics = {append.root for append in self.recorded} | self.bells
            writes.append((self._sql.notify.sql, [(self._sql.listed(sorted(topics)),)]))
        return writes


def _same(append: Append, row: Row) -> bool:
    """True if this row is the entry itself, recorded by a commit whose result was lost."""
    position, at, _, body = row
    return (position, at, body) == (append.entry.position, append.entry.at, append.body)
