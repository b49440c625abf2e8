"""A provider's response: continued while it is suspended, read as a Reply with its cost, and kept for the next request.

Texts and calls are stored in the message itself. A kept part only refers to them, so nothing is stored twice; parts of
a kind that has no field of ours are kept whole.
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
"""A model that pauses more often than this gets nowhere."""
MOST_POLLS = 1000


@dataclass(frozen=True)
class Asked:
    """What a model of theirs is asked."""

    model: Model
    messages: list[ModelMessage]
    settings: ModelSettings
    parameters: ModelRequestParameters


@dataclass(frozen=True)
class Answer:
    """The whole response, and how many requests it took."""

    response: ModelResponse
    requests: int = 1


async def answer(asked: Asked) -> Answer:
    """Ask, and ask again while the response is suspended."""
    response = await asked.model.request(asked.messages, asked.settings, asked.parameters)
    if response.state != "suspended":
        return Answer(response)
    course = _Course(asked, response)
    while course.response.state == "suspended":
        async with _AbandonedOnError(course):
            messages = await course.next_messages()
            course.add(await asked.model.request(messages, asked.settings, asked.parameters))
    return Answer(course.response, course.requests)


async def pieces(asked: Asked) -> AsyncGenerator[ModelResponseStreamEvent | Answer]:
    """The events of the response as it comes, of every segment, and the whole of it at the end."""
    course: _Course | None = None
    while course is None or course.response.state == "suspended":
        async with _AbandonedOnError(course):
            messages = await course.next_messages() if course else asked.messages
            async with asked.model.request_stream(messages, asked.settings, asked.parameters) as stream:
                async for event in stream:
                    yield event
                segment = stream.get()
            if segment.state in ("incomplete", "interrupted"):
                raise UnexpectedModelBehavior("its stream broke off before the end")
        if course is None:
            course = _Course(asked, segment)
        else:
            course.add(segment)
    yield Answer(course.response, course.requests)


class _Course:
    """A response that was suspended at least once, as far as it has come."""

    def __init__(self, asked: Asked, first: ModelResponse) -> None:
        self.asked, self.response = asked, first
        self.requests = 1
        self._polls = 0

    async def next_messages(self) -> list[ModelMessage]:
        """What resumes the response, when its provider wants to be asked again."""
        if self.requests > MOST_SEGMENTS or self._polls > MOST_POLLS:
            raise UnexpectedModelBehavior(f"its response was suspended again and again ({self.requests} times)")
        await asyncio.sleep(self.asked.model.continuation_delay(self.response) or 0)
        return [*self.asked.messages, self.response]

    def add(self, segment: ModelResponse) -> None:
        """A segment of the same id is the same job, further on; any other one is what comes after."""
        before, id = self.response, segment.provider_response_id
        if id and id == before.provider_response_id:
            self._polls += 1
            self.response = segment
            return
        self.requests += 1
        self.response = replace(segment, parts=[*before.parts, *segment.parts], usage=before.usage + segment.usage)


class _AbandonedOnError:
    """Tells the provider to stop working on a suspended response that nobody will fetch."""

    def __init__(self, course: _Course | None) -> None:
        self._course = course

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self._course is not None:
            with suppress(Exception):
                await self._course.asked.model.cancel_suspended_response(self._course.response)


GAP = "\n\n"
"""Between two parts of a text."""
ABOUT = ("model_name", "provider_url", "canonical_system", "provider_details", "provider_response_id")
REPORTED = ("finish_reason", "timestamp")
"""Details that are only told, and that no provider asks for."""
TEXTS = ("text", "thinking")
CALL = {"tool_name", "args", "tool_call_id"}


def kept(response: ModelResponse) -> dict[str, Any]:
    """What has to be kept of this response under its provider's name; nothing if text and calls are all there is."""
    if response.provider_name is None or _plain(response):
        return {}
    dumped = ModelMessagesTypeAdapter.dump_python([response], mode="json")[0]
    about = {key: dumped[key] for key in ABOUT if dumped.get(key) is not None}
    about["provider_details"] = {
        key: value for key, value in about.get("provider_details", {}).items() if key not in REPORTED
    }
    calls = 0
    parts = []
    for part in dumped["parts"]:
        parts.append(_referring(part, calls))
        calls += part["part_kind"] == "tool-call"
    return {response.provider_name: {**about, "parts": parts}}


def restored(message: Assistant, systems: Collection[str]) -> ModelResponse | None:
    """The response as its provider gave it; None if it came from another one, or cannot be read any more."""
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
    """Whether it is a text, then calls, and nothing that a provider would miss."""
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
    """The part without what the message says already."""
    kind = part["part_kind"]
    known = CALL if kind == "tool-call" else {"content"} if kind in TEXTS else set()
    rest = {key: value for key, value in part.items() if value is not None and key not in known}
    if kind in TEXTS:
        return {**rest, "size": len(part["content"])}
    return {**rest, "call": call} if kind == "tool-call" else rest


def _filled(message: Assistant, parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The parts with what the message says put back."""
    texts = {"text": _Pieces(message.text), "thinking": _Pieces(message.thinking)}
    filled = []
    for part in parts:
        said: dict[str, Any] = {}
        if (kind := part["part_kind"]) in TEXTS:
            said = {"content": texts[kind].next(part["size"])}
        elif kind == "tool-call":
            call = message.calls[part["call"]]
            said = {"tool_name": call.name, "args": call.malformed or call.args, "tool_call_id": call.id}
        filled.append({key: value for key, value in part.items() if key not in ("size", "call")} | said)
    return filled


class _Pieces:
    """A text that was joined from parts, cut where they met."""

    def __init__(self, text: str) -> None:
        self._text, self._end = text, 0

    def next(self, size: int) -> str:
        start = self._end + (len(GAP) if self._end and size else 0)
        self._end = start + size if size else self._end
        return self._text[start : start + size]


def joined(parts: list[TextPart] | list[ThinkingPart]) -> str:
    """Parts of a text as one."""
    return GAP.join(part.content for part in parts if part.content)


def cost_of(response: ModelResponse) -> float | None:
    """In US dollars, by the provider's own word or by its price list; None, and not 0, if neither is known."""
    usage = response.usage
    if usage.cost is not None:
        return float(usage.cost)
    # Where no tokens were reported, a price of 0 would only look like one.
    if not response.model_name or not usage.has_values():
        return None
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError):
        return None


SILENCED = {
    "content_filter": "the provider's content filter withheld its reply; word the request differently",
    "length": "it used up max_tokens before it said anything; allow more in Agent(settings=…), or less thinking",
}
"""Why a response may be empty although the model was not done, and what to do."""


def read(response: ModelResponse, requests: int = 1) -> Reply:
    """Their response as a Reply; raises ModelError if the model was kept from saying anything."""
    reply = Reply(
        text=joined([part for part in response.parts if isinstance(part, TextPart)]),
        thinking=joined([part for part in response.parts if isinstance(part, ThinkingPart)]),
        calls=tuple(_call(part) for part in response.parts if type(part) is ToolCallPart),
        usage=Usage(response.usage.input_tokens, response.usage.output_tokens, requests, cost_of(response)),
        extra=kept(response),
    )
    if not reply.text and not reply.calls and (why := SILENCED.get(response.finish_reason or "")):
        raise ModelError(why, retryable=False)
    return reply


def _call(part: ToolCallPart) -> Call:
    args, malformed = _arguments(part.args)
    return Call(part.tool_call_id, part.tool_name, args, malformed)


def _arguments(args: str | dict[str, Any] | None) -> tuple[dict[str, Any], str]:
    """The arguments, or what the model wrote instead of an object."""
    if not args:
        return {}, ""
    try:
        # Decoded anew also when it is an object: nothing of theirs, and no NaN, may get into the log.
        decoded = json.loads(args if isinstance(args, str) else json.dumps(args), parse_constant=_refuse)
    except ValueError:
        return {}, str(args)
    return (decoded, "") if isinstance(decoded, dict) else ({}, str(args))


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
