"""SqlOutbox: events, their deliveries and the state of schedules in a database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, assert_never

import msgspec

from changeover.bus.delivery import (
    Backlog,
    Bell,
    Delivery,
    Done,
    Failed,
    Fetch,
    Firing,
    Outcome,
    Postponed,
    Publication,
    Rest,
    ScheduleState,
    word_of,
)
from changeover.bus.event import BusEvent
from changeover.errors import KeyConflict
from changeover.ids import bus_topic
from changeover.relay.ports.health import Traffic
from changeover.stores.sql.compiler import Statement
from changeover.stores.sql.database import Call, Round, Row, Session, Write
from changeover.stores.sql.jobs import OpenStore, SideJob
from changeover.stores.sql.outbox_statements import OutboxStatements

MOST = 4_000_000
"""Characters of events that share a transaction."""
SWEPT = 500
"""Events that are removed in one transaction."""

Listen = Callable[[Sequence[str]], AbstractContextManager[Bell]]


class Renew(NamedTuple):
    """Extend leases."""

    tokens: Sequence[str]
    lease: float


class Settle(NamedTuple):
    """Record how an attempt ended."""

    team: str
    delivery: Delivery
    token: str
    outcome: Outcome


class Resend(NamedTuple):
    """Let dead deliveries begin again."""

    team: str
    event: str
    subscriber: str
    now: float


class Fire(NamedTuple):
    """Handle due times of a schedule."""

    firing: Firing
    event: BusEvent | None


class Start(NamedTuple):
    """Start a schedule by hand."""

    name: str
    publication: Publication


class Note(NamedTuple):
    """Make a schedule known."""

    team: str
    name: str
    plan: str
    now: float


class Pause(NamedTuple):
    """Pause or resume a schedule."""

    team: str
    name: str
    paused: bool
    now: float


class Sweep(NamedTuple):
    """Remove old events."""

    team: str
    before: float


Request = Publication | Fetch | Renew | Settle | Resend | Fire | Start | Note | Pause | Sweep


class SqlOutbox:
    """The port `Outbox` over its tables; `listen` wakes a process when one of these topics has news."""

    def __init__(self, sql: OutboxStatements, store: OpenStore, listen: Listen, traffic: Traffic) -> None:
        self._sql, self._store, self._listen, self._traffic = sql, store, listen, traffic

    async def publish(self, team: str, event: BusEvent, subscribers: Sequence[str]) -> str:
        share = len(msgspec.json.encode(event.data)) / MOST
        given = Publication(team, event, subscribers)
        id = await self._store.write(self._write, given, event.id, max(share, 1e-3))
        self._traffic.published += id == event.id
        return id

    async def take(self, fetch: Fetch) -> list[Delivery]:
        nothing: list[Delivery] = []
        taken = await self._store.write(self._write, fetch, nothing)
        self._traffic.note_taken(taken, fetch.now)
        return taken

    async def renew(self, tokens: Sequence[str], lease: float) -> None:
        await self._store.write(self._write, Renew(tokens, lease), None)

    async def settle(self, delivery: Delivery, token: str, outcome: Outcome) -> bool:
        held = await self._store.write(self._write, Settle(delivery.team, delivery, token, outcome), False)
        if held:
            self._traffic.deliveries[delivery.subscriber, word_of(outcome)] += 1
        return held

    async def rest(self, team: str, now: float) -> Rest:
        [row] = await self._store.rows(self._sql.rest(team=team, now=now))
        return Rest(*row)

    async def events(self, team: str, type: str = "", before: str = "", limit: int = 1) -> list[BusEvent]:
        listed = self._sql.events if not before else self._sql.earlier
        rows = await self._store.large(listed(team=team, type=type, before=before, limit=limit))
        return [event_of(row) for row in rows]

    async def find(self, team: str, ids: Sequence[str]) -> list[BusEvent]:
        return [event_of(row) for row in await self._of_events(self._sql.find, team, ids)]

    async def deliveries(self, team: str, events: Sequence[str]) -> list[Delivery]:
        return [delivery_of(row) for row in await self._of_events(self._sql.deliveries, team, events)]

    async def dead_letters(self, team: str, limit: int) -> list[Delivery]:
        return [delivery_of(row) for row in await self._store.large(self._sql.dead(team=team, limit=limit))]

    async def counts(self) -> list[Backlog]:
        return [Backlog(*row) for row in await self._store.large(self._sql.counts())]

    async def resend(self, team: str, event: str, subscriber: str, now: float) -> int:
        return await self._store.write(self._write, Resend(team, event, subscriber, now), 0)

    async def sweep(self, team: str, before: float) -> int:
        swept = 0
        while removed := await self._store.write(self._write, Sweep(team, before), 0, share=1.0):
            swept += removed
        return swept

    def listening(self, team: str) -> AbstractContextManager[Bell]:
        self._store.check()
        return self._listen([bus_topic(team)])

    async def _of_events(self, statement: Statement, team: str, ids: Sequence[str]) -> list[Row]:
        read = self._store.rows if len(ids) == 1 else self._store.large
        return await read(statement(team=team, ids=self._sql.listed(ids))) if ids else []

    def _write(self, session: Session, jobs: Sequence[SideJob[Any, Any]]) -> Collection[str]:
        return Deliveries(session, self._sql).write(jobs)


class SqlTimetable(SqlOutbox):
    """The port `Timetable` over its table: due times are handled in the transaction that stores their events."""

    async def known(self, team: str) -> list[ScheduleState]:
        rows = await self._store.rows(self._sql.schedules(team=team))
        states = [ScheduleState(name=n, handled=h, plan=p, paused=bool(s), last_event=e) for n, h, p, s, e in rows]
        return sorted(states, key=lambda each: each.name)

    async def note(self, team: str, name: str, plan: str, now: float) -> None:
        await self._store.write(self._write, Note(team, name, plan, now), None)

    async def pause(self, team: str, name: str, paused: bool, now: float) -> bool:
        return await self._store.write(self._write, Pause(team, name, paused, now), False)

    async def fire(self, firing: Firing, event: BusEvent | None) -> bool:
        fired = await self._store.write(self._write, Fire(firing, event), False)
        if fired:
            self._traffic.note_fired(firing, event)
        return fired

    async def start(self, name: str, publication: Publication) -> None:
        await self._store.write(self._write, Start(name, publication), None)
        self._traffic.note_start(name)


class Deliveries:
    """One transaction. Transactions that change the order of a source's deliveries wait for each other: a delivery is
    then ready as soon as the one before it is settled, even if both are written at once."""

    def __init__(self, session: Session, sql: OutboxStatements) -> None:
        self._session, self._sql, self._round = session, sql, Round(session)
        self._topics: set[str] = set()
        self._changes: dict[type[Request], Callable[[SideJob[Any, Any]], None]] = {
            Publication: self._publish,
            Renew: self._renew,
            Settle: self._settle,
            Resend: self._resend,
            Fire: self._fire,
            Start: self._start,
            Note: self._note,
            Pause: self._pause,
            Sweep: self._sweep,
            Fetch: self._take,
        }

    def write(self, jobs: Sequence[SideJob[Any, Any]]) -> Collection[str]:
        """Give each job its result, or raise the driver's error. Returns the topics of teams with news."""
        self._session.begin()
        ordered = {team for job in jobs if (team := _ordered(job.data))}
        if lock := self._sql.lock:
            for team in sorted(ordered):
                self._round.later(lock(team=team))
        # What is taken comes last: it includes what the others make ready.
        for job in sorted(jobs, key=lambda each: isinstance(each.data, Fetch)):
            self._changes[type(job.data)](job)
        self._round.run()
        if self._topics and self._sql.notify:
            self._round.run([self._sql.notify(topics=self._sql.listed(sorted(self._topics)))])
        self._session.commit()
        return self._topics

    def _renew(self, job: SideJob[Renew, None]) -> None:
        for token in sorted(job.data.tokens):
            self._round.later(self._sql.renew(token=token, lease=job.data.lease))

    def _resend(self, job: SideJob[Resend, int]) -> None:
        team, event, subscriber, now = job.data
        resent = self._sql.resend(team=team, id=event, subscriber=subscriber, now=now)
        self._round.later(resent, lambda rows: _count(job, rows))
        self._topics.add(bus_topic(team))

    def _note(self, job: SideJob[Note, None]) -> None:
        self._round.later(self._sql.note(**job.data._asdict()))

    def _pause(self, job: SideJob[Pause, bool]) -> None:
        self._round.later(self._sql.pause(**job.data._asdict()), lambda rows: _count(job, rows))
        self._topics.add(bus_topic(job.data.team))

    def _publish(self, job: SideJob[Publication, str]) -> None:
        team, event, _ = job.data
        self._insert(job.data)
        if event.key:
            self._round.later(
                self._sql.keyed(team=team, key=event.key), lambda rows: _recognize(job, event, event_of(rows[0]))
            )

    def _insert(self, publication: Publication) -> None:
        for call in insertion(self._sql, publication):
            self._round.later(call)
        self._topics.add(bus_topic(publication.team))

    def _settle(self, job: SideJob[Settle, bool]) -> None:
        team, delivery, token, outcome = job.data
        which = {"id": delivery.event.id, "subscriber": delivery.subscriber, "token": token}
        match outcome:
            case Done(started):
                call = self._sql.end(**which, state="done", error="", started=started)
            case Failed(error, due) if due is None:
                call = self._sql.end(**which, state="dead", error=error, started="")
            case Failed(error, due):
                call = self._sql.put_off(**which, due=due, error=error, uncounted=0)
            case Postponed(due, reason):
                call = self._sql.put_off(**which, due=due, error=reason, uncounted=1)
            case _:
                assert_never(outcome)
        self._round.later(call, lambda rows: _count(job, rows))
        if delivery.event.source:
            lane = {"subscriber": delivery.subscriber, "source": delivery.event.source}
            self._round.later(self._sql.follow(team=team, **lane))

    def _fire(self, job: SideJob[Fire, bool]) -> None:
        firing, event = job.data
        last = event.id if event else ""
        changes = {"handled": firing.handled, "expected": firing.expected, "last_event": last}
        [rows] = self._round.run([self._sql.fire(team=firing.team, name=firing.schedule, **changes)])
        if rows and event is not None:
            self._insert(Publication(firing.team, event, [firing.subscriber]))
        job.result = bool(rows) or (job.tried and self._was_mine(firing, event))

    def _start(self, job: SideJob[Start, None]) -> None:
        name, publication = job.data
        self._round.later(self._sql.start(team=publication.team, name=name, last_event=publication.event.id))
        self._insert(publication)

    def _was_mine(self, firing: Firing, event: BusEvent | None) -> bool:
        """True if an earlier try, whose commit was not confirmed, handled these due times."""
        if event is None:
            return False
        [rows] = self._round.run([self._sql.find(team=firing.team, ids=self._sql.listed([event.id]))])
        return bool(rows)

    def _sweep(self, job: SideJob[Sweep, int]) -> None:
        [rows] = self._round.run([self._sql.old(**job.data._asdict(), limit=SWEPT)])
        numbers = self._sql.listed([str(number) for (number,) in rows])
        if rows:
            self._round.run([self._sql.drop_deliveries(numbers=numbers), self._sql.drop_events(numbers=numbers)])
        job.result = len(rows)

    def _take(self, job: SideJob[Fetch, list[Delivery]]) -> None:
        fetch = job.data
        mine = self._sql.taken(token=fetch.token)
        if not (job.tried and (rows := self._round.run([mine])[0])):
            calls: list[Call] = [self._sql.take(**fetch._asdict()), mine]
            rows = self._round.run(calls)[1]
        job.result = [delivery_of(row) for row in rows]


def insertion(sql: OutboxStatements, publication: Publication) -> Iterator[Call]:
    """The statements that store an event that is new, with its deliveries."""
    team, event, subscribers = publication
    yield sql.insert(**_columns(team, event))
    for subscriber in subscribers:
        yield sql.deliver(id=event.id, subscriber=subscriber)


def publication_writes(sql: OutboxStatements, publications: Sequence[Publication]) -> list[Write]:
    """Store events in a transaction that writes other rows too. They come last in it: a transaction that holds the lock
    of a team waits for no other."""
    teams = sorted({each.team for each in publications})
    locks = [sql.lock(team=team) for team in teams] if sql.lock else []
    stored = [call for each in publications for call in insertion(sql, each)]
    return [(statement, [values]) for statement, values in (*locks, *stored)]


def _ordered(request: Request) -> str:
    """The team whose order of deliveries a request may change; empty if it changes none."""
    match request:
        case Publication() | Settle() | Resend():
            return request.team
        case Fire(firing, _):
            return firing.team
        case Start(_, publication):
            return publication.team
        case _:
            return ""


def _count(job: SideJob[Any, Any], rows: list[Row]) -> None:
    # If the commit of the first try succeeded unnoticed, the retry finds nothing to change.
    found = len(rows) or (1 if job.tried else 0)
    job.result = found if isinstance(job.data, Resend) else bool(found)


def _recognize(job: SideJob[Any, str], event: BusEvent, stored: BusEvent) -> None:
    """Give the job the id of the event that is stored under its key; a KeyConflict if that has other content."""
    if (stored.type, stored.source, stored.data) != (event.type, event.source, event.data):
        job.error = KeyConflict(event.key, f"{stored.type} {msgspec.json.encode(stored.data).decode()}")
    job.result = stored.id


def _columns(team: str, event: BusEvent) -> dict[str, Any]:
    texts = {name: getattr(event, name) for name in ("id", "type", "source", "subject", "at")}
    data, more = (msgspec.json.encode(each).decode() for each in (event.data, event.attributes))
    return {**texts, "team": team, "key": event.key or None, "data": data, "attributes": more}


def event_of(row: Row) -> BusEvent:
    """An event, from a row that begins with its columns."""
    id, type, source, subject, key, at, data, attributes = row[:8]
    return BusEvent(
        id=id,
        type=type,
        source=source,
        subject=subject,
        key=key or "",
        at=at,
        data=msgspec.json.decode(data),
        attributes=msgspec.json.decode(attributes),
    )


def delivery_of(row: Row) -> Delivery:
    """A delivery, from a row of an event and of its own columns."""
    team, subscriber, state, attempts, due, error, started, updated_at = row[8:]
    return Delivery(
        event=event_of(row),
        team=team,
        subscriber=subscriber,
        state=state,
        attempts=attempts,
        due=due,
        error=error,
        started=started,
        updated_at=updated_at,
    )
