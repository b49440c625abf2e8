"""MemoryOutbox: events, their deliveries and the state of schedules in memory."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from itertools import count, islice

import msgspec
from msgspec.structs import replace

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
from changeover.stores.feed import Listeners

Lane = tuple[str, str, str]
"""Team, subscriber and source."""


class Parcel:
    """A delivery and its owner."""

    __slots__ = ("delivery", "number", "owner", "ready", "until")

    def __init__(self, number: int, delivery: Delivery) -> None:
        self.number, self.delivery, self.ready = number, delivery, False
        self.owner = ""
        self.until = 0.0

    @property
    def lane(self) -> Lane:
        return self.delivery.team, self.delivery.subscriber, self.delivery.event.source

    @property
    def waits(self) -> bool:
        return self.delivery.state == "waiting"

    def put(self, **changes: object) -> None:
        self.delivery = replace(self.delivery, **changes)


class MemoryOutbox:
    """The ports `Outbox` and `Timetable` in memory. `now` is the store's clock."""

    def __init__(self, now: Callable[[], float], traffic: Traffic) -> None:
        self._lock, self._now, self._traffic, self._numbers = threading.Lock(), now, traffic, count(1)
        self._events: dict[str, tuple[str, BusEvent]] = {}
        """Team and event by id, in the order of publication."""
        self._keys: dict[tuple[str, str], BusEvent] = {}
        self._parcels: dict[tuple[str, str], Parcel] = {}
        """By event and subscriber."""
        self._lanes: defaultdict[Lane, deque[Parcel]] = defaultdict(deque)
        """The deliveries of each source that wait, in order."""
        self._ready: defaultdict[tuple[str, str], dict[str, Parcel]] = defaultdict(dict)
        """Those that can be taken, by team and subscriber, then by event."""
        self._schedules: dict[tuple[str, str], ScheduleState] = {}
        self._listeners = Listeners()

    async def publish(self, team: str, event: BusEvent, subscribers: Sequence[str]) -> str:
        with self._lock:
            if event.key and (stored := self._keys.get((team, event.key))):
                if (stored.type, stored.source, stored.data) != (event.type, event.source, event.data):
                    raise KeyConflict(event.key, f"{stored.type} {msgspec.json.encode(stored.data).decode()}")
                return stored.id
            self._insert(Publication(team, event, subscribers))
            self._traffic.published += 1
        return event.id

    def store(self, publications: Iterable[Publication]) -> None:
        """Store the events that the log publishes with an entry."""
        with self._lock:
            for each in publications:
                self._insert(each)
                self._traffic.published += 1

    async def take(self, fetch: Fetch) -> list[Delivery]:
        with self._lock:
            now, ready = self._now(), self._ready[fetch.team, fetch.subscriber]
            free = (each for each in ready.values() if each.until <= now and each.delivery.due <= fetch.now)
            taken = list(islice(free, fetch.limit))
            for each in taken:
                each.owner, each.until = fetch.token, now + fetch.lease
                each.put(attempts=each.delivery.attempts + 1)
            self._traffic.note_taken([each.delivery for each in taken], fetch.now)
            return [each.delivery for each in taken]

    async def renew(self, tokens: Sequence[str], lease: float) -> None:
        with self._lock:
            for each in self._all_ready():
                if each.owner in tokens:
                    each.until = self._now() + lease

    async def settle(self, delivery: Delivery, token: str, outcome: Outcome) -> bool:
        with self._lock:
            parcel = self._parcels.get((delivery.event.id, delivery.subscriber))
            if parcel is None or parcel.owner != token:
                return False
            parcel.owner, parcel.until = "", 0.0
            match outcome:
                case Done(started):
                    parcel.put(state="done", error="", started=started)
                case Failed(error, due) if due is None:
                    parcel.put(state="dead", error=error)
                case Failed(error, due):
                    parcel.put(due=due, error=error)
                case Postponed(due, reason):
                    parcel.put(due=due, error=reason, attempts=parcel.delivery.attempts - 1)
            parcel.put(updated_at=self._now())
            if not parcel.waits:
                self._leave(parcel)
            self._traffic.deliveries[delivery.subscriber, word_of(outcome)] += 1
            return True

    async def rest(self, team: str, now: float) -> Rest:
        with self._lock:
            ready = [each for each in self._all_ready() if each.delivery.team == team]
            due = min((each.delivery.due for each in ready if each.delivery.due > now), default=None)
            lapse = min((each.until - self._now() for each in ready if each.owner), default=None)
            return Rest(due, lapse)

    async def events(self, team: str, type: str = "", before: str = "", limit: int = 1) -> list[BusEvent]:
        with self._lock:
            found = [event for whose, event in self._events.values() if whose == team]
        if before:
            found = found[: next((n for n, event in enumerate(found) if event.id == before), 0)]
        return [event for event in reversed(found) if type in ("", event.type)][:limit]

    async def find(self, team: str, ids: Sequence[str]) -> list[BusEvent]:
        with self._lock:
            return [event for whose, event in reversed(self._events.values()) if whose == team and event.id in ids]

    async def deliveries(self, team: str, events: Sequence[str]) -> list[Delivery]:
        wanted = set(events)
        return self._listed(lambda each: each.team == team and each.event.id in wanted)

    async def dead_letters(self, team: str, limit: int) -> list[Delivery]:
        return self._listed(lambda each: each.team == team and each.state == "dead")[:limit]

    def _listed(self, wanted: Callable[[Delivery], bool]) -> list[Delivery]:
        """These deliveries, the newest event first, then by subscriber."""
        with self._lock:
            found = [each for each in self._parcels.values() if wanted(each.delivery)]
        return [each.delivery for each in sorted(found, key=lambda each: (-each.number, each.delivery.subscriber))]

    async def counts(self) -> list[Backlog]:
        found: dict[tuple[str, str], Backlog] = {}
        with self._lock:
            undone = [each.delivery for each in self._parcels.values() if each.delivery.state != "done"]
        for each in undone:
            key, at = (each.team, each.subscriber), each.event.at
            known = found.get(key, Backlog(*key))
            if each.state == "dead":
                found[key] = replace(known, dead=known.dead + 1)
            else:
                oldest = at if known.oldest is None else min(known.oldest, at)
                found[key] = replace(known, waiting=known.waiting + 1, oldest=oldest)
        return [backlog for _, backlog in sorted(found.items())]

    async def resend(self, team: str, event: str, subscriber: str, now: float) -> int:
        with self._lock:
            of_event = [each for (id, _), each in self._parcels.items() if id == event and each.delivery.team == team]
            dead = [each for each in of_event if each.delivery.state == "dead"]
            chosen = [each for each in dead if subscriber in ("", each.delivery.subscriber)]
            for each in chosen:
                each.put(state="waiting", attempts=0, due=now, updated_at=self._now())
                if each.delivery.event.source:
                    self._lanes[each.lane].appendleft(each)
                self._make_ready(each)
            self._listeners.tell([bus_topic(team)])
            return len(chosen)

    async def sweep(self, team: str, before: float) -> int:
        with self._lock:
            kept = {id for (id, _), each in self._parcels.items() if each.delivery.state != "done"}
            kept.update(state.last_event for state in self._schedules.values())
            old = [event for whose, event in self._events.values() if whose == team and event.at < before]
            gone = {event.id for event in old} - kept
            self._events = {id: each for id, each in self._events.items() if id not in gone}
            self._keys = {key: each for key, each in self._keys.items() if each.id not in gone}
            self._parcels = {key: each for key, each in self._parcels.items() if key[0] not in gone}
            return len(gone)

    def listening(self, team: str) -> AbstractContextManager[Bell]:
        return self._listeners.listening([bus_topic(team)])

    async def known(self, team: str) -> list[ScheduleState]:
        with self._lock:
            return [state for (whose, _), state in sorted(self._schedules.items()) if whose == team]

    async def note(self, team: str, name: str, plan: str, now: float) -> None:
        with self._lock:
            before = self._schedules.get((team, name), ScheduleState(name=name, handled=now, plan=plan))
            same = before.plan == plan
            self._schedules[team, name] = before if same else replace(before, plan=plan, handled=now)

    async def pause(self, team: str, name: str, paused: bool, now: float) -> bool:
        with self._lock:
            if (before := self._schedules.get((team, name))) is None:
                return False
            handled = now if before.paused else before.handled
            self._schedules[team, name] = replace(before, paused=paused, handled=handled)
            self._listeners.tell([bus_topic(team)])
            return True

    async def fire(self, firing: Firing, event: BusEvent | None) -> bool:
        key = firing.team, firing.schedule
        with self._lock:
            state = self._schedules.get(key)
            if state is None or state.paused or state.handled != firing.expected:
                return False
            last = event.id if event else state.last_event
            self._schedules[key] = replace(state, handled=firing.handled, last_event=last)
            if event is not None:
                self._insert(Publication(firing.team, event, [firing.subscriber]))
            self._traffic.note_fired(firing, event)
            return True

    async def start(self, name: str, publication: Publication) -> None:
        with self._lock:
            if before := self._schedules.get((publication.team, name)):
                self._schedules[publication.team, name] = replace(before, last_event=publication.event.id)
            self._insert(publication)
            self._traffic.note_start(name)

    # The following methods are called with the lock held.

    def _insert(self, publication: Publication) -> None:
        team, event, subscribers = publication
        self._events[event.id] = team, event
        if event.key:
            self._keys[team, event.key] = event
        number = next(self._numbers)
        for subscriber in subscribers:
            delivery = Delivery(event=event, team=team, subscriber=subscriber, updated_at=self._now())
            parcel = self._parcels[event.id, subscriber] = Parcel(number, delivery)
            if event.source:
                self._lanes[parcel.lane].append(parcel)
            if not event.source or len(self._lanes[parcel.lane]) == 1:
                self._make_ready(parcel)
        self._listeners.tell([bus_topic(team)])

    def _make_ready(self, parcel: Parcel) -> None:
        parcel.ready = True
        self._ready[parcel.lane[:2]][parcel.delivery.event.id] = parcel

    def _leave(self, parcel: Parcel) -> None:
        """Remove a delivery that is over; then the next one of its source can be taken."""
        self._ready[parcel.lane[:2]].pop(parcel.delivery.event.id, None)
        if not parcel.delivery.event.source:
            return
        (lane := self._lanes[parcel.lane]).remove(parcel)  # most often the first
        if not lane:
            del self._lanes[parcel.lane]
        elif not lane[0].ready:
            self._make_ready(lane[0])

    def _all_ready(self) -> Iterable[Parcel]:
        return (parcel for ready in self._ready.values() for parcel in ready.values())
