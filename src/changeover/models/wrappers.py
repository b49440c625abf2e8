"""Models around models: LimitedModel bounds concurrent requests, FallbackModel asks the next model when one fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from changeover.errors import MisconfiguredError, ModelError
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


class FallbackModel:
    """Asks its models in turn until one answers."""

    def __init__(self, models: Sequence[Model]) -> None:
        self.models = tuple(models)

    async def reply(self, request: Request) -> Reply:
        """The first reply that there is; if none of them gives one, an error that tells of all."""
        errors = []
        for model in self.models:
            try:
                return await model.reply(request)
            except ModelError as error:
                errors.append(error)
        raise together(errors, request.agent)

    async def stream(self, request: Request) -> AsyncIterator[TextDelta | ThinkingDelta | Reply]:
        """The same in pieces. What was read along cannot be taken back: once a model has begun, no other follows."""
        errors = []
        for model in self.models:
            begun = False
            try:
                async for piece in model.stream(request):
                    begun = True
                    yield piece
                return
            except ModelError as error:
                if begun:
                    raise
                errors.append(error)
        raise together(errors, request.agent)

    def giving(self, schema: dict[str, Any], name: str) -> FallbackModel:
        """The same, whose answers are JSON of this schema where a model can be told so."""
        giving = [getattr(model, "giving", None) for model in self.models]
        pairs = zip(self.models, giving, strict=True)
        return FallbackModel([give(schema, name) if give else model for model, give in pairs])

    def setting_faults(self, settings: Mapping[str, Any]) -> list[str]:
        checks = [getattr(model, "setting_faults", None) for model in self.models]
        return list(dict.fromkeys(fault for check in checks if check for fault in check(settings)))

    async def let_go(self) -> None:
        for model in self.models:
            if let_go := getattr(model, "let_go", None):
                await let_go()


def together(errors: Sequence[ModelError], agent: str) -> ModelError:
    """One error for all of them; it may be tried again if one of them may."""
    waits = [error.retry_after or 0.0 for error in errors if error.retryable]
    words = "; ".join(map(str, errors))
    return ModelError(words, agent=agent, retryable=bool(waits), retry_after=min(waits, default=None))
