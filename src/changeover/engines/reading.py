"""Reading along: what happens in a run, carried to the loop of whoever reads it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from changeover.facts import RunResult
from changeover.relay.events import RunCompleted, RunFailed
from changeover.relay.stream import Recorded, RunFinished, StreamItem, TextDelta, ThinkingDelta


class Reading:
    """The stream of one run; made on the loop that reads, filled on the loop where the team lives."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Recorded | TextDelta | ThinkingDelta | asyncio.Future[RunResult]] = asyncio.Queue()

    def put(self, item: Recorded | TextDelta | ThinkingDelta | asyncio.Future[RunResult]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._queue.put_nowait, item)

    def finish(self, answer: asyncio.Future[RunResult]) -> None:
        """The run is over, and this is how."""
        if not answer.cancelled():
            answer.exception()  # looked at, so that a reader who has left leaves no warning behind
        self.put(answer)

    async def items(self, run: int) -> AsyncIterator[StreamItem]:
        """Everything up to the end of this run; then its result, or what it raised."""
        over = False
        while not isinstance(item := await self._queue.get(), asyncio.Future):
            if not over:
                yield item
            # What the conversation does after this run is no part of it.
            over = over or (isinstance(item, Recorded) and _ends(item, run))
        yield RunFinished(item.result())


def _ends(record: Recorded, run: int) -> bool:
    event = record.event
    return isinstance(event, (RunCompleted, RunFailed)) and event.run == run
