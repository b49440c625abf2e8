"""Consumer: hands events to one subscriber, and records the outcomes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from itertools import count

from changeover.bus.delivery import Delivery, Done, Failed, Fetch, Outbox, Outcome, Postponed
from changeover.bus.subscription import Subscription
from changeover.errors import EngineError
from changeover.relay.ports.world import Clock

logger = logging.getLogger("changeover.bus")

LONGEST_ERROR = 2_000
"""Characters of an error that are stored."""
PAUSE = 1.0
"""Seconds before a store that is not available is asked again."""

Handle = Callable[[Subscription, Delivery], Awaitable[str]]
"""Hands an event to a subscriber; returns the id of the conversation that it started, if any."""


class NotYet(Exception):
    """A delivery has to wait for `seconds` more; the text says why."""

    def __init__(self, seconds: float, reason: str) -> None:
        self.seconds = seconds
        super().__init__(reason)


class Consumer:
    """Takes the deliveries of one subscription and handles several at once. It leases each for `lease` seconds; the
    BusDispatcher renews the leases."""

    def __init__(
        self, team: str, subscription: Subscription, outbox: Outbox, clock: Clock, lease: float, by: str
    ) -> None:
        self.subscription = subscription
        self._team, self._outbox, self._clock, self._lease, self._by = team, outbox, clock, lease, by
        self._numbers = count()
        self._wake = asyncio.Event()
        self._tasks: dict[asyncio.Task[None], str] = {}

    @property
    def tokens(self) -> set[str]:
        """The tokens of the deliveries under way."""
        return set(self._tasks.values())

    def wake(self) -> None:
        """Look for deliveries, since there may be new ones."""
        self._wake.set()

    async def run(self, handle: Handle, postponed: Callable[[], None]) -> None:
        """Hand out events until cancelled; `postponed` is called when a delivery has to wait."""
        try:
            while True:
                self._wake.clear()
                try:
                    full = await self._take(handle, postponed)
                except EngineError as error:  # the store may come back
                    logger.warning("%s gets nothing for now: %s", self.subscription.id, error)
                    await asyncio.sleep(PAUSE)
                    continue
                await self._pause(full)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _take(self, handle: Handle, postponed: Callable[[], None]) -> bool:
        """Begin the deliveries that can be taken; True if there is no room for more."""
        room = self.subscription.concurrency - len(self._tasks)
        if room <= 0:
            return True
        token = f"{self._by}/{self.subscription.id}#{next(self._numbers)}"
        fetch = Fetch(self._team, self.subscription.id, token, self._lease, room, self._clock.now())
        taken = await self._outbox.take(fetch)
        for delivery in taken:
            task = asyncio.ensure_future(self._deliver(delivery, token, handle, postponed))
            self._tasks[task] = token
            task.add_done_callback(self._forget)
        return len(taken) == room

    def _forget(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        self._wake.set()

    async def _pause(self, full: bool) -> None:
        if full:  # only the end of a task makes room
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        else:
            await self._wake.wait()

    async def _deliver(self, delivery: Delivery, token: str, handle: Handle, postponed: Callable[[], None]) -> None:
        try:
            outcome = await self._outcome(delivery, handle)
        except asyncio.CancelledError:
            # The process stops: another one can have it at once.
            await self._settle(delivery, token, Postponed(self._clock.now(), "its process was stopped"))
            raise
        await self._settle(delivery, token, outcome)
        if not isinstance(outcome, Done):
            postponed()

    async def _settle(self, delivery: Delivery, token: str, outcome: Outcome) -> None:
        try:
            await self._outbox.settle(delivery, token, outcome)
        except EngineError as error:  # the lease runs out, and it is delivered again
            logger.warning("the end of %s for %s was not stored: %s", delivery.event.id, delivery.subscriber, error)

    async def _outcome(self, delivery: Delivery, handle: Handle) -> Outcome:
        try:
            return Done(await handle(self.subscription, delivery))
        except NotYet as reason:
            return Postponed(self._clock.now() + reason.seconds, str(reason))
        except Exception as error:
            logger.warning("%s failed on %s: %s", delivery.subscriber, delivery.event.id, error, exc_info=error)
            pause = self.subscription.pause(delivery.attempts)
            due = None if pause is None else self._clock.now() + pause
            return Failed(f"{type(error).__name__}: {error}"[:LONGEST_ERROR], due)
