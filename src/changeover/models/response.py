"""A provider's response: continued while it is suspended, converted to a Reply with its cost, and restored later.

The message stores texts and calls. The stored parts of a response only refer to them, so nothing is stored twice; parts
of any other kind are stored whole.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from pydantic import ValidationError
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    ModelResponseStreamEvent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from changeover.errors import ModelError
from changeover.facts import Usage
from changeover.messages import Assistant, Call, Reply

MOST_SEGMENTS = 10
"""A response that takes more requests than this is given up."""
MOST_POLLS = 1000


@dataclass(frozen=True)
class Prepared:
    """A request that is ready for pydantic-ai."""

    model: Model
    messages: list[ModelMessage]
    settings: ModelSettings
    parameters: ModelRequestParameters


@dataclass(frozen=True)
class Answer:
    """The whole response, and the number of requests it took."""

    response: ModelResponse
    requests: int = 1


async def answer(prepared: Prepared) -> Answer:
    """Send the request, and continue while the response is suspended."""
    response = await prepared.model.request(prepared.messages, prepared.settings, prepared.parameters)
    if response.state != "suspended":
        return Answer(response)
    continuation = _Continuation(prepared, response)
    while continuation.response.state == "suspended":
        async with _CancelledOnError(continuation):
            messages = await continuation.next_messages()
            continuation.add(await prepared.model.request(messages, prepared.settings, prepared.parameters))
    return Answer(continuation.response, continuation.requests)


async def pieces(prepared: Prepared) -> AsyncGenerator[ModelResponseStreamEvent | Answer]:
    """The stream events of every segment of the response, then the whole response."""
    continuation: _Continuation | None = None
    while continuation is None or continuation.response.state == "suspended":
        async with _CancelledOnError(continuation):
            messages = await continuation.next_messages() if continuation else prepared.messages
            async with prepared.model.request_stream(messages, prepared.settings, prepared.parameters) as stream:
                async for event in stream:
                    yield event
                segment = stream.get()
            if segment.state in ("incomplete", "interrupted"):
                raise UnexpectedModelBehavior("its stream broke off before the end")
        if continuation is None:
            continuation = _Continuation(prepared, segment)
        else:
            continuation.add(segment)
    yield Answer(continuation.response, continuation.requests)


class _Continuation:
    """A response that was suspended at least once, with the segments received so far."""

    def __init__(self, prepared: Prepared, first: ModelResponse) -> None:
        self.prepared, self.response = prepared, first
        self.requests = 1
        self._polls = 0

    async def next_messages(self) -> list[ModelMessage]:
        """The messages that resume the response, after the delay that its provider asks for."""
        if self.requests > MOST_SEGMENTS or self._polls > MOST_POLLS:
            raise UnexpectedModelBehavior(f"its response was suspended again and again ({self.requests} times)")
        await asyncio.sleep(self.prepared.model.continuation_delay(self.response) or 0)
        return [*self.prepared.messages, self.response]

    def add(self, segment: ModelResponse) -> None:
        """Add a segment: one with the same id replaces the response, any other one extends it."""
        before, id = self.response, segment.provider_response_id
        if id and id == before.provider_response_id:
            self._polls += 1
            self.response = segment
            return
        self.requests += 1
        self.response = replace(segment, parts=[*before.parts, *segment.parts], usage=before.usage + segment.usage)


class _CancelledOnError:
    """Cancels a suspended response at its provider if an error ends this call."""

    def __init__(self, continuation: _Continuation | None) -> None:
        self._continuation = continuation

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self._continuation is not None:
            with suppress(Exception):
                await self._continuation.prepared.model.cancel_suspended_response(self._continuation.response)


GAP = "\n\n"
"""Separates two parts of a text."""
KEPT_FIELDS = ("model_name", "provider_url", "canonical_system", "provider_details", "provider_response_id")
DROPPED_DETAILS = ("finish_reason", "timestamp")
"""Provider details that no provider needs back."""
TEXTS = ("text", "thinking")
CALL_FIELDS = {"tool_name", "args", "tool_call_id"}


def kept(response: ModelResponse) -> dict[str, Any]:
    """The data of this response that its provider needs back, under its name; empty if texts and calls are enough."""
    if response.provider_name is None or _plain(response):
        return {}
    dumped = ModelMessagesTypeAdapter.dump_python([response], mode="json")[0]
    about = {key: dumped[key] for key in KEPT_FIELDS if dumped.get(key) is not None}
    about["provider_details"] = {
        key: value for key, value in about.get("provider_details", {}).items() if key not in DROPPED_DETAILS
    }
    calls = 0
    parts = []
    for part in dumped["parts"]:
        parts.append(_referring(part, calls))
        calls += part["part_kind"] == "tool-call"
    return {response.provider_name: {**about, "parts": parts}}


def restored(message: Assistant, systems: Collection[str]) -> ModelResponse | None:
    """The response as its provider sent it; None if it came from another provider or cannot be read any more."""
    for system in systems:
        if isinstance(about := message.extra.get(system), dict):
            try:
                parts = _filled(message, about["parts"])
                response = {"kind": "response", "provider_name": system, **about, "parts": parts}
                read = ModelMessagesTypeAdapter.validate_json(msgspec.json.encode([response]))[0]
            except (KeyError, IndexError, TypeError, ValidationError):
                continue
            return read if isinstance(read, ModelResponse) else None
    return None


def _plain(response: ModelResponse) -> bool:
    """True if it is one text, then calls, without provider-specific data."""
    for index, part in enumerate(response.parts):
        match part:
            case TextPart(id=None, provider_details=None, citations=None) if index == 0:
                continue
            case ToolCallPart(id=None, provider_details=None, tool_kind=None):
                continue
            case _:
                return False
    return True


def _referring(part: dict[str, Any], call: int) -> dict[str, Any]:
    """The part without what the message already stores."""
    kind = part["part_kind"]
    known = CALL_FIELDS if kind == "tool-call" else {"content"} if kind in TEXTS else set()
    rest = {key: value for key, value in part.items() if value is not None and key not in known}
    if kind in TEXTS:
        return {**rest, "size": len(part["content"])}
    return {**rest, "call": call} if kind == "tool-call" else rest


def _filled(message: Assistant, parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The parts with texts and calls restored from the message."""
    texts = {"text": _Pieces(message.text), "thinking": _Pieces(message.thinking)}
    filled = []
    for part in parts:
        restored_fields: dict[str, Any] = {}
        if (kind := part["part_kind"]) in TEXTS:
            restored_fields = {"content": texts[kind].next(part["size"])}
        elif kind == "tool-call":
            call = message.calls[part["call"]]
            restored_fields = {"tool_name": call.name, "args": call.malformed or call.args, "tool_call_id": call.id}
        filled.append({key: value for key, value in part.items() if key not in ("size", "call")} | restored_fields)
    return filled


class _Pieces:
    """Cuts a text into the parts that it was joined from."""

    def __init__(self, text: str) -> None:
        self._text, self._end = text, 0

    def next(self, size: int) -> str:
        start = self._end + (len(GAP) if self._end and size else 0)
        self._end = start + size if size else self._end
        return self._text[start : start + size]


def joined(parts: list[TextPart] | list[ThinkingPart]) -> str:
    """The contents of these parts as one text."""
    return GAP.join(part.content for part in parts if part.content)


def cost_of(response: ModelResponse) -> float | None:
    """Cost in US dollars, as reported by the provider or by its price list; None if neither is known."""
    usage = response.usage
    if usage.cost is not None:
        return float(usage.cost)
    # Without reported tokens the computed price would be 0, which is wrong.
    if not response.model_name or not usage.has_values():
        return None
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError):
        return None


EMPTY_REASONS = {
    "content_filter": "the provider's content filter withheld its reply; word the request differently",
    "length": "it used up max_tokens before it wrote anything; allow more in Agent(settings=…), or less thinking",
}
"""Finish reasons of an empty response that was cut short, with advice."""


def read(response: ModelResponse, requests: int = 1) -> Reply:
    """The response as a Reply; raises ModelError if it is empty because it was cut short."""
    reply = Reply(
        text=joined([part for part in response.parts if isinstance(part, TextPart)]),
        thinking=joined([part for part in response.parts if isinstance(part, ThinkingPart)]),
        calls=tuple(_call(part) for part in response.parts if type(part) is ToolCallPart),
        usage=Usage(response.usage.input_tokens, response.usage.output_tokens, requests, cost_of(response)),
        extra=kept(response),
    )
    if not reply.text and not reply.calls and (why := EMPTY_REASONS.get(response.finish_reason or "")):
        raise ModelError(why, retryable=False)
    return reply


def _call(part: ToolCallPart) -> Call:
    args, malformed = _arguments(part.args)
    return Call(part.tool_call_id, part.tool_name, args, malformed)


def _arguments(args: str | dict[str, Any] | None) -> tuple[dict[str, Any], str]:
    """The arguments, or the model's text if it is not a JSON object."""
    if not args:
        return {}, ""
    try:
        # An object is encoded and decoded too: the log holds plain JSON values, and no NaN.
        decoded = json.loads(args if isinstance(args, str) else json.dumps(args), parse_constant=_refuse)
    except ValueError:
        return {}, str(args)
    return (decoded, "") if isinstance(decoded, dict) else ({}, str(args))


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
