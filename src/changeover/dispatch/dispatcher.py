"""BusDispatcher: the consumers of all subscriptions in a process in which the team is open."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from changeover.bus.subscription import Subscription
from changeover.dispatch.consumer import PAUSE, Consumer, Handle
from changeover.dispatch.scheduler import Scheduler, first
from changeover.engines.clock import new_id
from changeover.errors import EngineError
from changeover.relay.ports.log import Log
from changeover.relay.ports.world import Clock, World
from changeover.ticket import worker_name

logger = logging.getLogger("changeover.bus")

SWEEP = 3_600.0
"""Seconds between two removals of old events."""
LEASE = 30.0
"""The length of the lease on a delivery in seconds, in a store that is not shared."""


class BusDispatcher:
    """Runs a consumer for each subscription, wakes the consumers when there may be deliveries, and renews their leases.

    It runs from `start` to `stop`, and only if the team has subscriptions or schedules; it always removes old events.
    """

    def __init__(
        self, log: Callable[[], Log], clock: Clock, world: Callable[[], Awaitable[World]], handle: Handle, lease: float
    ) -> None:
        self._log, self._clock, self._world, self._handle, self._lease = log, clock, world, handle, lease
        self._consumers: dict[str, tuple[Consumer, asyncio.Task[None]]] = {}
        self._changed, self._waking = asyncio.Event(), asyncio.Event()
        """Set if the consumers, and the scheduler, have to look at the subscriptions and schedules again."""
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop on which it may run; None if the team is not open."""
        self._task: asyncio.Task[None] | None = None
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin on this loop, now or as soon as there is a subscription."""
        self._loop = asyncio.get_running_loop()
        self._sweeper = asyncio.ensure_future(_run_forever(self._sweep))
        self.refresh(await self._world())

    def refresh(self, world: World) -> None:
        """Take up the subscriptions and schedules of this world, which may have changed."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._begin, bool(world.subscriptions or world.schedules))

    async def stop(self) -> None:
        """End, and give back the deliveries under way."""
        tasks = [task for task in (self._task, self._sweeper) if task is not None]
        self._task, self._sweeper, loop, self._loop = None, None, self._loop, None
        if loop is None or loop.is_closed():
            return
        for task in tasks:
            loop.call_soon_threadsafe(task.cancel)
        if loop is asyncio.get_running_loop():
            await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, needed: bool) -> None:
        self._changed.set()
        self._waking.set()
        if needed and self._task is None and self._loop is not None:
            self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        by = f"{worker_name()}:{new_id()}"
        scheduler = Scheduler(self._log, self._clock)
        jobs = (lambda: self._serve(by), self._renew, lambda: scheduler.run(self._world, self._waking))
        tasks = [asyncio.ensure_future(_run_forever(job)) for job in jobs]
        try:
            await asyncio.gather(*tasks)
        finally:
            tasks += [task for _, task in self._consumers.values()]
            self._consumers = {}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, by: str) -> None:
        outbox, team = self._log().outbox, (await self._world()).roster.team
        with outbox.listening(team) as bell:
            while True:
                self._changed.clear()
                self._adopt(await self._world(), by)
                for consumer, _ in self._consumers.values():
                    consumer.wake()
                rest = await outbox.rest(team, self._clock.now())
                waits: list[Awaitable[object]] = [bell.wait(), self._changed.wait()]
                if rest.due is not None:
                    waits.append(self._clock.alarm(rest.due))
                lapse = self._lease if rest.lapse is None else min(max(rest.lapse, 0.01), self._lease)
                await first(waits, lapse)

    def _adopt(self, world: World, by: str) -> None:
        """Start the consumers of new subscriptions, and cancel those of subscriptions that changed or are gone."""
        wanted = {each.id: each for each in world.subscribers}
        for name, (consumer, task) in list(self._consumers.items()):
            if wanted.get(name) != consumer.subscription:
                del self._consumers[name]
                task.cancel()
        for name, subscription in wanted.items():
            if name not in self._consumers:
                self._consumers[name] = self._consumer(world.roster.team, subscription, by)

    def _consumer(self, team: str, subscription: Subscription, by: str) -> tuple[Consumer, asyncio.Task[None]]:
        consumer = Consumer(team, subscription, self._log().outbox, self._clock, self._lease, by)
        return consumer, asyncio.ensure_future(consumer.run(self._handle, self._changed.set))

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._lease / 3)
            if tokens := [token for consumer, _ in self._consumers.values() for token in consumer.tokens]:
                with suppress(EngineError):  # leases may lapse; then others deliver the same
                    await self._log().outbox.renew(tokens, self._lease)

    async def _sweep(self) -> None:
        while True:
            await self._clock.alarm(self._clock.now() + SWEEP)
            world, now = await self._world(), self._clock.now()
            if swept := await self._log().outbox.sweep(world.roster.team, now - world.keep_events):
                logger.info("%d events older than %g days were removed", swept, world.keep_events / 86_400)


async def _run_forever(job: Callable[[], Awaitable[None]]) -> None:
    """Run a job that never ends, and start it again if it fails."""
    while True:
        try:
            await job()
        except EngineError as error:  # the store may come back
            logger.warning("events wait for now: %s", error)
        except Exception:  # the next attempt may succeed
            logger.exception("the bus goes on in %g s", PAUSE)
        await asyncio.sleep(PAUSE)
