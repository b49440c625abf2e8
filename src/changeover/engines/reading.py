"""Reading along: what happens in a run, carried to the loop of whoever reads it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from changeover.facts import RunResult
from changeover.relay.events import RunCompleted, RunFailed, RunResumed, RunStarted
from changeover.relay.stream import Recorded, RunFinished, StreamItem, TextDelta, ThinkingDelta

Item = Recorded | TextDelta | ThinkingDelta


class Reading:
    """The stream of one run; made on the loop that reads, filled on the loop where the team lives."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._left = False
        self._queue: asyncio.Queue[Item | int | None] = asyncio.Queue()

    def put(self, item: Item | int | None) -> None:
        """One more item; a number says which run is read."""
        if not self._left and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._queue.put_nowait, item)

    def leave(self, answer: asyncio.Future[RunResult]) -> None:
        """The run goes on without its reader, and whatever comes of it is not this reader's to hear."""
        self._left = True
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def items(self, answer: asyncio.Future[RunResult]) -> AsyncIterator[StreamItem]:
        """Everything of one run, and nothing of others before and after it; then its result, or what it raised."""
        answer.add_done_callback(lambda _: self.put(None))
        early: list[Item] = []
        run: int | None = None
        under_way = False
        while (item := await self._queue.get()) is not None:
            if isinstance(item, int):
                run = item
            else:
                early.append(item)
            if run is None:
                continue
            for each in early:
                under_way = under_way or _is(each, run, (RunStarted, RunResumed))
                if under_way or (isinstance(each, Recorded) and each.position <= run):
                    yield each
                under_way = under_way and not _is(each, run, (RunCompleted, RunFailed))
            early = []
        yield RunFinished(await answer)


def _is(item: Item, run: int, kinds: tuple[type, ...]) -> bool:
    """Whether this is such an event of this run."""
    return isinstance(item, Recorded) and isinstance(item.event, kinds) and getattr(item.event, "run", None) == run
