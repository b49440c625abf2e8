"""The time that the adapter adds to a model call, compared with the provider's client and with pydantic-ai."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from bench.measure import Figure, alternated, ratio
from bench.ring import ANSWER, ASKED, INSTRUCTIONS, REASON
from changeover.messages import Assistant, Call, Message, ToolResult, User
from changeover.models.provider import PydanticAIModel
from changeover.models.request import history_for, tools_of
from changeover.relay.ports.world import Request
from changeover.tools.tool import ToolDefinition

NAME = "gpt-4o"
TURNS = 10
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOLS = (ToolDefinition("look", "Look up a number.", SCHEMA),)
REPLY = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1_750_000_000,
    "model": NAME,
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": ANSWER}}],
    "usage": {"prompt_tokens": 500, "completion_tokens": 20, "total_tokens": 520},
}


async def adapter() -> list[Figure]:
    """One call on threads of several lengths, answered in memory, so that only the layers are measured."""
    from pydantic_ai.messages import InstructionPart
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    client = _client()
    theirs = OpenAIChatModel(NAME, provider=OpenAIProvider(openai_client=client))
    ours = PydanticAIModel(lambda: theirs)
    request = _request()
    history = history_for(request.messages, "front", ())
    parameters = ModelRequestParameters(
        function_tools=tools_of(TOOLS), instruction_parts=[InstructionPart(content=INSTRUCTIONS)]
    )
    wire, tools = _wire(request.messages), _wire_tools()
    taken = await alternated(
        {
            "client": (lambda: client.chat.completions.create(model=NAME, messages=wire, tools=tools), 60),
            "layer": (lambda: theirs.request(history, None, parameters), 60),
            "adapter": (lambda: ours.reply(request), 60),
        }
    )
    await client.close()
    note = f"{taken['adapter'].least * 1e6:.0f} µs a call"
    return [
        ratio("adapter / pydantic-ai's layer", taken["adapter"], taken["layer"], 1.4, note),
        ratio("adapter / openai's client", taken["adapter"], taken["client"], 1.5),
    ]


def _client() -> Any:
    """OpenAI's client with a transport that answers in memory."""
    import httpx2
    from openai import AsyncOpenAI

    body = json.dumps(REPLY).encode()
    headers = {"content-type": "application/json"}
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, content=body, headers=headers))
    return AsyncOpenAI(api_key="any", max_retries=0, http_client=httpx2.AsyncClient(transport=transport))


def _request() -> Request:
    return Request(
        agent="front",
        instructions=INSTRUCTIONS,
        messages=[message for index in range(TURNS) for message in _turn(index)] + [User(ASKED)],
        tools=TOOLS,
        settings={},
        conversation="c",
        command="1",
        attempt=1,
        turn=0,
    )


def _turn(index: int) -> list[Message]:
    call = Call(f"call_{index}", "look", {"n": index})
    own = Assistant("front", REASON, calls=(call,))
    return [User(ASKED), own, ToolResult(call.id, "look", "front", "21"), Assistant("front", ANSWER)]


def _wire(messages: Sequence[Message]) -> list[Any]:
    """The same thread in the format of the API."""
    wire: list[Any] = [{"role": "system", "content": INSTRUCTIONS}]
    for message in messages:
        match message:
            case Assistant(calls=()):
                wire.append({"role": "assistant", "content": message.text})
            case Assistant(calls=(call,)):
                function = {"name": call.name, "arguments": json.dumps(call.args)}
                made = [{"id": call.id, "type": "function", "function": function}]
                wire.append({"role": "assistant", "content": message.text, "tool_calls": made})
            case ToolResult():
                wire.append({"role": "tool", "tool_call_id": message.call, "content": message.text})
            case _:
                wire.append({"role": "user", "content": message.text})
    return wire


def _wire_tools() -> list[Any]:
    tool = TOOLS[0]
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return [{"type": "function", "function": function}]
