"""Followers: tasks that learn from the log what other processes record, and take over what they leave behind."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from changeover.engines.local.conversation import Conversation
from changeover.errors import EngineError, StoreDamaged
from changeover.ids import below
from changeover.relay.events import Entry
from changeover.relay.history import fold_recorded
from changeover.relay.state import State

if TYPE_CHECKING:
    from changeover.engines.local.dispatcher import Dispatcher

logger = logging.getLogger("changeover.engine")


class Followers:
    """Follows conversations in which other processes record."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._log, self._conversations = dispatcher.log, dispatcher.conversations

    def follow(self, live: Conversation) -> None:
        """Follow a conversation that another process works on, until no caller waits for it. The caller holds the
        lock."""
        if live.follower is None:
            live.follower = self._dispatcher.begin(self._follow(live))

    def listen(self, live: Conversation) -> None:
        """React at once to claims and decisions that other processes record in the tree of a conversation that this
        process works on."""
        if live.listener is None:
            live.listener = self._dispatcher.begin(self._listen(live))

    async def _follow(self, live: Conversation) -> None:
        delegates: dict[str, State] = {}

        async def take_in(entry: Entry) -> None:
            await self._take_in(live, entry, delegates)
            await self._dispatcher.placement.heard(live)

        async def take_over() -> None:
            if not await self._dispatcher.placement.silent(live):
                await self._dispatcher.go_on_with(live.state.id)

        def ended() -> None:
            # At once, before anything is awaited: a caller that comes from here on needs a new follower.
            live.follower = None

        try:
            await self._each_change(live, lambda: live.awaited and not live.performs, take_in, take_over, ended)
        except EngineError as error:
            logger.exception("conversation %s cannot be followed", live.state.id)
            live.fail(error)

    async def _listen(self, live: Conversation) -> None:
        def ended() -> None:
            live.listener = None

        try:
            await self._each_change(live, lambda: live.busy, self._hear, None, ended)
        except EngineError:
            logger.exception("inputs of other processes to conversation %s are noticed later", live.state.id)

    async def _each_change(
        self,
        live: Conversation,
        wanted: Callable[[], bool],
        take: Callable[[Entry], Awaitable[None]],
        silent: Callable[[], Awaitable[None]] | None,
        ended: Callable[[], None],
    ) -> None:
        """Call `take` with each new entry of a tree while it is wanted, and `silent` if there was none for a while."""
        changes = self._log.changes(live.state.root, live.state.seq)
        upcoming = asyncio.ensure_future(_next(changes))
        try:
            while wanted():
                await asyncio.wait({upcoming}, timeout=self._dispatcher.patience)
                if upcoming.done():
                    await take(upcoming.result())
                    upcoming = asyncio.ensure_future(_next(changes))
                elif silent is not None:
                    await silent()
        finally:
            ended()
            upcoming.cancel()
            await asyncio.gather(upcoming, return_exceptions=True)

    async def _hear(self, entry: Entry) -> None:
        """Go on where another process recorded something, unless a task of this process is about to see it."""
        live = self._conversations.cached(entry.conversation)
        if live is not None and entry.position >= live.known and not live.lock.locked():
            await self._dispatcher.go_on_with(live.state.id)

    async def _take_in(self, live: Conversation, entry: Entry, delegates: dict[str, State]) -> None:
        """Fold an entry of another process; `delegates` has the states of the conversations below, for readers."""
        async with live.lock:
            state = live.state
            if entry.conversation != state.id:
                if live.readers and entry.conversation.startswith(below(state.id)):
                    live.publish(fold_recorded(await self._before(entry, delegates), entry))
                return
            if entry.position < state.position:
                return
            if live.stale or entry.position > state.position:
                await self._conversations.refresh(live)
            else:
                events = fold_recorded(state, entry)
                live.catch_up(state, ())
                live.publish(events)
        live.wake()

    async def _before(self, entry: Entry, delegates: dict[str, State]) -> State:
        """The state of a delegate's conversation just before an entry."""
        id, state = entry.conversation, delegates.get(entry.conversation)
        if state is None or state.position != entry.position:
            entries = await self._log.read(id)
            state = delegates[id] = State(id).fold(each for each in entries if each.position < entry.position)
        return state


async def _next(changes: AsyncIterator[Entry]) -> Entry:
    return await anext(changes)


@contextmanager
def undamaged(conversation: str) -> Iterator[None]:
    """Log that a conversation is damaged instead of raising it, so that the caller goes on with the others."""
    try:
        yield
    except StoreDamaged as error:
        logger.error("conversation %s cannot be taken up: %s", conversation, error)


class Watch:
    """Looks at the store at intervals: for changes to agents, inputs of other processes, and unfinished work."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._task: asyncio.Task[None] | None = None
        self._recovers = False

    @property
    def recovers(self) -> bool:
        """True if unfinished work of other processes is taken up."""
        return self._task is not None and self._recovers

    def start(self, recover: bool) -> None:
        """Start to watch, unless that was done before."""
        self._recovers = self._recovers or recover
        if self._task is None:
            self._task = self._dispatcher.begin(self._look_repeatedly())

    async def _look_repeatedly(self) -> None:
        while True:
            await asyncio.sleep(self._dispatcher.patience)
            try:
                await self._dispatcher.directory.look()
                await self._hear_inputs()
                await self._check_ownership()
                if self._recovers:
                    await self._dispatcher.recover()
                    await self._dispatcher.lapses.sweep()
            except Exception:  # whatever it was, the next look may succeed
                logger.exception("looking for unfinished conversations failed; trying again")

    async def _hear_inputs(self) -> None:
        """Go on with conversations to which other processes appended inputs."""
        for conversation, position in (await self._dispatcher.log.owned()).items():
            live = self._dispatcher.conversations.cached(conversation)
            news = live is None or live.missed or live.halted or live.known < position
            if news and not (live and live.lock.locked()):
                with undamaged(conversation):
                    await self._dispatcher.go_on_with(conversation)

    async def _check_ownership(self) -> None:
        """Claim again what this process works on under a lease that it lost, unless another process took it over: then
        give it up, so that callers here hear of what that process records."""
        for live in self._dispatcher.conversations:
            lost = live.owned and live.epoch != self._dispatcher.recorder.epoch
            if lost and live.busy and not live.lock.locked():
                with undamaged(live.state.id):
                    await self._dispatcher.go_on_with(live.state.id)
