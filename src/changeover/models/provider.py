"""PydanticAIModel: a model of pydantic-ai behind the Model port, by object or by name, one client per event loop."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from functools import partial
from importlib import import_module
from typing import Any, Literal, cast

from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    InstructionPart,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
)
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.providers import Provider
from pydantic_ai.settings import ModelSettings

from changeover.copies import original
from changeover.errors import MisconfiguredError
from changeover.messages import Reply
from changeover.models.provider_errors import model_error
from changeover.models.quotation import Marks, texts_of
from changeover.models.request import history_for, setting_faults, tools_of
from changeover.models.response import GAP, Answer, Prepared, answer, pieces, read
from changeover.relay.ports.world import Request
from changeover.relay.stream import TextDelta, ThinkingDelta


class Clients:
    """The pydantic-ai models of one Model, one per event loop; `make` may return the same object for all of them."""

    def __init__(self, make: Callable[[], Model]) -> None:
        self.example = make()
        """Made at once, so that a missing key or library is noticed at once."""
        self._make = make
        self._spare: Model | None = self.example
        self._opened: dict[asyncio.AbstractEventLoop, asyncio.Task[Model]] = {}

    async def current(self) -> Model:
        """The opened model of the running event loop."""
        loop = asyncio.get_running_loop()
        opening = self._opened.get(loop)
        if opening is None:
            # A task, because the first caller may be cancelled while others wait for the same model.
            opening = self._opened[loop] = loop.create_task(self._open())
        return opening.result() if opening.done() else await asyncio.shield(opening)

    async def close(self) -> None:
        """Close the model of the running event loop; a later call opens it again."""
        opening = self._opened.pop(asyncio.get_running_loop(), None)
        if opening is not None:
            await (await opening).__aexit__(None, None, None)

    async def _open(self) -> Model:
        for loop in [loop for loop in self._opened if loop.is_closed()]:
            stale = self._opened.pop(loop)
            with suppress(Exception):  # its connections were closed with its loop
                await stale.result().__aexit__(None, None, None)
        try:
            model, self._spare = self._spare or self._make(), None
            await model.__aenter__()
        except BaseException:
            # The next caller tries again.
            del self._opened[asyncio.get_running_loop()]
            raise
        return model


Delta = TextDelta | ThinkingDelta


class PydanticAIModel:
    """A model of pydantic-ai. Each call makes exactly one attempt: the caller retries."""

    def __init__(self, make: Callable[[], Model], output: OutputObjectDefinition | None = None) -> None:
        self.clients = Clients(make)
        self._output = output
        self.name = self.clients.example.model_id

    def with_output(self, schema: dict[str, Any], name: str) -> PydanticAIModel:
        """The same model on the same connections, told to answer with JSON of this schema."""
        typed = object.__new__(PydanticAIModel)
        typed.clients, typed.name = self.clients, self.name
        typed._output = OutputObjectDefinition(json_schema=schema, name=name)
        return typed

    async def reply(self, request: Request) -> Reply:
        """Ask once and wait for the whole response; raises ModelError."""
        try:
            async with asyncio.timeout(original(request, "settings").get("request_timeout")):
                whole = await answer(await self._prepared(request))
            return read(whole.response, whole.requests)
        except Exception as error:
            raise model_error(error, self.name, request.agent) from error

    async def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        """Ask once and yield the response in pieces, then whole; raises ModelError."""
        try:
            async with aclosing(self._pieces(request)) as pieces_:
                async for piece in pieces_:
                    yield piece
        except Exception as error:
            raise model_error(error, self.name, request.agent) from error

    def setting_faults(self, settings: Mapping[str, Any]) -> list[str]:
        return setting_faults(self.clients.example, settings)

    @property
    def calls_tools(self) -> bool:
        """False if the profile of the model says that it calls no tools."""
        return bool(self._profile.get("supports_tools", True))

    @property
    def context_window(self) -> int | None:
        """Number of tokens that the model can read at once, as its profile says."""
        return self._profile.get("context_window")

    @property
    def _profile(self) -> ModelProfile:
        try:
            return self.clients.example.profile
        except NotImplementedError:  # a fallback of pydantic-ai's own: each of its models has a profile
            return ModelProfile()

    async def close_clients(self) -> None:
        """Close the connections of the running event loop."""
        await self.clients.close()

    async def _pieces(self, request: Request) -> AsyncGenerator[Delta | Reply]:
        deltas = _Deltas(request)
        limit = original(request, "settings").get("request_timeout")
        due = None if limit is None else asyncio.get_running_loop().time() + limit
        async with aclosing(pieces(await self._prepared(request))) as events:
            while True:
                # Around each step and never across a yield: the time that the reader takes does not count.
                async with asyncio.timeout_at(due):
                    event = await anext(events)
                if isinstance(event, Answer):
                    break
                if (delta := deltas.of(event)) is not None:
                    yield delta
        yield read(event.response, event.requests)

    async def _prepared(self, request: Request) -> Prepared:
        model = await self.clients.current()
        marks = Marks(partial(texts_of, request))
        history = history_for(original(request, "messages"), request.agent, systems_of(model), marks)
        instructions = marks.explained(request.instructions)
        parameters = ModelRequestParameters(
            function_tools=tools_of(request.tools if self.calls_tools else ()),
            instruction_parts=[InstructionPart(content=instructions)] if instructions else None,
            output_object=self._output,
            output_mode=_output_mode(model, self._output),
        )
        messages = model.prepare_messages(history, parameters)
        return Prepared(model, messages, settings_for(model, original(request, "settings")), parameters)


class _Deltas:
    """Turns events of pydantic-ai into deltas; joined, the deltas are the reply's text and thinking."""

    def __init__(self, request: Request) -> None:
        self._place = (request.agent, request.conversation, request.command, request.attempt)
        self._begun: set[type[Delta]] = set()
        self._in_new_part: set[type[Delta]] = set()
        """Kinds that have begun a further part: a gap goes before its first words."""

    def of(self, event: ModelResponseStreamEvent) -> Delta | None:
        match event:
            case PartStartEvent(part=TextPart(content=text)):
                return self._first(TextDelta, text)
            case PartStartEvent(part=ThinkingPart(content=text)):
                return self._first(ThinkingDelta, text)
            case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                return self._next(TextDelta, text)
            case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=str(text))):
                return self._next(ThinkingDelta, text)
            case _:
                return None

    def _first(self, kind: type[Delta], text: str) -> Delta | None:
        if kind in self._begun:
            self._in_new_part.add(kind)
        return self._next(kind, text)

    def _next(self, kind: type[Delta], text: str) -> Delta | None:
        if not text:
            return None
        gap = GAP if kind in self._in_new_part else ""
        self._in_new_part.discard(kind)
        self._begun.add(kind)
        return kind(gap + text, *self._place)


def systems_of(model: Model) -> tuple[str, ...]:
    """The providers whose ids and signatures this model can use: several, if it consists of several models."""
    if isinstance(several := getattr(model, "models", None), list):
        return tuple(system for each in several for system in systems_of(each))
    return (model.system,)


def settings_for(model: Model, settings: Mapping[str, Any]) -> ModelSettings:
    """An agent's settings for the provider, with the retries of the provider's client switched off."""
    own = {key: value for key, value in settings.items() if key != "request_timeout"}
    if "max_retries" not in model.unsupported_settings:
        own["max_retries"] = 0
    return cast(ModelSettings, own)


def _output_mode(model: Model, output: OutputObjectDefinition | None) -> Literal["text", "native", "prompted"]:
    """`native` if the provider supports schemas and the schema is an object, else `prompted`."""
    if output is None:
        return "text"
    native = model.profile.get("supports_json_schema_output", False) and output.json_schema.get("type") == "object"
    return "native" if native else "prompted"


EXTRAS = ("openai", "anthropic", "google", "bedrock")
GROUP = re.compile(r"pydantic-ai-slim\[([\w-]+)\]")
VARIABLE = re.compile(r"`([A-Z][A-Z0-9]*_[A-Z0-9_]+)`")
HINT = re.compile(r"Did you mean '([^']+)'")


def named(name: str) -> PydanticAIModel:
    """The model of this name; raises MisconfiguredError that says what to install, set or write instead."""
    try:
        return PydanticAIModel(partial(_make, name))
    except ImportError as error:
        fault = f"whose provider is not installed: {_install(str(error))}"
    except UserError as error:
        fault = _missing(str(error))
    except Exception as error:
        # Each provider's client raises errors of its own.
        fault = f"which cannot be used: {(str(error) or type(error).__name__).splitlines()[0]}"
    raise MisconfiguredError(f"model={name!r}, {fault}")


def _make(name: str) -> Model:
    if name.startswith("bedrock:"):
        return infer_model(name, _bedrock)
    return infer_model(name)


def _bedrock(_: str) -> Provider[Any]:
    """A provider without retries: the client of Bedrock takes no such setting per request."""
    from pydantic_ai.providers.bedrock import BedrockProvider

    # By name: both are untyped, and installed only with the provider, whose import error is the clearer one.
    boto3, config = import_module("boto3"), import_module("botocore.config")
    if not (region := boto3.Session().region_name):
        raise UserError("`AWS_DEFAULT_REGION`")
    # The same timeout as pydantic-ai's own client.
    once = config.Config(retries={"total_max_attempts": 1}, read_timeout=float(os.getenv("AWS_READ_TIMEOUT", "300")))
    return BedrockProvider(bedrock_client=boto3.client("bedrock-runtime", region_name=region, config=once))


def _install(error: str) -> str:
    group = GROUP.search(error)
    if group is None:
        return error
    package = "changeover" if group[1] in EXTRAS else "pydantic-ai-slim"
    return f"pip install '{package}[{group[1]}]'"


def _missing(error: str) -> str:
    if variables := VARIABLE.findall(error):
        return f"which needs the environment variable {' or '.join(dict.fromkeys(variables))}"
    if error.startswith("Unknown model"):
        hint = HINT.search(error)
        meant = f"did you mean {hint[1]!r}?" if hint else "write provider:model, such as 'openai:gpt-5'"
        return f"which names no known provider; {meant}"
    return f"which cannot be used: {error}"
