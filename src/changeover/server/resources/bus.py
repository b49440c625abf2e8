"""Bus: events that arrive as CloudEvents or are published as JSON, their deliveries, and dead letters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from fastapi import Query, Request
from msgspec import Meta, Struct
from msgspec.structs import replace

from changeover.bus.cloud_event import BATCH, STRUCTURED, received
from changeover.bus.signature import SIGNATURE, checked_signature
from changeover.bus.views import DeadLetter, EventView, SubscriberView
from changeover.dispatch.console import BusConsole
from changeover.server.access import WEBHOOK, Caller
from changeover.server.problems import Problem
from changeover.server.resource import Id, Key, Resource, Served, Who, audited, own_key
from changeover.server.settings import Settings
from changeover.server.wire import JSON, Json, Page, body, decoded
from changeover.team import Team

resource = Resource("bus")

NOT_FOUND = {404: "There is no such event"}
MOST = 1_000
"""Events of a batch, and dead letters of a list, at most."""
HIDDEN = "hidden: this token sees the work of one user"
"""In place of an error, which may quote content."""


class CloudEvent(Struct, frozen=True, kw_only=True):
    """An event of CloudEvents 1.0 in the structured form; further attributes stand beside these."""

    specversion: str
    id: str
    source: str
    type: str
    subject: str | None = None
    time: str | None = None
    datacontenttype: str | None = None
    data: Any = None


class NewEvent(Struct, frozen=True, forbid_unknown_fields=True):
    """An event to publish."""

    type: str
    """What happened, in words with dots between them, such as "security.alert"."""
    data: Any = None
    source: str = ""
    """Where it happened. A subscriber gets the events of a source in order."""
    subject: str = ""


class Published(Struct, frozen=True):
    """The ids of the events that were published, now or by an earlier request with the same events."""

    ids: list[str]


class Resend(Struct, frozen=True, forbid_unknown_fields=True):
    """Which dead letters of an event are tried again."""

    subscriber: Annotated[str, Meta(max_length=200)] = ""
    """Empty for all subscribers."""


class Resent(Struct, frozen=True):
    """How many deliveries begin again."""

    resent: int


class BusView(Struct, frozen=True, kw_only=True):
    """The bus of a team."""

    at: float
    """The time by which ages are counted."""
    subscribers: list[SubscriberView]
    dead_letters: list[DeadLetter]
    """The newest of them; each subscriber counts all of its own."""
    signed: bool
    """True if the server has a secret, so that webhooks may send signed events without a token."""


@resource.route(
    "POST /bus",
    {201: Published},
    body={STRUCTURED: CloudEvent, BATCH: list[CloudEvent], JSON: Any},
    refusals={409: "An event with this source and id, but other content, was published before"},
    signed=True,
)
async def receive_event(request: Request, team: Served, who: Who) -> Json:
    """Publish CloudEvents 1.0: structured, as a batch, or binary with ce-* headers; each source and id once.

    A caller without a token signs its request, if the server has a secret for webhooks: webhook-id, webhook-timestamp
    and webhook-signature as in Standard Webhooks. A signature that is missing, wrong or old is refused, and one that
    was used before; a batch that is sent again publishes nothing.
    """
    settings: Settings = request.app.state.settings
    checked = who is WEBHOOK or SIGNATURE in request.headers
    secret = settings.webhook_secret if checked and settings.webhook_secret else None
    return Json(Published(await _published(team, request.headers, await request.body(), secret)), 201)


async def _published(team: Team, headers: Mapping[str, str], raw: bytes, secret: str | None) -> list[str]:
    if headers.get("content-type", "").partition(";")[0].strip().lower() != BATCH:
        return [await team.bus.receive(headers, raw, secret=secret)]
    if secret is not None:
        checked_signature(secret, team.clock.now(), headers, raw)
    events = decoded(raw, list[dict[str, Any]])
    if len(events) > MOST:
        raise Problem(422, f"a batch holds at most {MOST:,} events", kind="bad-body")
    single, bodies = {"content-type": STRUCTURED}, [msgspec.json.encode(each) for each in events]
    for each in bodies:  # a batch with a fault publishes nothing
        received(single, each)
    return [await team.bus.receive(single, each) for each in bodies]


@resource.route("GET /bus", BusView)
async def read_bus(request: Request, team: Served, who: Who) -> Json:
    """The subscribers, each with its backlog, and the newest dead letters."""
    bus, settings = CallersBus(team, who), request.app.state.settings
    view = BusView(
        at=team.clock.now(),
        subscribers=await bus.subscribers(),
        dead_letters=await bus.dead_letters(100),
        signed=bool(settings.webhook_secret),
    )
    return Json(view)


@resource.route("POST /bus/events", {201: Published}, body=NewEvent, refusals={409: "The key is taken"})
async def publish_event(team: Served, who: Who, new: Annotated[NewEvent, body(NewEvent)], key: Key = None) -> Json:
    """Publish an event from plain JSON; with an `Idempotency-Key` once, however often it is sent."""
    id = await CallersBus(team, who).publish(new.type, new.data, key or "", new.source, new.subject)
    return Json(Published([id]), 201)


@resource.route("GET /bus/events", Page[EventView])
async def list_bus_events(
    team: Served,
    who: Who,
    type: Annotated[str, Query(max_length=200, description="Only of this type.")] = "",
    limit: Annotated[int, Query(ge=1, le=200, description="Items of a page.")] = 50,
    cursor: Annotated[str, Query(max_length=500, description="`next` of the page before.")] = "",
) -> Json:
    """Events with their deliveries, the newest first."""
    found = await CallersBus(team, who).events(type, cursor, limit + 1)
    return Json(Page(found[:limit], found[limit - 1].id if len(found) > limit else None))


@resource.route("GET /bus/dead-letters", Page[DeadLetter])
async def list_dead_letters(
    team: Served, who: Who, limit: Annotated[int, Query(ge=1, le=MOST, description="The most to show.")] = 100
) -> Json:
    """Deliveries that failed as often as their subscriptions allow, the newest event first."""
    return Json(Page(await CallersBus(team, who).dead_letters(limit)))


@resource.route(
    "POST /bus/events/{id}/resend", Resent, body=Resend, refusals={**NOT_FOUND, 409: "No delivery of it is dead"}
)
async def resend_event(id: Id, team: Served, who: Who, wanted: Annotated[Resend, body(Resend)]) -> Json:
    """Try the dead letters of an event again, at once and with their attempts reset."""
    bus = CallersBus(team, who)
    await _event(bus, id)
    if not (count := await bus.resend(id, wanted.subscriber)):
        raise Problem(409, f"no delivery of {id} is a dead letter", kind="not-dead")
    return Json(Resent(count))


@resource.route("GET /bus/events/{id}", EventView, refusals=NOT_FOUND)
async def read_bus_event(id: Id, team: Served, who: Who) -> Json:
    """An event with its data and its deliveries."""
    return Json(await _event(CallersBus(team, who), id))


async def _event(bus: CallersBus, id: str) -> EventView:
    if (found := await bus.event(id)) is None:
        raise Problem(404, f"no event has the id {id!r}", kind="event-not-found")
    return found


class CallersBus:
    """The bus for one caller. Events belong to no user: a caller that sees the work of one user gets no content."""

    def __init__(self, team: Team, who: Caller) -> None:
        self._team, self._who, self._console = team, who, BusConsole(team.bus, team.engine.world)
        self.subscribers = self._console.subscribers

    async def publish(self, type: str, data: Any, key: str, source: str, subject: str) -> str:
        return await self._console.publish(type, data, own_key(key, self._who) or "", source, subject)

    async def events(self, type: str, before: str, limit: int) -> list[EventView]:
        return [event_for(self._who, each) for each in await self._console.events(type, before, limit)]

    async def event(self, id: str) -> EventView | None:
        found = await self._console.event(id)
        return event_for(self._who, found) if found else None

    async def dead_letters(self, limit: int) -> list[DeadLetter]:
        found = await self._console.dead_letters(limit)
        return found if self._who.sees_all else [replace(each, subject="", error=HIDDEN) for each in found]

    async def resend(self, event: str, subscriber: str) -> int:
        await audited(self._team, self._who, "bus.resend", event, {"subscriber": subscriber})
        return await self._console.resend(event, subscriber)


def event_for(who: Caller, event: EventView) -> EventView:
    """An event as this caller may see it."""
    if who.sees_all:
        return event
    deliveries = [replace(each, error=each.error and HIDDEN) for each in event.deliveries]
    return replace(event, data=None, key="", subject="", attributes={}, deliveries=deliveries)
