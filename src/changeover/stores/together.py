"""Logs that are wanted in the same moment are read by one query: whoever claims several tickets opens as many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

from changeover.errors import StoreUnavailable
from changeover.stores.sql.database import Call, Row
from changeover.stores.sql.reader import Reader

Wanted = list[tuple[str, asyncio.Future[list[Row]]]]
"""Conversations, and who waits for the entries of each."""


class Together:
    """Gathers what is asked for in one turn of an event loop."""

    def __init__(self, reader: Reader, call: Callable[[Sequence[str]], Call]) -> None:
        self._reader = reader
        self._call = call
        """What finds the entries of several conversations; each row begins with the id of one."""
        self._wanted: WeakKeyDictionary[asyncio.AbstractEventLoop, Wanted] = WeakKeyDictionary()

    async def rows(self, conversation: str) -> list[Row]:
        """The entries of a conversation, in order."""
        loop = asyncio.get_running_loop()
        found: asyncio.Future[list[Row]] = loop.create_future()
        if loop not in self._wanted:
            self._wanted[loop] = []
            loop.call_soon(self._ask, loop)
        self._wanted[loop].append((conversation, found))
        return await found

    def _ask(self, loop: asyncio.AbstractEventLoop) -> None:
        wanted = self._wanted.pop(loop)
        ids = list(dict.fromkeys(conversation for conversation, _ in wanted))
        asking = loop.create_task(self._reader.large(self._call(ids)))
        asking.add_done_callback(lambda asked: _tell(wanted, asked))


def _tell(wanted: Wanted, asked: asyncio.Task[list[Row]]) -> None:
    waiting = [(conversation, future) for conversation, future in wanted if not future.done()]
    if asked.cancelled():
        for _, future in waiting:
            future.cancel()
    elif error := asked.exception():
        for _, future in waiting:
            future.set_exception(_another(error))
    else:
        logs: dict[str, list[Row]] = {}
        for row in asked.result():
            logs.setdefault(row[0], []).append(row)
        for conversation, future in waiting:
            future.set_result(logs.get(conversation, []))


def _another(error: BaseException) -> BaseException:
    """One for each: whoever catches it may change it."""
    another = StoreUnavailable(str(error))
    another.__cause__ = error
    return another
