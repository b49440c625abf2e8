"""Following a conversation that another process works on: its log tells how it goes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from changeover.engines.local.conversation import Live
from changeover.errors import EngineError
from changeover.relay.events import Entry
from changeover.relay.stream import recorded

if TYPE_CHECKING:
    from changeover.engines.local.engine import LocalEngine

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
