"""Deliveries: an event on its way to one subscriber; Outbox and Timetable, the ports of the store that keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Literal, NamedTuple, Protocol, TypeAlias

from msgspec import Struct

from changeover.bus.event import BusEvent

DeliveryState: TypeAlias = Literal["waiting", "done", "dead"]
DueOutcome: TypeAlias = Literal["started", "missed", "skipped"]
KEPT = 30 * 86_400.0
"""Seconds for which events are kept by default."""
SHORTEST = 3_600.0
"""The least number of seconds for which they can be kept: a stored event shows that its signature is used again."""


class Delivery(Struct, frozen=True, kw_only=True):
    """An event and one of its subscribers."""

    event: BusEvent
    """The event that is delivered."""
    team: str
    """The name of the team that subscribes."""
    subscriber: str
    """The id of the subscription, or of the schedule."""
    state: DeliveryState = "waiting"
    """A dead one failed as often as its subscription allows; it waits until an operator sends it again."""
    attempts: int = 0
    """How often it was tried."""
    due: float = 0.0
    """When the next attempt begins at the earliest, by the clock of the team."""
    error: str = ""
    """Why the last attempt failed."""
    started: str = ""
    """What it started: the id of a conversation, or nothing."""
    updated_at: float = 0.0
    """When the last attempt ended."""

    @property
    def key(self) -> str:
        """The idempotency key of this delivery: the same over all attempts."""
        return f"{self.event.id}:{self.subscriber}"


class Publication(NamedTuple):
    """An event to store, and the subscribers that get it."""

    team: str
    event: BusEvent
    subscribers: Sequence[str]


class Done(Struct, frozen=True):
    """An attempt succeeded."""

    started: str = ""


class Failed(Struct, frozen=True):
    """An attempt failed."""

    error: str
    due: float | None
    """When the next one begins; None if it was the last."""


class Postponed(Struct, frozen=True):
    """An attempt has to wait, and is not counted."""

    due: float
    reason: str = ""


Outcome: TypeAlias = Done | Failed | Postponed


def word_of(outcome: Outcome) -> str:
    """The outcome in one word, for figures."""
    match outcome:
        case Done():
            return "done"
        case Failed(due=due):
            return "dead" if due is None else "failed"
        case Postponed():
            return "postponed"


class Fetch(NamedTuple):
    """The request of a process for deliveries to a subscriber."""

    team: str
    subscriber: str
    token: str
    """Identifies the deliveries that it gets."""
    lease: float
    """The length of the lease on them in seconds, by the store's clock."""
    limit: int
    now: float
    """Deliveries that are due later are left out."""


class Rest(NamedTuple):
    """When the next delivery of a team that cannot begin now can begin."""

    due: float | None
    """The next due time, by the clock of the team."""
    lapse: float | None
    """Seconds until the next lease runs out."""


class Firing(NamedTuple):
    """A schedule is due."""

    team: str
    schedule: str
    expected: float
    """The time up to which its due times were handled before."""
    handled: float
    """The time up to which they are handled with this."""
    subscriber: str
    """The subscriber that gets the event."""
    outcome: DueOutcome = "started"
    """If there is no event, why nothing starts."""


class ScheduleState(Struct, frozen=True, kw_only=True):
    """The stored state of a schedule."""

    name: str
    handled: float
    """Due times up to this one are handled."""
    plan: str = ""
    """Its cron expression and time zone when this was written."""
    paused: bool = False
    last_event: str = ""
    """The event of its last start, at a due time or by hand."""


class Backlog(Struct, frozen=True):
    """How many deliveries to a subscriber wait or are dead."""

    team: str
    """The name of the team that subscribes."""
    subscriber: str
    """The id of the subscription, or of the schedule."""
    waiting: int = 0
    """Deliveries that are not done."""
    dead: int = 0
    """Deliveries that failed as often as the subscription allows."""
    oldest: float | None = None
    """When the oldest event that waits was published."""


class Bell(Protocol):
    """Rings when there may be something to deliver."""

    async def wait(self) -> None:
        """Return once it has rung since the last call."""
        ...


class Outbox(Protocol):
    """Events and their deliveries, durable and shared by all processes of a team. A subscriber gets the events of one
    source one at a time, in order. Leases are timed by the store's clock, due times by the caller's."""

    async def publish(self, team: str, event: BusEvent, subscribers: Sequence[str]) -> str:
        """Store an event with its deliveries, all or nothing, and return its id. If an event with its key is stored,
        return the id of that one; raises KeyConflict if its content differs."""
        ...

    async def take(self, fetch: Fetch) -> list[Delivery]:
        """Lease the next deliveries that a subscriber can have, and count an attempt of each."""
        ...

    async def renew(self, tokens: Sequence[str], lease: float) -> None:
        """Extend the leases of the deliveries that were taken with these tokens."""
        ...

    async def settle(self, delivery: Delivery, token: str, outcome: Outcome) -> bool:
        """Record how an attempt ended; False if another process has the delivery by now."""
        ...

    async def rest(self, team: str, now: float) -> Rest:
        """When to look again, if nothing happens before."""
        ...

    async def events(self, team: str, type: str = "", before: str = "", limit: int = 1) -> list[BusEvent]:
        """Events, the newest first: of this type, published before the one with the id `before`."""
        ...

    async def find(self, team: str, ids: Sequence[str]) -> list[BusEvent]:
        """The events with these ids, the newest first."""
        ...

    async def deliveries(self, team: str, events: Sequence[str]) -> list[Delivery]:
        """The deliveries of the events with these ids, the newest event first, then by subscriber."""
        ...

    async def dead_letters(self, team: str, limit: int) -> list[Delivery]:
        """The deliveries that failed for good, in the same order."""
        ...

    async def counts(self) -> list[Backlog]:
        """How many deliveries of each team and subscriber wait or are dead."""
        ...

    async def resend(self, team: str, event: str, subscriber: str, now: float) -> int:
        """Let dead deliveries of an event begin again, to one subscriber or (empty) to all; returns their number."""
        ...

    async def sweep(self, team: str, before: float) -> int:
        """Remove events that were published before this time and whose deliveries are all done, but for the last start
        of each schedule; returns their number. Their keys can be used again."""
        ...

    def listening(self, team: str) -> AbstractContextManager[Bell]:
        """A bell that rings when there may be something to deliver for a team."""
        ...


class Timetable(Protocol):
    """The stored states of the schedules of all teams."""

    async def known(self, team: str) -> list[ScheduleState]:
        """The schedules of a team, by name."""
        ...

    async def note(self, team: str, name: str, plan: str, now: float) -> None:
        """Store a schedule that is new, or has a new plan; its due times count from now on."""
        ...

    async def pause(self, team: str, name: str, paused: bool, now: float) -> bool:
        """Pause a schedule, or resume it from now on; False if it is not known."""
        ...

    async def start(self, name: str, publication: Publication) -> None:
        """Store the event of a start by hand, which is the last start of the schedule from now on."""
        ...

    async def fire(self, firing: Firing, event: BusEvent | None) -> bool:
        """Handle due times of a schedule, and store the event with a delivery to the schedule, if there is one. False
        if another process handled them before, or the schedule is paused; then nothing is stored."""
        ...
