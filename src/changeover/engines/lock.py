"""Lock: as asyncio.Lock, but entering a free one creates no coroutine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator, Iterator
from typing import Any


class _Now:
    """An awaitable that is done."""

    def __await__(self) -> Generator[Any, Any, None]:
        return _NOTHING  # type: ignore[return-value]  # any iterator will do, and an empty one is the cheapest


_NOTHING: Iterator[Any] = iter(())
NOW = _Now()


class Lock:
    """One holder at a time, in the order of asking. A conversation is rarely asked for twice at once, and its lock is
    taken with every step."""

    __slots__ = ("_held", "_waiting")

    def __init__(self) -> None:
        self._held = False
        self._waiting: list[asyncio.Future[None]] | None = None
        """Made when a task first has to wait: few locks ever need it, and each list costs the garbage collector."""

    def locked(self) -> bool:
        return self._held

    def __aenter__(self) -> Awaitable[None]:
        if self._held:
            return self._turn()
        self._held = True
        return NOW

    def __aexit__(self, *error: object) -> Awaitable[None]:
        self._pass_on()
        return NOW

    async def _turn(self) -> None:
        """Wait until the holder passes the lock on."""
        mine = asyncio.get_running_loop().create_future()
        waiting = self._waiting = self._waiting or []
        waiting.append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.cancelled():
                waiting.remove(mine)
            else:  # it was passed on to this task, which does not want it any more
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """Give the lock to the next task that waits; it stays held, so that no other can come between."""
        waiting = self._waiting or []
        for mine in waiting:
            if not mine.done():
                mine.set_result(None)
                waiting.remove(mine)
                return
        self._held = False
