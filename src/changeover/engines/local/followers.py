"""Reading along: what happens in a run, carried to the loop of whoever reads it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from changeover.errors import ConversationNotFound
from changeover.facts import RunResult
from changeover.relay.events import RunCancelled, RunCompleted, RunFailed, RunResumed, RunStarted
from changeover.relay.stream import Recorded, RunFinished, StreamItem, TextDelta, ThinkingDelta, recorded

if TYPE_CHECKING:
    from changeover.engines.local.engine import LocalEngine

Item = Recorded | TextDelta | ThinkingDelta


class Reading:
    """The stream of one run; made on the loop that reads, filled on the loop where the team lives."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._left = False
        self._queue: asyncio.Queue[Item | tuple[str, int] | None] = asyncio.Queue()

    def put(self, item: Item | tuple[str, int] | None) -> None:
        """One more item; a conversation and a number say which run is read."""
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
        order: InOrder | None = None
        while (item := await self._queue.get()) is not None:
            if isinstance(item, tuple):
                order = InOrder(*item)
            else:
                early.append(item)
            if order is None:
                continue
            for each in early:
                for ready in order.take(each):
                    yield ready
            early = []
        for left in order.rest() if order else ():
            yield left
        yield RunFinished(await answer)


class InOrder:
    """Those items that belong to one run of a root, recorded events by `seq`: delegates record at the same time, and
    who recorded first is not always heard first."""

    def __init__(self, conversation: str, run: int) -> None:
        self._conversation, self._run = conversation, run
        self._under_way = False
        self._next: int | None = None
        self._held: dict[int, Recorded] = {}

    def take(self, item: Item) -> Iterator[Item]:
        """One more item; what can be passed on by now."""
        if not isinstance(item, Recorded):
            if self._under_way:
                yield item
            return
        if self._next is None:
            self._next = item.seq
        if item.seq >= self._next:
            self._held[item.seq] = item
        while self._next in self._held:
            yield from self._pass(self._held.pop(self._next))
            self._next += 1

    def rest(self) -> Iterator[Item]:
        """What is left when nothing more comes, though something before it was never heard."""
        for seq in sorted(self._held):
            yield from self._pass(self._held[seq])

    def _pass(self, item: Recorded) -> Iterator[Item]:
        root = item.conversation == self._conversation
        self._under_way = self._under_way or (root and _is(item, self._run, (RunStarted, RunResumed)))
        if self._under_way or (root and item.position <= self._run):
            yield item
        if root and _is(item, self._run, (RunCompleted, RunFailed, RunCancelled)):
            self._under_way = False


def _is(item: Recorded, run: int, kinds: tuple[type, ...]) -> bool:
    """Whether this is such an event of this run."""
    return isinstance(item.event, kinds) and getattr(item.event, "run", None) == run


async def read_along(engine: LocalEngine, conversation: str, reading: Reading) -> None:
    """Read the run under way, or the last one, from its beginning."""
    live, meanwhile = await engine.lives.get(conversation), list[Any]()
    live.readers.append(meanwhile.append)
    try:
        entries = await engine.log.tree(conversation)
        if not entries:
            raise ConversationNotFound(conversation)
        past = list(recorded(entries))
    finally:
        live.readers.remove(meanwhile.append)
    live.readers.append(reading.put)
    run = _last_run(past, conversation)
    begun = (index for index, each in enumerate(past) if each.id == f"{conversation}:{run}")
    for item in [(conversation, run), *past[next(begun, 0) :], *meanwhile]:
        reading.put(item)


def _last_run(past: Sequence[Recorded], conversation: str) -> int:
    """The run that is under way in a conversation, or was the last."""
    runs = [each.event.run for each in past if each.conversation == conversation and isinstance(each.event, RunStarted)]
    return runs[-1] if runs else 1
