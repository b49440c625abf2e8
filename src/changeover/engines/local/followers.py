"""Followers: readers of a run's stream, and the tasks that follow what other processes record."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from changeover.engines.local.claims import sweep
from changeover.engines.local.conversation import Live
from changeover.errors import ConversationNotFound, EngineError
from changeover.facts import RunResult
from changeover.relay.events import Entry, RunCancelled, RunCompleted, RunFailed, RunResumed, RunStarted
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


logger = logging.getLogger("changeover.engine")


class Follower:
    """Tells those who wait what others record; takes a conversation over when nobody works on it any more."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine

    def follow(self, live: Live) -> None:
        """Begin to follow, unless that is under way. The caller holds the lock."""
        if live.follower is None:
            live.follower = self._engine.begin(self._follow(live))

    def listen(self, live: Live) -> None:
        """Hear at once what those say who claim or decide something in the tree of a conversation that is at work
        here."""
        if live.listener is None:
            live.listener = self._engine.begin(self._listen(live))

    async def _listen(self, live: Live) -> None:
        changes = self._engine.log.changes(live.state.root, live.state.seq)
        upcoming = asyncio.ensure_future(_next(changes))
        try:
            while live.flight and not live.asleep:
                await asyncio.wait({upcoming}, timeout=self._engine.patience)
                if upcoming.done():
                    await self._hear(upcoming.result())
                    upcoming = asyncio.ensure_future(_next(changes))
        except EngineError:
            logger.exception("what others say to conversation %s is heard later", live.state.id)
        finally:
            live.listener = None
            upcoming.cancel()

    async def _hear(self, entry: Entry) -> None:
        """Go on where somebody else recorded something, unless whoever works there is about to see it."""
        live = self._engine.lives.here(entry.conversation)
        if live is not None and entry.position >= live.known and not live.lock.locked():
            await self._engine.take_up(live.state.id)

    async def _follow(self, live: Live) -> None:
        changes = self._engine.log.changes(live.state.root, live.state.seq)
        upcoming = asyncio.ensure_future(_next(changes))
        try:
            while live.awaited and not live.flight:
                await asyncio.wait({upcoming}, timeout=self._engine.patience)
                if upcoming.done():
                    await self._take_in(live, upcoming.result())
                    upcoming = asyncio.ensure_future(_next(changes))
                else:
                    await self._take_over(live)
        except EngineError as error:
            logger.exception("conversation %s cannot be followed", live.state.id)
            live.fail(error)
        finally:
            # At once, before anything is awaited: whoever wants to know from here on must be followed for anew.
            live.follower = None
            upcoming.cancel()
            await asyncio.gather(upcoming, return_exceptions=True)

    async def _take_in(self, live: Live, entry: Entry) -> None:
        """Fold what somebody else recorded."""
        async with live.lock:
            state = live.state
            if entry.conversation != state.id:
                if entry.conversation.startswith(f"{state.id}/"):
                    live.publish(list(recorded([entry])))
                return
            if entry.position < state.position:
                return
            if live.stale or entry.position > state.position:
                await self._engine.lives.refresh(live)
            else:
                told = list(recorded([entry], state.agent))
                live.catch_up(state.fold([entry]), ())
                live.publish(told)
        live.wake()

    async def _take_over(self, live: Live) -> None:
        """Nothing was heard for a while: go on here if nobody else does."""
        async with live.lock:
            await self._engine.lives.refresh(live)
            await self._engine.go_on(live)
        await self._engine.tell(live)


async def _next(changes: AsyncIterator[Entry]) -> Entry:
    return await anext(changes)


class Watch:
    """Looks now and then; nobody waits for it."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine
        self._task: asyncio.Task[None] | None = None
        self._recovers = False

    @property
    def recovers(self) -> bool:
        """Whether what is due is taken up, wherever it was left."""
        return self._task is not None and self._recovers

    def keep(self, recover: bool) -> None:
        """Begin to watch, unless that is under way."""
        self._recovers = self._recovers or recover
        if self._task is None:
            self._task = self._engine.begin(self._look_again_and_again())

    async def _look_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(self._engine.patience)
            try:
                await self._engine.directory.look()
                await self._heed()
                if self._recovers:
                    await self._engine.recover()
                    await sweep(self._engine)
            except Exception:  # whatever it was, what comes next has to be looked for
                logger.exception("looking for unfinished conversations failed; trying again")

    async def _heed(self) -> None:
        """Hear what others said to the conversations that are at work here."""
        for conversation, position in (await self._engine.log.owned()).items():
            live = self._engine.lives.here(conversation)
            news = live is None or live.missed or live.halted or live.known < position
            if news and not (live and live.lock.locked()):
                await self._engine.take_up(conversation)
