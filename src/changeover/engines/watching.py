"""Keeping watch: what other processes say, of agents and to the conversations at work here, and leave behind."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from changeover.engines.taking import sweep

if TYPE_CHECKING:
    from changeover.engines.local.engine import LocalEngine

logger = logging.getLogger("changeover.engine")


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
            if live is None or ((live.missed or live.known < position) and not live.lock.locked()):
                await self._engine.take_up(conversation)
