"""TemporalEngine: the engine of a process among many. Temporal says which of them goes on with a conversation."""

from __future__ import annotations

import asyncio

from changeover.engines.local.dispatcher import Dispatcher
from changeover.engines.local.engine import LocalEngine
from changeover.engines.placement import Placement
from changeover.engines.temporal import Temporal
from changeover.engines.temporal.connection import Connection
from changeover.engines.temporal.legs import Legs
from changeover.engines.temporal.worker import LAST, TemporalWorker
from changeover.errors import MisconfiguredError
from changeover.ids import DEFAULT_TEAM
from changeover.relay.ports.engine import EngineSetup


class TemporalEngine(LocalEngine):
    """Dispatches as the local engine does, but only what Temporal gives to this process. Inputs go to the log first;
    then the workflow of the conversation is called."""

    def __init__(self, setup: EngineSetup, settings: Temporal) -> None:
        super().__init__(setup)
        self._settings = settings
        team = setup.world.roster.team
        self._team = "" if team == DEFAULT_TEAM else team
        self._workers: dict[Dispatcher, tuple[Connection, TemporalWorker, asyncio.Task[None] | None]] = {}
        self._next: Legs | None = None

    def _placement(self) -> Placement:
        self._next = Legs(Connection(self._settings, self._team), self._settings)
        return self._next

    def _here(self) -> Dispatcher:
        before = self._dispatcher
        dispatcher = super()._here()
        if dispatcher is not before:
            assert self._next is not None
            self._begin(dispatcher, self._next)
        return dispatcher

    def _begin(self, dispatcher: Dispatcher, legs: Legs) -> None:
        if not dispatcher.log.projects:
            raise MisconfiguredError("Temporal needs a store that outlives the process: give store='postgresql://…'")
        legs.attach(dispatcher)
        worker = TemporalWorker(self._settings, legs.connection, legs)
        task = asyncio.ensure_future(worker.run()) if self._settings.worker else None
        alive = {each: parts for each, parts in self._workers.items() if not each.loop.is_closed()}
        self._workers = {**alive, dispatcher: (legs.connection, worker, task)}

    async def _stop(self) -> None:
        if self._dispatcher is not None and self._dispatcher in self._workers:
            connection, worker, task = self._workers.pop(self._dispatcher)
            await worker.stop()
            if task is not None:
                task.cancel()
                await asyncio.wait([task], timeout=LAST)
            await connection.close()
        await super()._stop()
