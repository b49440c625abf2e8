"""Models for tests: of our port, and of pydantic-ai."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import CompletedStreamedResponse, Model, ModelRequestParameters, StreamedResponse

from changeover.errors import ModelError
from changeover.messages import Message, Reply, User
from changeover.relay.ports.world import Request
from changeover.relay.stream import TextDelta, ThinkingDelta
from changeover.tools.tool import ToolDefinition


def request(*messages: Message, tools: tuple[ToolDefinition, ...] = (), **settings: Any) -> Request:
    """A request of the agent "a", as the core makes them."""
    return Request(
        agent="a",
        instructions="You are a.",
        messages=messages or (User("Hello"),),
        tools=tools,
        settings=settings,
        conversation="c",
        command="1",
        attempt=1,
        turn=0,
    )


class Counting:
    """A model of ours that notices how many ask it at once."""

    def __init__(self) -> None:
        self.now = self.most = 0

    async def reply(self, request: Request) -> Reply:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.01)
        self.now -= 1
        return Reply(text="Hi")

    async def stream(self, request: Request) -> AsyncIterator[TextDelta | ThinkingDelta | Reply]:
        yield TextDelta("Hi")
        yield await self.reply(request)


class Failing:
    """A model of ours that fails, perhaps after a few words."""

    def __init__(self, error: ModelError, *words: str) -> None:
        self._error, self._words = error, words

    async def reply(self, request: Request) -> Reply:
        raise self._error

    async def stream(self, request: Request) -> AsyncIterator[TextDelta | ThinkingDelta | Reply]:
        for word in self._words:
            yield TextDelta(word)
        raise self._error


class Told(Model):
    """A model of theirs that gives these responses one after the other, and keeps what it was asked."""

    def __init__(self, *responses: ModelResponse | Exception) -> None:
        super().__init__()
        self._left = list(responses)
        self.asked: list[Sequence[ModelMessage]] = []
        self.settings_given: list[Any] = []
        self.cancelled: list[ModelResponse] = []

    @property
    def model_name(self) -> str:
        return "told"

    @property
    def system(self) -> str:
        return "stand-in"

    async def request(
        self, messages: list[ModelMessage], model_settings: Any, model_request_parameters: ModelRequestParameters
    ) -> ModelResponse:
        self.asked.append(messages)
        self.settings_given.append(model_settings)
        response = self._left.pop(0)
        if isinstance(response, Exception):
            raise response
        return response

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: Any,
        model_request_parameters: ModelRequestParameters,
        run_context: Any = None,
    ) -> AsyncIterator[StreamedResponse]:
        response = await self.request(messages, model_settings, model_request_parameters)
        yield CompletedStreamedResponse(response, model_request_parameters=model_request_parameters, replay_events=True)

    async def cancel_suspended_response(self, response: ModelResponse) -> None:
        self.cancelled.append(response)
