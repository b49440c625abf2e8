"""The worker of a process: polls task queues of Temporal, and works on the conversations that it is given."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from changeover.engines.temporal import Temporal
from changeover.engines.temporal.connection import Connection
from changeover.engines.temporal.legs import Legs
from changeover.engines.temporal.shell import ADVANCE, Leg, Report, Shell

logger = logging.getLogger("changeover.engine")

PAUSE = 2.0
"""Seconds before a worker that Temporal refused starts again."""
LAST = 10.0
"""Seconds after which a worker that does not end is left behind."""
STOPPED = "the worker stopped before the leg was over"
FAILED = "the leg failed; the worker's log says why"


class TemporalWorker:
    """Polls the default queue, or those of the agents that it serves. Every worker can run the shell of a workflow."""

    def __init__(self, settings: Temporal, connection: Connection, legs: Legs) -> None:
        self._settings, self._connection, self._legs = settings, connection, legs
        self._workers: list[Worker] = []
        self._stopping = False

    async def run(self) -> None:
        """Work until `stop` is called. What Temporal refuses, such as a missing namespace, is tried again."""
        client = await self._connection.client()
        while not self._stopping:
            try:
                await self._poll(client)
            except (RuntimeError, RPCError) as error:
                logger.warning("the worker of %s starts again: %s", self._connection.queue, error)
                await asyncio.wait([self._shut_down()], timeout=LAST)
                await asyncio.sleep(PAUSE)

    async def _poll(self, client: Client) -> None:
        agents = self._settings.agents
        own = [self._polling(client, self._connection.own_queue(agent), [self.advance]) for agent in agents]
        default = self._polling(client, self._connection.queue, [] if agents else [self.advance], workflows=[Shell])
        self._workers = [default, *own]
        await asyncio.gather(*(worker.run() for worker in self._workers))

    def _polling(self, client: Client, queue: str, activities: list[Any], **more: Any) -> Worker:
        given = self._settings
        return Worker(
            client,
            task_queue=queue,
            identity=self._connection.identity(given.agents),
            activities=activities,
            # The shell draws no random numbers and reads no clock but the workflow's.
            workflow_runner=UnsandboxedWorkflowRunner(),
            max_concurrent_activities=given.concurrency,
            sticky_queue_schedule_to_start_timeout=timedelta(seconds=given.sticky),
            max_heartbeat_throttle_interval=timedelta(seconds=given.heartbeat / 4),
            graceful_shutdown_timeout=timedelta(seconds=given.grace),
            **more,
        )

    async def stop(self) -> None:
        """Take no more work; what was begun has the seconds of `grace` to end, and is left to other workers then."""
        self._stopping = True
        stopping = self._shut_down()
        await asyncio.wait([stopping], timeout=self._settings.grace)
        await self._legs.abandon_all()
        _, late = await asyncio.wait([stopping], timeout=LAST)
        if late:
            logger.warning("the worker of %s did not end within %s s and is left behind", self._connection.queue, LAST)
            stopping.cancel()

    def _shut_down(self) -> asyncio.Future[Any]:
        """Shut all workers down. One whose poll loop failed never ends: temporalio waits for the loop."""
        return asyncio.gather(*(worker.shutdown() for worker in self._workers), return_exceptions=True)

    @activity.defn(name=ADVANCE)
    async def advance(self, leg: Leg) -> Report:
        """Go on with a conversation until nothing is left to do there."""
        if activity.info().attempt > 1:
            leg.tracked = False  # the worker before may have given work to delegates and not reported it
        beating = asyncio.ensure_future(self._beat())
        working = asyncio.ensure_future(self._legs.advance(leg))
        reactions = set[asyncio.Task[None]]()
        try:
            while not working.done():
                try:
                    await asyncio.wait([working])
                except asyncio.CancelledError:  # in a task of its own: another one may follow at once
                    reactions.add(asyncio.ensure_future(self._cancelled(leg.conversation)))
            return _outcome(leg, working)
        finally:
            beating.cancel()
            working.cancel()

    async def _beat(self) -> None:
        while True:  # not at once: most legs are over before, and each heartbeat is a write of the server
            await asyncio.sleep(self._settings.heartbeat / 4)
            if self._legs.may_work:  # else another worker has to take it over
                activity.heartbeat()

    async def _cancelled(self, conversation: str) -> None:
        """Look at the log again if the workflow asks for it; stop if another worker has the work, or this one ends."""
        details = activity.cancellation_details()
        asked = details is not None and details.cancel_requested
        if asked and details and not (details.not_found or details.timed_out or details.worker_shutdown):
            await self._legs.look(conversation)
        else:
            await self._legs.abandon(conversation)


def _outcome(leg: Leg, working: asyncio.Future[Report]) -> Report:
    """The report of a leg. The text of an error stays in this process, because it may hold content."""
    if working.cancelled():
        raise ApplicationError(STOPPED, category=ApplicationErrorCategory.BENIGN)
    if (error := working.exception()) is not None:
        logger.warning("a leg of %s failed and is repeated", leg.conversation, exc_info=error)
        raise ApplicationError(FAILED, type=type(error).__name__)
    return working.result()
