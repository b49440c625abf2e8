"""One call of a model, however many requests it takes: a response that is suspended is continued here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, replace

from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import ModelMessage, ModelResponse, ModelResponseStreamEvent
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings

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
