"""Several models for one: when one fails, the next is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from changeover.errors import ModelError
from changeover.messages import Reply
from changeover.relay.ports import Model, Request
from changeover.relay.stream import TextDelta, ThinkingDelta


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
