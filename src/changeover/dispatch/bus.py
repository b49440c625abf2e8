"""Bus: publishes events of a team, and shows their deliveries; the type of `team.bus`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeVar

from msgspec.structs import asdict

from changeover.bus.cloud_event import received
from changeover.bus.delivery import Backlog, Delivery
from changeover.bus.event import BusEvent, made_event
from changeover.bus.signature import checked_signature
from changeover.bus.subscription import BACKOFF, TRIES, Subscription
from changeover.engines.clock import new_id
from changeover.errors import MisconfiguredError, SignatureRefused
from changeover.inputs import check_id
from changeover.relay.ports.log import Log
from changeover.relay.ports.world import Clock, World

F = TypeVar("F", bound=Callable[..., Any])

SIGNED, NONCE = "signaturehash", "requestid"
"""Attributes of an event that came with a signed request: a hash of the signature, and an id of the request."""
PAGE = 100
"""How many events a list has by default."""


class EventRecord(BusEvent, frozen=True, kw_only=True):
    """An event and its deliveries, by subscriber."""

    deliveries: tuple[Delivery, ...] = ()


class Bus:
    """The event bus of a team. `team.bus` gives it.

    Events and deliveries are stored before `publish` returns. Processes in which the team is open hand them to the
    subscribers: at least once, in order per source, with retries.
    """

    def __init__(
        self,
        log: Callable[[], Log],
        clock: Clock,
        world: Callable[[], Awaitable[World]],
        subscribe: Callable[[Subscription], None],
    ) -> None:
        self._log, self._clock, self._world, self._subscribe = log, clock, world, subscribe

    async def publish(
        self,
        type: str,
        data: Any = None,
        *,
        key: str | None = None,
        source: str | None = None,
        subject: str | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> str:
        """Publish an event, and return its id once it is stored with a delivery for each subscriber.

        - `type`: what happened, such as "security.alert". `data`: what JSON can hold.
        - `key`: the same key gives the same event, published once. With other content it raises KeyConflict.
        - `source`: where it happened. A subscriber gets the events of a source in order.
        - `subject` and `attributes`: further attributes of a CloudEvent.

        Raises MisconfiguredError with all faults.
        """
        told = {"key": key, "source": source, "subject": subject}
        event = made_event(new_id(), self._clock.now(), type, data, **told, attributes=attributes)
        world = await self._world()
        subscribers = [each.id for each in world.subscriptions if each.wants(event)]
        return await self._log().outbox.publish(world.roster.team, event, subscribers)

    async def receive(self, headers: Mapping[str, str], body: bytes, *, secret: str | None = None) -> str:
        """Publish the CloudEvent of an HTTP request with these `headers` and this `body`, in the structured or the
        binary form, and return its id. An event that was received before, by source and id, is not published again.

        With a `secret`, the request must be signed with it. Raises SignatureRefused if its signature is missing, wrong,
        old or was used before, and MisconfiguredError if it is no CloudEvent.
        """
        signature = None if secret is None else checked_signature(secret, self._clock.now(), headers, body)
        found = received(headers, body)
        more = {} if signature is None else {SIGNED: sha256(signature.encode()).hexdigest()[:32]}
        id = await self.publish(
            found.type,
            found.data,
            key=found.key,
            source=found.source,
            subject=found.subject,
            attributes={**found.attributes, **more, NONCE: (nonce := new_id())},
        )
        if signature is not None:
            [stored] = await self._log().outbox.find(await self._team(), [id])
            if stored.attributes.get(NONCE) != nonce and stored.attributes.get(SIGNED) == more[SIGNED]:
                raise SignatureRefused("the signature was used before")
        return id

    def on(  # noqa: PLR0913 - the options of a subscription
        self,
        types: str,
        *,
        where: str = "",
        priority: str | int = "normal",
        name: str = "",
        tries: int = TRIES,
        backoff: float = BACKOFF,
        timeout: float = 60.0,
        concurrency: int = 8,
    ) -> Callable[[F], F]:
        """Declare the function below as a subscriber. It gets a BusEvent, at least once per event; `event.id` is the
        key by which it recognizes a repetition. `types`, `where`, `priority`, `name`, `tries`, `backoff`, `timeout` and
        `concurrency` are those of Subscription.

        Raises MisconfiguredError.
        """
        limits: Any = {"tries": tries, "backoff": backoff, "timeout": timeout, "concurrency": concurrency}

        def declare(function: F) -> F:
            self._subscribe(Subscription(types, to=function, where=where, priority=priority, name=name, **limits))
            return function

        return declare

    async def subscriptions(self) -> list[Subscription]:
        """The subscriptions that code and store declare now."""
        return list((await self._world()).subscriptions)

    async def events(self, *, type: str = "", before: str = "", limit: int = PAGE) -> list[BusEvent]:
        """Events, the newest first: of one `type`, and at most `limit`. For the next page, `before` is the id of the
        last event of this one."""
        check_id(type=type, before=before)
        _check_limit(limit)
        return await self._log().outbox.events(await self._team(), type=type, before=before, limit=limit)

    async def event(self, id: str) -> EventRecord | None:
        """An event with its deliveries; None if there is none with this `id`."""
        check_id(event=id)
        return next(iter(await self.records([id])), None)

    async def records(self, ids: Sequence[str]) -> list[EventRecord]:
        """The events with these `ids`, each with its deliveries, the newest first."""
        team, outbox = await self._team(), self._log().outbox
        events, deliveries = await outbox.find(team, ids), await outbox.deliveries(team, ids)
        by_event: defaultdict[str, list[Delivery]] = defaultdict(list)
        for each in deliveries:
            by_event[each.event.id].append(each)
        return [EventRecord(**asdict(event), deliveries=tuple(by_event[event.id])) for event in events]

    async def dead_letters(self, *, limit: int = PAGE) -> list[Delivery]:
        """Deliveries that failed as often as their subscriptions allow, the newest event first, at most `limit`."""
        _check_limit(limit)
        return await self._log().outbox.dead_letters(await self._team(), limit)

    async def resend(self, event: str, *, subscriber: str = "") -> int:
        """Try the dead letters of an `event` again, of one `subscriber` or of all; returns how many there are."""
        check_id(event=event, subscriber=subscriber)
        return await self._log().outbox.resend(await self._team(), event, subscriber, self._clock.now())

    async def backlog(self) -> list[Backlog]:
        """How many deliveries wait or are dead, by subscriber."""
        team = await self._team()
        return [each for each in await self._log().outbox.counts() if each.team == team]

    async def sweep(self, older_than: float) -> int:
        """Remove events that were published more than `older_than` seconds ago and are handled by all subscribers;
        returns their number. Their keys can be used again."""
        if not isinstance(older_than, int | float) or isinstance(older_than, bool) or older_than < 0:
            raise MisconfiguredError(f"older_than={older_than!r} must be a number of seconds, 0 or more")
        return await self._log().outbox.sweep(await self._team(), self._clock.now() - older_than)

    async def _team(self) -> str:
        return (await self._world()).roster.team


def _check_limit(limit: object) -> None:
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= 10_000:
        raise MisconfiguredError(f"limit={limit!r} must be a whole number from 1 to 10,000")
