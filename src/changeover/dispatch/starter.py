"""Starter: hands an event to its subscriber: a function, an agent, a specialist, a webhook, or the bus again."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from changeover.bus.cloud_event import structured
from changeover.bus.delivery import Delivery
from changeover.bus.event import INSIDE, BusEvent, task_of
from changeover.bus.schedule import AFTER, DUE, Emit
from changeover.bus.signature import signed
from changeover.bus.subscription import Specialist, Subscription, Webhook, is_url
from changeover.dispatch.bus import Bus
from changeover.dispatch.consumer import PAUSE, NotYet
from changeover.dispatch.scheduler import is_under_way
from changeover.errors import MisconfiguredError
from changeover.handoffs.package import PRIORITIES, Context, HandoffPackage, Metadata, Task
from changeover.ids import happening_id
from changeover.inputs import brokered, offered, started
from changeover.relay.inputs.requests import Say
from changeover.relay.ports.engine import Engine
from changeover.relay.ports.log import Log
from changeover.relay.ports.world import Clock, World
from changeover.toolkits.connections import Connections
from changeover.toolkits.webhook import post
from changeover.workflows.workflow import Workflow

SENDER = "bus"
"""The sender of handoffs that events start."""


class Starter:
    """Starts the target of a subscription. A repeated delivery starts nothing new: its key is that of the run."""

    def __init__(self, engine: Engine, log: Callable[[], Log], clock: Clock, bus: Bus) -> None:
        self._engine, self._log, self._clock, self._bus = engine, log, clock, bus

    async def __call__(self, subscription: Subscription, delivery: Delivery) -> str:
        """Hand an event to a subscriber; returns the id of the conversation that it started, if any."""
        before = delivery.event.attributes.get(AFTER)
        if before and await is_under_way(self._log(), delivery.team, before):
            raise NotYet(PAUSE, "the work of the start before has not ended")
        match subscription.to:
            case Emit(type, data, source=source):
                await self._bus.publish(type, data, key=delivery.key, source=source)
            case Webhook() as webhook:
                await self._post(webhook, delivery)
            case str(url) if is_url(url):
                await self._post(Webhook(url), delivery)
            case str() | Specialist() | Workflow():
                say = self._start(await self._engine.world(), subscription, delivery)
                return str((await self._engine.put(say)).conversation)
            case function:
                await _called(function, delivery, subscription.timeout)
        return ""

    async def _post(self, webhook: Webhook, delivery: Delivery) -> None:
        connections = (await self._engine.world()).connections
        assert isinstance(connections, Connections)
        headers, body = structured(delivery.event, delivery.team)
        if webhook.secret:
            secret = connections.vault.resolve(webhook.secret)
            headers |= signed(secret, delivery.key, self._clock.now(), headers, body)
        await post(connections, webhook, headers, body)

    def _start(self, world: World, subscription: Subscription, delivery: Delivery) -> Say:
        """The input that starts a workflow or hands a task over."""
        target, now = subscription.to, self._clock.now()
        id = target.id if isinstance(target, Workflow) else target
        if isinstance(id, str) and (workflow := world.roster.workflows.get(id)):
            event = delivery.event
            where = {"conversation": _conversation(delivery) or None, "correlation_id": event.id}
            options = {**where, "key": delivery.key, "context": {"event": event.view()}}
            return started(workflow, _inputs(event), options)
        if isinstance(target, Workflow):
            raise MisconfiguredError(f"no workflow is called {id!r}")
        if isinstance(target, Specialist):
            package = _package(subscription, delivery, target.task or subscription.task, "")
            return brokered(world.roster, target.capability, package, now, world.routing.no_takers)
        return offered(world.roster, _package(subscription, delivery, subscription.task, target), now)


def _package(subscription: Subscription, delivery: Delivery, template: str, receiver: str) -> HandoffPackage:
    event, priority = delivery.event, subscription.priority
    return HandoffPackage(
        Task(task_of(template, event), type=event.type),
        Context(original_request=task_of("", event), variables={"event": event.view()}),
        Metadata(
            sender=SENDER,
            receiver=receiver,
            reason=f"the event {event.type}",
            priority=PRIORITIES[priority] if isinstance(priority, str) else priority,
            conversation=_conversation(delivery),
            correlation_id=event.id,
            idempotency_key=delivery.key,
        ),
    )


def _conversation(delivery: Delivery) -> str:
    """The id of the conversation that an event of the team's own conversations starts; it marks the conversation as
    such. Empty for other events, whose conversation gets its id from the key."""
    if not delivery.event.type.startswith(INSIDE) or delivery.event.type == DUE:
        return ""
    return happening_id(delivery.key)


def _inputs(event: BusEvent) -> dict[str, Any]:
    """The inputs of a workflow: the data of the event; of a schedule, the data that it declares."""
    data = event.data.get("data") if event.type == DUE else event.data
    return data if isinstance(data, dict) else {} if data is None else {"data": data}


async def _called(function: Callable[..., object], delivery: Delivery, timeout: float) -> None:
    """Call a function with an event; raises what it raises, and TimeoutError."""
    try:
        async with asyncio.timeout(timeout):
            if inspect.iscoroutinefunction(function):
                await function(delivery.event)
                return
            answer = await asyncio.to_thread(function, delivery.event)
            if isinstance(answer, Awaitable):
                await answer
    except TimeoutError as error:
        raise TimeoutError(str(error) or f"it took longer than {timeout:g} s") from error
