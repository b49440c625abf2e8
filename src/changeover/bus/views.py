"""Views: events, subscribers and schedules as people and other programs see them, without functions and secrets."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, Literal, Protocol, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from changeover.bus.delivery import Backlog, Delivery, DeliveryState
from changeover.bus.event import BusEvent
from changeover.bus.schedule import Emit, Schedule
from changeover.bus.subscription import Specialist, Subscription, Webhook, is_url, title_of

TargetKind: TypeAlias = Literal["agent", "specialist", "workflow", "webhook", "event", "function"]


class DeliveryView(Struct, frozen=True, kw_only=True):
    """What one subscriber did with an event."""

    subscriber: str
    state: DeliveryState
    attempts: int
    due_at: float
    """When the next attempt begins at the earliest."""
    updated_at: float
    error: str = ""
    """Why the last attempt failed."""
    started: str = ""
    """The conversation that it started, if any."""


class EventView(Struct, frozen=True, kw_only=True):
    """An event, and what each of its subscribers did with it."""

    id: str
    type: str
    at: float
    """When it was published."""
    source: str = ""
    subject: str = ""
    key: str = ""
    data: Any = None
    attributes: dict[str, Any] = {}
    deliveries: list[DeliveryView] = []


class DeadLetter(Struct, frozen=True, kw_only=True):
    """A delivery that failed as often as its subscription allows."""

    event: str
    type: str
    at: float
    """When the event was published."""
    updated_at: float
    """When the last attempt failed."""
    subscriber: str
    attempts: int
    source: str = ""
    subject: str = ""
    error: str = ""


class SubscriberView(Struct, frozen=True, kw_only=True):
    """A subscription and its backlog."""

    id: str
    types: str
    kind: TargetKind
    to: str
    where: str = ""
    priority: str | int = "normal"
    tries: int = 1
    waiting: int = 0
    """Deliveries that wait."""
    dead: int = 0
    """Dead letters."""
    oldest_at: float | None = None
    """When the oldest event that waits was published."""


class ScheduleView(Struct, frozen=True, kw_only=True):
    """A schedule, its next runs and its last start."""

    name: str
    cron: str
    timezone: str
    kind: TargetKind
    start: str
    """What it starts."""
    missed: str
    overlap: str
    task: str = ""
    priority: str | int = "normal"
    paused: bool = False
    next_runs: list[float] = []
    """Its next due times; none while it is paused."""
    last: EventView | None = None
    """The event of its last start, at a due time or by hand."""


class BusCalls(Protocol):
    """The bus of a team, as the command line, the API and pages use it."""

    async def publish(self, type: str, data: Any, key: str, source: str, subject: str) -> str:
        """Publish an event; returns its id."""
        ...

    async def events(self, type: str, before: str, limit: int) -> list[EventView]:
        """Events with their deliveries, the newest first."""
        ...

    async def event(self, id: str) -> EventView | None:
        """One event with its deliveries."""
        ...

    async def dead_letters(self, limit: int) -> list[DeadLetter]:
        """Deliveries that failed for good, the newest event first."""
        ...

    async def subscribers(self) -> list[SubscriberView]:
        """The subscriptions, each with its backlog."""
        ...

    async def resend(self, event: str, subscriber: str) -> int:
        """Try the dead letters of an event again, to one subscriber or (empty) to all; returns their number."""
        ...


class ScheduleCalls(Protocol):
    """The schedules of a team, as the command line, the API and pages use them."""

    async def all(self) -> list[ScheduleView]:
        """All schedules, each with its next run."""
        ...

    async def one(self, name: str) -> ScheduleView:
        """One schedule with its next runs; raises MisconfiguredError if there is none of this name."""
        ...

    async def run(self, name: str) -> str:
        """Start it now; returns the id of the event."""
        ...

    async def pause(self, name: str) -> None:
        """Start nothing at due times until it is resumed."""
        ...

    async def resume(self, name: str) -> None:
        """End a pause."""
        ...


def event_view(event: BusEvent, deliveries: Sequence[Delivery]) -> EventView:
    """An event with these deliveries."""
    names = ("id", "type", "at", "source", "subject", "key", "data", "attributes")
    return EventView(
        **{name: getattr(event, name) for name in names}, deliveries=[delivery_view(each) for each in deliveries]
    )


def delivery_view(delivery: Delivery) -> DeliveryView:
    """A delivery without its event."""
    names = ("subscriber", "state", "attempts", "updated_at", "error", "started")
    return DeliveryView(**{name: getattr(delivery, name) for name in names}, due_at=delivery.due)


def dead_letter(delivery: Delivery) -> DeadLetter:
    """A delivery that failed for good."""
    own = {name: getattr(delivery, name) for name in ("subscriber", "attempts", "error", "updated_at")}
    about = {name: getattr(delivery.event, name) for name in ("type", "at", "source", "subject")}
    return DeadLetter(event=delivery.event.id, **own, **about)


def subscriber_view(subscription: Subscription, behind: Backlog | None, workflows: Container[str]) -> SubscriberView:
    """A subscription with its backlog, which is None if nothing waits."""
    names = ("id", "types", "where", "priority", "tries")
    return SubscriberView(
        **{name: getattr(subscription, name) for name in names},
        kind=kind_of(subscription.to, workflows),
        to=shown_target(subscription.to),
        waiting=behind.waiting if behind else 0,
        dead=behind.dead if behind else 0,
        oldest_at=behind.oldest if behind else None,
    )


def schedule_view(
    schedule: Schedule, paused: bool, next_runs: Sequence[float], last: EventView | None, workflows: Container[str]
) -> ScheduleView:
    """A schedule with its next due times."""
    names = ("name", "cron", "timezone", "missed", "overlap", "task", "priority")
    return ScheduleView(
        **{name: getattr(schedule, name) for name in names},
        kind=kind_of(schedule.start, workflows),
        start=shown_target(schedule.start),
        paused=paused,
        next_runs=list(next_runs),
        last=last,
    )


def kind_of(target: object, workflows: Container[str]) -> TargetKind:
    """The kind of a target; `workflows` are the ids of the team's."""
    match target:
        case Specialist():
            return "specialist"
        case Webhook():
            return "webhook"
        case Emit():
            return "event"
        case str():
            return "webhook" if is_url(target) else "workflow" if target in workflows else "agent"
        case _ if callable(target):
            return "function"
        case _:
            return "workflow"


def shown_target(target: object) -> str:
    """A target in words, without the query of an address, which may hold a secret."""
    if isinstance(target, Emit):
        return target.type
    if isinstance(target, Specialist):
        return target.capability
    url = target.url if isinstance(target, Webhook) else target if is_url(target) else ""
    return urlsplit(str(url))._replace(query="", fragment="").geturl() if url else title_of(target)
