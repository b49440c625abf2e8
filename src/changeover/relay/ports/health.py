"""Health: what a store says about itself, and the traffic of this process with it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable

from msgspec import Struct, field

from changeover.bus.delivery import Delivery, Firing
from changeover.bus.event import BusEvent

SIZES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0)
"""Upper bounds of the sizes of batches."""
LAGS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0)
"""Upper bounds of the writer's lag, in seconds."""
DELAYS = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 300.0, 3_600.0)
"""Upper bounds of the delay of deliveries, in seconds."""


class LiveProcess(Struct, frozen=True):
    """A process that has the store open."""

    host: str
    pid: int
    started_at: float


class StoreHealth(Struct, frozen=True, kw_only=True):
    """What a store holds, how fast it answers, and which processes use it."""

    database: str
    """Its kind and version, such as "SQLite 3.45"; "memory" for a team without a store."""
    schema: str = ""
    """The version of its tables."""
    conversations: int = 0
    """With those of delegates."""
    events: int = 0
    size: int | None = None
    """In bytes; None if unknown."""
    read_time: float = 0.0
    """Seconds that a short read took."""
    unfinished: int = 0
    """Conversations with outstanding work that no process works on."""
    processes: tuple[LiveProcess, ...] = ()
    """Those that are alive, the oldest first."""


class Spread:
    """A histogram: the number of values up to each bound, and their sum."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds, self.total = bounds, 0.0
        self.counts = [0] * (len(bounds) + 1)
        """The last one counts the values above all bounds."""

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self.counts)


class Traffic(Struct):
    """Counters of what this process did with a store since it opened it. The store counts; others only read."""

    appends: int = 0
    """Entries that were recorded."""
    batches: Spread = field(default_factory=lambda: Spread(SIZES))
    """Entries per transaction; none in memory, where each entry is recorded by itself."""
    lag: Spread = field(default_factory=lambda: Spread(LAGS))
    """Seconds from the request of a batch's oldest entry to its commit."""
    deliveries: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Attempts to deliver an event, by subscriber and outcome: done, failed, dead or postponed."""
    published: int = 0
    """Events of the bus that were stored."""
    delay: Spread = field(default_factory=lambda: Spread(DELAYS))
    """Seconds from the publication of an event to the first attempt to deliver it."""
    due_times: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Due times and starts by hand, by schedule and outcome: started, missed or skipped."""
    claims: Counter[str] = field(default_factory=Counter)
    """Tickets that were claimed, by agent."""
    leases_lost: Counter[str] = field(default_factory=Counter)
    """Claims whose lease ran out, by agent; the process that frees the ticket counts it."""
    readers: int = 0
    """Clients of a server in this process that follow conversations now."""

    def note_taken(self, deliveries: Iterable[Delivery], now: float) -> None:
        """Count how long deliveries waited for their first attempt, which begins now."""
        for each in deliveries:
            if each.attempts == 1:
                self.delay.add(max(0.0, now - each.event.at))

    def note_fired(self, firing: Firing, event: BusEvent | None) -> None:
        """Count due times that were handled, and the event that was stored for them, if one was."""
        self.due_times[firing.schedule, firing.outcome] += 1
        self.published += event is not None

    def note_start(self, schedule: str) -> None:
        """Count a start by hand."""
        self.due_times[schedule, "started"] += 1
        self.published += 1

    def note_batch(self, entries: int, seconds: float) -> None:
        """Count a transaction of so many entries, the oldest of which was asked for so long ago."""
        self.appends += entries
        self.batches.add(entries)
        self.lag.add(seconds)
