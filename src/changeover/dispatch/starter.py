"""Starter: hands an event to its subscriber: a function, an agent, a specialist."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable

from changeover.bus.delivery import Delivery
from changeover.bus.event import task_of
from changeover.bus.subscription import Specialist, Subscription, Webhook, is_url
from changeover.handoffs.package import PRIORITIES, Context, HandoffPackage, Metadata, Task
from changeover.inputs import brokered, offered
from changeover.relay.engine import Engine
from changeover.relay.ports import Clock, World
from changeover.relay.requests import Say

SENDER = "bus"
"""The sender of handoffs that events start."""


class Starter:
    """Starts what a subscription says. A repetition starts nothing new: the key of the delivery is that of the run."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine, self._clock = engine, clock

    async def __call__(self, subscription: Subscription, delivery: Delivery) -> str:
        """Hand an event to a subscriber; returns the id of the conversation that it started, if any."""
        target = subscription.to
        if isinstance(target, Webhook) or is_url(target):
            raise NotImplementedError("webhooks")
        if not isinstance(target, str | Specialist):
            await _called(target, delivery, subscription.timeout)
            return ""
        world = await self._engine.world()
        say = self._handoff(world, subscription, delivery)
        ref = await self._engine.put(say)
        return str(ref.conversation)

    def _handoff(self, world: World, subscription: Subscription, delivery: Delivery) -> Say:
        target, now = subscription.to, self._clock.now()
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
            correlation_id=event.id,
            idempotency_key=delivery.key,
        ),
    )


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
