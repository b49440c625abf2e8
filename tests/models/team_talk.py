"""Runs a team, plain or streamed, and returns everything that came back."""

from dataclasses import dataclass
from typing import Any

from google.genai import Client
from google.genai.types import HttpOptions
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.providers.google import GoogleProvider

from changeover import RunResult, Team
from changeover.relay.events import ModelFailed, ModelReplied
from changeover.stream import RunFinished, TextDelta, ThinkingDelta
from tests.models.aimock import Server

NAMES = {
    "chat": "openai-chat:gpt-4o",
    "responses": "openai:gpt-5",
    "anthropic": "anthropic:claude-sonnet-4-6",
}


def google(server: Server) -> tuple[GoogleModel, Client]:
    """A model made by hand, and its client, which the caller has to close."""
    # The server knows the older address only, which a name cannot ask for.
    options = HttpOptions(api_version="v1beta", base_url=server.url)
    client = Client(vertexai=False, api_key="any", http_options=options)
    return GoogleModel("gemini-2.5-pro", provider=GoogleProvider(client=client)), client


@dataclass(frozen=True)
class Talk:
    """What came of one message."""

    result: RunResult
    replies: list[ModelReplied]
    failures: list[ModelFailed]
    text: list[TextDelta]
    thinking: list[ThinkingDelta]


async def talk(team: Team, text: str, way: str, **options: Any) -> Talk:
    """Say something in this way, and wait for the end of it."""
    if way == "plain":
        result, seen = await team.run(text, **options), []
    else:
        *seen, last = [item async for item in team.stream(text, **options)]
        assert isinstance(last, RunFinished)
        result = last.result
    texts = [item for item in seen if isinstance(item, TextDelta)]
    thoughts = [item for item in seen if isinstance(item, ThinkingDelta)]
    events = [recorded.event for recorded in await team.history(result.conversation_id)]
    replies = [event for event in events if isinstance(event, ModelReplied)]
    return Talk(result, replies, [event for event in events if isinstance(event, ModelFailed)], texts, thoughts)
