"""Many jobs in one transaction: each entry is recorded whole, or refused and not there at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from changeover.errors import Conflict, ConversationNotFound, LeaseLost, Owned
from changeover.relay.events import Started
from changeover.stores.database import CHANNEL, Call, Row, Session
from changeover.stores.jobs import Append, Claim, Job
from changeover.stores.lease import Lease
from changeover.stores.statements import Statements
from changeover.stores.views import View


class Place(NamedTuple):
    """Where an entry goes: its last seq, the number of its conversation and, for a child, that of its root."""

    seq: int
    conversation: int
    root: int | None = None


class Batch:
    """One transaction. Its jobs concern different conversations."""

    def __init__(self, session: Session, sql: Statements, lease: Lease, jobs: Sequence[Job[Any]]) -> None:
        self._session, self._sql, self._lease = session, sql, lease
        self._appends = [job for job in jobs if isinstance(job, Append)]
        self._claims = [job for job in jobs if isinstance(job, Claim)]
        self._roots = sorted({job.root for job in jobs})

    def write(self) -> None:
        """Write what can be written; each job has its outcome then. Raises LeaseLost, or what the driver raises."""
        views = [View(self._sql, append) for append in self._appends]
        # All questions in one round trip; what is asked for an append that is then refused is asked in vain.
        asked: list[list[Call]] = [self._first(), self._moves(), self._asks(), *(view.asks() for view in views)]
        self._session.begin()
        rows = iter(self._session.run(list(chain.from_iterable(asked))))
        answers = [list(islice(rows, len(calls))) for calls in asked]
        (held, *_), moved, claimed, *found = answers
        if not held:
            raise LeaseLost("the lease of this process has run out")
        self._answer(claimed)
        places = {append: Place(*answer[0]) for append, answer in zip(self._appends, moved, strict=True) if answer}
        self._refuse([append for append in self._appends if append not in places])
        self._count(places)
        writes = [
            [self._record(append, places[append]), *view.writes(iter(known))]
            for append, view, known in zip(self._appends, views, found, strict=True)
            if append in places
        ]
        self._session.commit([*chain.from_iterable(writes), *self._notices(places)])

    def _first(self) -> list[Call]:
        first = [self._lease.held()]
        if self._sql.postgres:
            first.append(self._sql.postgres.lock(ids=self._roots))
        return first

    def _moves(self) -> list[Call]:
        return [self._move(append) if append.entry.position else self._open(append) for append in self._appends]

    def _open(self, append: Append) -> Call:
        entry, head = append.entry, append.head
        first, count = entry.events[0], len(entry.events)
        return self._sql.log.open(
            id=entry.conversation,
            root=entry.root,
            parent=(first.parent or None) if isinstance(first, Started) else None,
            status=head.status if head else "running",
            agent=head.agent if head else "",
            owner=self._lease.owner if head and head.working else None,
            position=count,
            seq=_own(append),
            created_at=entry.at,
            updated_at=entry.at,
        )

    def _move(self, append: Append) -> Call:
        entry, head = append.entry, append.head
        where = {"id": entry.conversation, "position": entry.position, "cause": entry.cause}
        moved = {"count": len(entry.events), "grown": _own(append), "updated_at": entry.at}
        if head is None:
            return self._sql.log.slip_in(**where, **moved)
        me = self._lease.owner
        owner = me if head.working else None
        return self._sql.log.advance(**where, **moved, me=me, owner=owner, status=head.status, agent=head.agent)

    def _asks(self) -> list[Call]:
        """Who has died is removed only now: whoever owns what they owned owns it from here on."""
        if not self._claims:
            return []
        mine = [self._lease.take(claim.conversation) for claim in self._claims]
        there = [self._sql.log.standing(id=claim.conversation) for claim in self._claims]
        return [*mine, *there, self._lease.bury()]

    def _answer(self, found: Sequence[list[Row]]) -> None:
        """What nobody has begun can be begun by whoever asks."""
        count = len(self._claims)
        for claim, mine, there in zip(self._claims, found[:count], found[count : 2 * count], strict=True):
            claim.result = bool(mine) or not there

    def _count(self, places: dict[Append, Place]) -> None:
        """Give each append its seq; children's entries are counted on the row of their root."""
        children = [append for append in places if append.conversation != append.root]
        calls = [self._sql.log.count_in_root(id=each.root, count=len(each.entry.events)) for each in children]
        for child, rows in zip(children, self._session.run(calls) if calls else (), strict=True):
            if not rows:
                raise ConversationNotFound(child.root)
            seq, root = rows[0]
            places[child] = places[child]._replace(seq=seq, root=root)
        for append, place in places.items():
            append.entry.seq = place.seq - len(append.entry.events) + 1

    def _record(self, append: Append, place: Place) -> Call:
        entry = append.entry
        return self._sql.log.record(
            conversation=place.conversation,
            position=entry.position,
            root=place.root,
            cause=entry.cause,
            at=entry.at,
            seq=entry.seq,
            schema=entry.schema,
            body=append.body,
        )

    def _notices(self, appends: Iterable[Append]) -> list[Call]:
        roots = sorted({append.root for append in appends})
        return [self._sql.postgres.notify(channel=CHANNEL, ids=roots)] if self._sql.postgres and roots else []

    def _refuse(self, appends: Sequence[Append]) -> None:
        """Say why each of these could not be recorded."""
        if not appends:
            return
        log = self._sql.log
        standing = self._session.run([log.standing(id=append.conversation) for append in appends])
        found = self._session.run(
            [log.find(conversation=append.conversation, cause=append.entry.cause) for append in appends]
        )
        for append, now, before in zip(appends, standing, found, strict=True):
            if append.tried and before and _same(append, before[0]):
                append.entry.seq = before[0][2]
            else:
                append.error = _refusal(append, now, before)


def _own(append: Append) -> int:
    return len(append.entry.events) if append.conversation == append.root else 0


def _same(append: Append, row: Row) -> bool:
    """Whether this row is the very entry, recorded by a commit of which nobody heard."""
    position, at, _, body = row
    return (position, at, body) == (append.entry.position, append.entry.at, append.body)


def _refusal(append: Append, now: Sequence[Row], before: Sequence[Row]) -> Exception:
    entry = append.entry
    if before or not now or now[0][0] != entry.position or append.head is None:
        return Conflict(entry.conversation, entry.position, entry.cause)
    return Owned(entry.conversation, now[0][1] or "another process")
