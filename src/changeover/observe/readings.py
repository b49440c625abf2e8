"""Readings: figures of a store and of this process at one moment; Prometheus and OpenTelemetry show the same."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from math import inf
from time import monotonic
from typing import Any, Literal

from msgspec import Struct

from changeover.bus.delivery import Backlog
from changeover.errors import EngineError
from changeover.faults import Circuit
from changeover.relay.ports.health import Spread, Traffic
from changeover.relay.ports.log import Log
from changeover.relay.ports.queue import Queued
from changeover.relay.ports.tables import Reached, Refused
from changeover.relay.ports.world import World

Values = Mapping[tuple[str, ...], float]
"""Figures by their labels."""
OTHER = "other"
"""The label of every name that the team does not declare now, so that there are few labels."""
FRESH = 1.0
"""Seconds for which readings are cached: a meter asks for one after the other."""


class Reading(Struct, frozen=True):
    """The meaning of a figure."""

    kind: Literal["counter", "gauge"]
    about: str
    labels: tuple[str, ...] = ()
    unit: str = ""


READINGS = {
    "refusals": Reading("counter", "Handoffs refused before an offer.", ("sender", "receiver")),
    "deadlocks": Reading("counter", "Refused cycles of handoffs.", ("sender", "receiver")),
    "limits.reached": Reading("counter", "Conversations that reached a limit.", ("limit",)),
    "breaker.open": Reading("gauge", "1 while a circuit is not closed.", ("agent",)),
    "queue.depth": Reading("gauge", "Tickets that wait for a worker.", ("agent",)),
    "queue.oldest": Reading("gauge", "Age of the oldest ticket.", ("agent",), "s"),
    "queue.claimed": Reading("gauge", "Tickets that workers hold.", ("agent",)),
    "queue.claims": Reading("counter", "Tickets that this process claimed.", ("agent",)),
    "queue.leases.lost": Reading("counter", "Claims of any worker that this process found expired.", ("agent",)),
    "bus.waiting": Reading("gauge", "Deliveries of events that wait.", ("subscriber",)),
    "bus.dead": Reading("gauge", "Dead letters.", ("subscriber",)),
    "bus.oldest": Reading("gauge", "Age of the oldest event that waits.", ("subscriber",), "s"),
    "bus.deliveries": Reading("counter", "Attempts of this process to deliver an event.", ("subscriber", "outcome")),
    "bus.published": Reading("counter", "Events that this process published."),
    "schedules.starts": Reading("counter", "Starts of this process, at due times and by hand.", ("schedule",)),
    "schedules.missed": Reading("counter", "Due times that were missed and started nothing.", ("schedule",)),
    "schedules.skipped": Reading("counter", "Due times left out because of an overlap.", ("schedule",)),
    "store.appends": Reading("counter", "Entries that this process recorded."),
    "stream.readers": Reading("gauge", "Clients of this process that read along."),
}
"""Each reading by its name, without the `changeover.` before it."""


SPREADS: dict[str, tuple[str, str, Callable[[Traffic], Spread]]] = {
    "bus.delay": (
        "From the publication of an event to this process's first attempt to deliver it.",
        "s",
        lambda traffic: traffic.delay,
    ),
    "store.batch": ("Entries per transaction of this process.", "", lambda traffic: traffic.batches),
    "store.lag": ("From the request of a batch's oldest entry to its commit.", "s", lambda traffic: traffic.lag),
}
"""Distributions by name: their meaning, their unit, and where they are counted."""


class Snapshot(Struct, frozen=True):
    """The data of which readings are made."""

    tickets: Sequence[Queued]
    circuits: Sequence[Circuit]
    refused: Sequence[Refused]
    limits: Sequence[Reached]
    traffic: Traffic
    names: Collection[str]
    """The names of the agents, subscriptions and schedules that the team declares."""
    now: float
    backlogs: Sequence[Backlog] = ()

    def named(self, name: str) -> str:
        """The label of an agent, a subscriber or a schedule."""
        return name if name in self.names else OTHER

    def values(self) -> dict[str, Values]:
        """All readings by name."""
        traffic = self.traffic
        return {
            **self._refusals(),
            **self._queue(),
            **self._bus(),
            "limits.reached": {(each.limit,): each.count for each in self.limits},
            "breaker.open": {(self.named(each.receiver),): float(each.state != "closed") for each in self.circuits},
            "queue.claims": self._by_agent(traffic.claims),
            "queue.leases.lost": self._by_agent(traffic.leases_lost),
            "store.appends": {(): traffic.appends},
            "stream.readers": {(): traffic.readers},
        }

    def _refusals(self) -> dict[str, Values]:
        refused, deadlocks = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
        for each in self.refused:
            pair = self.named(each.sender), self.named(each.receiver)
            refused[pair] += each.count
            deadlocks[pair] += each.count if each.deadlock else 0
        return {"refusals": refused, "deadlocks": deadlocks}

    def _queue(self) -> dict[str, Values]:
        waiting, claimed = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
        oldest: dict[tuple[str, ...], float] = {}
        for each in self.tickets:
            agent = (self.named(each.ticket.agent),)
            if each.owner:
                claimed[agent] += 1
            elif not each.rests:
                waiting[agent] += 1
                oldest[agent] = max(oldest.get(agent, 0.0), self.now - each.ticket.at)
        return {"queue.depth": waiting, "queue.claimed": claimed, "queue.oldest": oldest}

    def _bus(self) -> dict[str, Values]:
        waiting, dead = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
        oldest: dict[tuple[str, ...], float] = {}
        for each in self.backlogs:
            subscriber = (self.named(each.subscriber),)
            waiting[subscriber] += each.waiting
            dead[subscriber] += each.dead
            if each.oldest is not None:
                oldest[subscriber] = max(oldest.get(subscriber, 0.0), self.now - each.oldest)
        outcomes = Counter[tuple[str, ...]]()
        for (name, outcome), count in self.traffic.deliveries.copy().items():
            outcomes[self.named(name), outcome] += count
        due: dict[str, Counter[tuple[str, ...]]] = {name: Counter() for name in ("started", "missed", "skipped")}
        for (schedule, outcome), count in self.traffic.due_times.copy().items():
            due[outcome][self.named(schedule),] += count
        return {
            "bus.waiting": waiting,
            "bus.dead": dead,
            "bus.oldest": oldest,
            "bus.deliveries": outcomes,
            "bus.published": {(): self.traffic.published},
            "schedules.starts": due["started"],
            "schedules.missed": due["missed"],
            "schedules.skipped": due["skipped"],
        }

    def _by_agent(self, counted: Counter[str]) -> Values:
        found = Counter[tuple[str, ...]]()
        for agent, count in counted.copy().items():  # the writer's thread may count meanwhile
            found[self.named(agent),] += count
        return found


async def snapshot(log: Log, world: World, now: float) -> Snapshot:
    """Read the store of a team."""
    measures = log.measures
    return Snapshot(
        await log.queue.tickets(),
        await log.breakers.listed(),
        await measures.refused(-inf, now),
        await measures.limits(-inf, now),
        log.traffic,
        {*world.roster.seats, *(each.id for each in world.subscribers), *(each.name for each in world.schedules)},
        now,
        await log.outbox.counts(),
    )


Look = Callable[[], Coroutine[Any, Any, Snapshot] | None]
"""Reads a store; None if it is not open."""


class Watch:
    """Reads the figures of a team for a meter, which asks in any thread and cannot await. There are none while the
    store is not open or not available. `look` is a weak reference: a meter lives longer than a team."""

    def __init__(self, team: str, look: Callable[[], Look | None]) -> None:
        self.team, self._reference, self._lock = team, look, threading.Lock()
        self._found: dict[str, Values] = {}
        self._at = -inf

    @property
    def alive(self) -> bool:
        """False once the team is gone."""
        return self._reference() is not None

    def values(self, name: str) -> Values:
        """The figures of a reading, or of a distribution's count and sum."""
        with self._lock:
            if monotonic() - self._at > FRESH:
                self._found = self._look()
                self._at = monotonic()
            return self._found.get(name, {})

    def _look(self) -> dict[str, Values]:
        with suppress(EngineError):
            look = self._reference()
            if look is not None and (reading := look()) is not None:
                found = _awaited(reading)
                spreads = {name: spread(found.traffic) for name, (_, _, spread) in SPREADS.items()}
                counts: dict[str, Values] = {f"{name}.count": {(): each.count} for name, each in spreads.items()}
                sums: dict[str, Values] = {f"{name}.sum": {(): each.total} for name, each in spreads.items()}
                return {**found.values(), **counts, **sums}
        return {}


def _awaited(reading: Coroutine[Any, Any, Snapshot]) -> Snapshot:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(reading)
    with ThreadPoolExecutor(1) as thread:  # a thread that runs an event loop cannot wait in it
        return thread.submit(asyncio.run, reading).result()
