"""A provider's client belongs to the event loop that opened its connections: each loop gets its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from pydantic_ai.models import Model


class Clients:
    """Models of theirs, one for each loop, or one for all of them if it was made elsewhere."""

    def __init__(self, make: Callable[[], Model]) -> None:
        self.example = make()
        """Made at once, so that what is missing is noticed at once."""
        self._make = make
        self._spare: Model | None = self.example
        self._opened: dict[asyncio.AbstractEventLoop, asyncio.Task[Model]] = {}

    async def at_hand(self) -> Model:
        """The model for the running loop, ready for use."""
        loop = asyncio.get_running_loop()
        opening = self._opened.get(loop)
        if opening is None:
            # A task, because the first caller may be cancelled while others wait for the same.
            opening = self._opened[loop] = loop.create_task(self._open())
        return opening.result() if opening.done() else await asyncio.shield(opening)

    async def close(self) -> None:
        """Close what the running loop has opened; a later call opens it again."""
        opening = self._opened.pop(asyncio.get_running_loop(), None)
        if opening is not None:
            await (await opening).__aexit__(None, None, None)

    async def _open(self) -> Model:
        for loop in [loop for loop in self._opened if loop.is_closed()]:
            left = self._opened.pop(loop)
            with suppress(Exception):  # its connections went with its loop
                await left.result().__aexit__(None, None, None)
        try:
            model, self._spare = self._spare or self._make(), None
            await model.__aenter__()
        except BaseException:
            # Whoever comes next tries anew.
            del self._opened[asyncio.get_running_loop()]
            raise
        return model
