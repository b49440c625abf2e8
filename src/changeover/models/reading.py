"""From their messages to ours: a provider's response becomes a Reply."""

from __future__ import annotations

import json
from typing import Any

from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart

from changeover.errors import ModelError
from changeover.facts import Usage
from changeover.messages import Call, Reply
from changeover.models.keeping import joined, kept
from changeover.models.prices import cost_of

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
