"""Models around models: LimitedModel bounds concurrent requests, FallbackModel tries models in turn, TypedModel checks
that answers fit a type.

A model may have more than the port: the methods `with_output`, `setting_faults` and `close_clients`, and the attributes
`calls_tools` and `context_window`. A wrapper takes them from the models inside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from changeover.errors import MisconfiguredError, ModelError
from changeover.handoffs.structured_output import unfenced
from changeover.messages import Reply
from changeover.relay.perform.callbacks import words_of
from changeover.relay.ports.world import Model, Request
from changeover.relay.stream import TextDelta, ThinkingDelta

if TYPE_CHECKING:
    from pydantic import TypeAdapter


class LimitedModel:
    """A model that answers at most `at_once` requests at a time; all agents that use the same object share the limit.

    `model` is anything that Agent(model=…) takes. The limit holds for one event loop in this process. Raises
    MisconfiguredError if `at_once` is not a positive integer.
    """

    def __init__(self, model: Any, *, at_once: int) -> None:
        if not isinstance(at_once, int) or isinstance(at_once, bool) or at_once < 1:
            raise MisconfiguredError(f"LimitedModel(at_once={at_once!r}) cannot work; give 1 or more")
        self.model, self.at_once = model, at_once
        self._semaphores: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}

    def around(self, model: Model) -> LimitedModel:
        """Another `model` under the limit of this one."""
        limited = LimitedModel(model, at_once=self.at_once)
        limited._semaphores = self._semaphores
        return limited

    async def reply(self, request: Request) -> Reply:
        """Wait for a free slot, then pass on the `request`."""
        async with self._semaphore():
            reply: Reply = await self.model.reply(request)
        return reply

    async def stream(self, request: Request) -> AsyncIterator[TextDelta | ThinkingDelta | Reply]:
        """Wait for a free slot, then pass on the `request`; the slot is free before the whole reply is yielded."""
        reply: Reply | None = None
        async with self._semaphore():
            async for piece in self.model.stream(request):
                if isinstance(piece, Reply):
                    reply = piece
                else:
                    yield piece
        if reply is not None:
            yield reply

    def with_output(self, schema: dict[str, Any], name: str) -> LimitedModel:
        """This model, whose answers fit the JSON `schema` called `name`."""
        return self.around(with_output(self.model, schema, name))

    def setting_faults(self, settings: Mapping[str, Any]) -> list[str]:
        """The faults of these `settings` for the model inside, one text each."""
        return setting_faults(self.model, settings)

    @property
    def calls_tools(self) -> bool:
        return calls_tools(self.model)

    @property
    def context_window(self) -> int | None:
        return context_window(self.model)

    async def close_clients(self) -> None:
        """Close the connections of the model inside."""
        await close_clients(self.model)

    def _semaphore(self) -> asyncio.Semaphore:
        # A semaphore belongs to the event loop of its first waiter.
        loop = asyncio.get_running_loop()
        semaphore = self._semaphores.get(loop)
        if semaphore is None:
            for other in [other for other in self._semaphores if other.is_closed()]:
                del self._semaphores[other]
            semaphore = self._semaphores[loop] = asyncio.Semaphore(self.at_once)
        return semaphore


class FallbackModel:
    """Asks its models in turn until one answers."""

    def __init__(self, models: Sequence[Model]) -> None:
        self.models = tuple(models)

    async def reply(self, request: Request) -> Reply:
        """The first reply; if every model fails, one ModelError with all their messages."""
        errors = []
        for model in self.models:
            try:
                return await model.reply(request)
            except ModelError as error:
                errors.append(error)
        raise joint_error(errors, request.agent)

    async def stream(self, request: Request) -> AsyncIterator[TextDelta | ThinkingDelta | Reply]:
        """`reply` in pieces. Pieces cannot be taken back: after the first one, no other model is asked."""
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
        raise joint_error(errors, request.agent)

    def with_output(self, schema: dict[str, Any], name: str) -> FallbackModel:
        return FallbackModel([with_output(model, schema, name) for model in self.models])

    def setting_faults(self, settings: Mapping[str, Any]) -> list[str]:
        return list(dict.fromkeys(fault for model in self.models for fault in setting_faults(model, settings)))

    @property
    def calls_tools(self) -> bool:
        return any(map(calls_tools, self.models))

    @property
    def context_window(self) -> int | None:
        return min((window for model in self.models if (window := context_window(model)) is not None), default=None)

    async def close_clients(self) -> None:
        for model in self.models:
            await close_clients(model)


class TypedModel:
    """A model whose answers are JSON of the type `output`; any other answer is a ModelError that may be retried.

    Raises MisconfiguredError if the type has no JSON schema.
    """

    def __init__(self, model: Model, output: Any) -> None:
        self._name = getattr(output, "__name__", str(output))
        self._type = _adapter(output, self._name)
        self.model = with_output(model, self._type.json_schema(), self._name)

    async def reply(self, request: Request) -> Reply:
        return self._checked(await self.model.reply(request), request)

    async def stream(self, request: Request) -> AsyncIterator[TextDelta | ThinkingDelta | Reply]:
        async for piece in self.model.stream(request):
            yield self._checked(piece, request) if isinstance(piece, Reply) else piece

    @property
    def calls_tools(self) -> bool:
        return calls_tools(self.model)

    @property
    def context_window(self) -> int | None:
        return context_window(self.model)

    async def close_clients(self) -> None:
        await close_clients(self.model)

    def _checked(self, reply: Reply, request: Request) -> Reply:
        """The reply with the JSON alone as its text; a reply with calls is not an answer yet, and is not checked."""
        from pydantic import ValidationError

        if reply.calls:
            return reply
        text = unfenced(reply.text)
        try:
            self._type.validate_json(text)
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'it'}: {each['msg']}" for each in error.errors())
            raise ModelError(f"its answer does not fit {self._name}: {wrong}", agent=request.agent) from error
        return reply if text == reply.text else replace(reply, text=text)


def _adapter(output: Any, name: str) -> TypeAdapter[Any]:
    from pydantic import PydanticUserError, TypeAdapter
    from pydantic.errors import PydanticSchemaGenerationError

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(output)
        adapter.json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        reason = str(error).splitlines()[0]
        raise MisconfiguredError(f"output={name}, which has no JSON schema: {reason}") from error
    return adapter


def with_output(model: Model, schema: dict[str, Any], name: str) -> Model:
    """A model that answers with JSON of this schema, if the model can do so; else the same model."""
    method = getattr(model, "with_output", None)
    return method(schema, name) if method else model


def setting_faults(model: Model, settings: Mapping[str, Any]) -> list[str]:
    """The faults of these settings; none if the model does not check settings."""
    method = getattr(model, "setting_faults", None)
    return list(method(settings)) if method else []


def calls_tools(model: Model) -> bool:
    """True if the model can call tools, or does not say so."""
    return bool(getattr(model, "calls_tools", True))


def context_window(model: Model) -> int | None:
    """Number of tokens that the model can read at once; None if it does not say."""
    return getattr(model, "context_window", None)


async def close_clients(model: Model) -> None:
    """Close the connections of the running event loop, if the model has any."""
    if method := getattr(model, "close_clients", None):
        await method()


def joint_error(errors: Sequence[ModelError], agent: str) -> ModelError:
    """One error with all messages; it may be retried if one of the errors may."""
    waits = [error.retry_after or 0.0 for error in errors if error.retryable]
    messages = "; ".join(map(words_of, errors))
    return ModelError(messages, agent=agent, retryable=bool(waits), retry_after=min(waits, default=None))
