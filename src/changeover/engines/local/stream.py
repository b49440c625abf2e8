"""Reading: the stream of one run, in order, across event loops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from changeover.engines.local.conversation import Conversation
from changeover.errors import ConversationNotFound
from changeover.facts import RunResult
from changeover.ids import below, event_id
from changeover.relay.events import RunCancelled, RunCompleted, RunFailed, RunResumed, RunStarted
from changeover.relay.history import recorded
from changeover.relay.inputs.requests import RunRef
from changeover.relay.ports.log import Log
from changeover.relay.stream import Delta, Deltas, Recorded, Replies, RunFinished, StreamItem

Item = Recorded | Delta


class Reading:
    """The stream of one run; made on the loop of the reader, filled on the loop of the engine."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._left = False
        self._joined = ExitStack()
        self._queue: asyncio.Queue[Item | RunRef | None] = asyncio.Queue()

    def put(self, item: Item | RunRef | None) -> None:
        """Add an item; a RunRef says which run is read, None that no item follows."""
        if not self._left and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._queue.put_nowait, item)

    def join(self, live: Conversation, deltas: Deltas) -> None:
        """Read what is recorded in a conversation from now on, and the deltas of its models, in any process."""
        live.readers.append(self.put)
        self._joined.callback(live.leave, self.put)
        self._joined.enter_context(deltas.listening(live.state.root, self.put))

    def part(self) -> None:
        """Stop following the conversation and its deltas; called on the loop of the engine."""
        self._joined.close()

    def leave(self, answer: asyncio.Future[RunResult]) -> None:
        """Stop reading. The run goes on, and its result or error is dropped."""
        self._left = True
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def items(self, answer: asyncio.Future[RunResult]) -> AsyncIterator[StreamItem]:
        """All items of the run, then its result; raises what the run raised."""
        answer.add_done_callback(lambda _: self.put(None))
        early: list[Item] = []
        order: RunOrder | None = None
        while (item := await self._queue.get()) is not None:
            if isinstance(item, RunRef):
                order = RunOrder(item)
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

    async def attach(self, live: Conversation, log: Log) -> None:
        """Read the current or last run of a conversation, from its beginning."""
        conversation, meanwhile = live.state.id, list[Any]()
        live.readers.append(meanwhile.append)
        try:
            entries = await log.lists.tree(conversation)
            if not entries:
                raise ConversationNotFound(conversation)
            past = list(recorded(entries))
        finally:
            live.readers.remove(meanwhile.append)
        self.join(live, log.deltas)
        run = _current_run(past, conversation)
        begun = (index for index, each in enumerate(past) if each.id == event_id(conversation, run))
        for item in [RunRef(conversation, run), *past[next(begun, 0) :], *meanwhile]:
            self.put(item)


class RunOrder:
    """Selects the items of one run of a root, and orders recorded events by `seq`: delegates record at the same time,
    and their events may arrive out of order."""

    def __init__(self, ref: RunRef) -> None:
        self._conversation, self._run = ref
        self._below = below(ref.conversation)
        self._under_way = False
        self._next: int | None = None
        self._held: dict[int, Recorded] = {}
        self._replies = Replies()

    def take(self, item: Item) -> Iterator[Item]:
        """Add an item; yields those that can be passed on now."""
        if not isinstance(item, Recorded):
            if self._under_way and self._is_within(item.conversation) and not self._replies.has(item):
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
        """The items that are left when no more come, although one before them is missing."""
        for seq in sorted(self._held):
            yield from self._pass(self._held[seq])

    def _pass(self, item: Recorded) -> Iterator[Item]:
        self._replies.note(item)
        root = item.conversation == self._conversation
        self._under_way = self._under_way or (root and self._is(item, (RunStarted, RunResumed)))
        if self._under_way or (root and item.position <= self._run):
            yield item
        if root and self._is(item, (RunCompleted, RunFailed, RunCancelled)):
            self._under_way = False

    def _is_within(self, conversation: str) -> bool:
        """True if this is the conversation or a delegate's below it; a model need not name it."""
        return not conversation or conversation == self._conversation or conversation.startswith(self._below)

    def _is(self, item: Recorded, kinds: tuple[type, ...]) -> bool:
        """True if this is such an event of the run."""
        return isinstance(item.event, kinds) and getattr(item.event, "run", None) == self._run


def _current_run(past: Sequence[Recorded], conversation: str) -> int:
    """The run of a conversation that started last."""
    runs = [each.event.run for each in past if each.conversation == conversation and isinstance(each.event, RunStarted)]
    return runs[-1] if runs else 1
