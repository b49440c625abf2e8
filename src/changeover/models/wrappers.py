"""A limit on how often a model is asked at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from changeover.errors import MisconfiguredError
from changeover.messages import Reply
from changeover.relay.ports import Model, Request
from changeover.relay.stream import TextDelta, ThinkingDelta


class LimitedModel:
    """A model that answers at most `at_once` requests at a time; whoever is given the same object shares the limit.

    `model` is whatever Agent(model=…) takes. The limit holds for one event loop, in this process.
    """

    def __init__(self, model: Any, *, at_once: int) -> None:
        if not isinstance(at_once, int) or isinstance(at_once, bool) or at_once < 1:
            raise MisconfiguredError(f"LimitedModel(at_once={at_once!r}) cannot work; give 1 or more")
        self.model, self.at_once = model, at_once
        self._doors: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}

    def around(self, model: Model) -> LimitedModel:
        """The same limit, shared with this one, around another model."""
        limited = LimitedModel(model, at_once=self.at_once)
        limited._doors = self._doors
        return limited

    async def reply(self, request: Request) -> Reply:
        """Wait for a free place, then ask."""
        async with self._door():
            reply: Reply = await self.model.reply(request)
        return reply

    async def stream(self, request: Request) -> AsyncIterator[TextDelta | ThinkingDelta | Reply]:
        """Wait for a free place, then ask; the place is free again before the whole reply is given."""
        reply: Reply | None = None
        async with self._door():
            async for piece in self.model.stream(request):
                if isinstance(piece, Reply):
                    reply = piece
                else:
                    yield piece
        if reply is not None:
            yield reply

    def giving(self, schema: dict[str, Any], name: str) -> Model:
        """The same, whose answers are JSON of this schema, if the model can be told so."""
        giving = getattr(self.model, "giving", None)
        return self.around(giving(schema, name)) if giving else self

    def setting_faults(self, settings: Mapping[str, Any]) -> list[str]:
        check = getattr(self.model, "setting_faults", None)
        return list(check(settings)) if check else []

    async def let_go(self) -> None:
        if let_go := getattr(self.model, "let_go", None):
            await let_go()

    def _door(self) -> asyncio.Semaphore:
        # A semaphore belongs to the loop on which somebody first waited for it.
        loop = asyncio.get_running_loop()
        door = self._doors.get(loop)
        if door is None:
            for other in [other for other in self._doors if other.is_closed()]:
                del self._doors[other]
            door = self._doors[loop] = asyncio.Semaphore(self.at_once)
        return door
