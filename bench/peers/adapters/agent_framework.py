"""Microsoft Agent Framework: a workflow of `HandoffBuilder`, `FileCheckpointStorage`.

A workflow keeps its conversation, so each run builds one of shared agents.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FileCheckpointStorage,
    FunctionInvocationLayer,
    Message,
)
from agent_framework.observability import ChatTelemetryLayer
from agent_framework.orchestrations import HandoffAgentUserRequest, HandoffBuilder

from bench import ring


class Scripted(FunctionInvocationLayer, ChatMiddlewareLayer, ChatTelemetryLayer, BaseChatClient):
    """The layers of the library's own OpenAI client; without ChatMiddlewareLayer no history is loaded."""

    def __init__(self, agent: str) -> None:
        super().__init__()
        self._agent = agent

    def _inner_get_response(self, *, messages, stream, options, **more):
        return self._reply()

    async def _reply(self) -> ChatResponse:
        target = await ring.decide(self._agent)
        id = ring.call_id()
        if target is None:
            content = Content.from_text(ring.ANSWER)
        else:
            content = Content.from_function_call(call_id=id, name=f"handoff_to_{target}", arguments="{}")
        return ChatResponse(messages=[Message(role="assistant", contents=[content])], response_id=id)


AGENTS = {
    name: Agent(
        client=Scripted(name),
        id=name,
        name=name,
        instructions=ring.INSTRUCTIONS,
        require_per_service_call_history_persistence=True,
    )
    for name in ring.RING
}


def answered(messages) -> bool:
    return any(message.role == "assistant" and ring.ANSWER in message.text for message in messages[-1:])


def workflow(storage=None, ends=answered):
    builder = HandoffBuilder(participants=list(AGENTS.values()), name="ring").with_start_agent(AGENTS[ring.RING[0]])
    for name, agent in AGENTS.items():
        builder = builder.add_handoff(agent, [AGENTS[ring.NEXT[name]]])
    if ends:
        builder = builder.with_termination_condition(ends)
    if storage:
        builder = builder.with_checkpointing(storage)
    return builder.build()


def text_of(result) -> str:
    output = result.get_outputs()[-1]
    return getattr(output, "text", output)


class Contender:
    def __init__(self) -> None:
        self._long: Any = None
        self._pending = ""

    async def relay(self) -> str:
        return text_of(await workflow().run(ring.ASKED))

    async def open(self, folder: Path) -> None:
        self._folder = folder

    def _storage(self, conversation: str) -> FileCheckpointStorage:
        # Without this type the storage refuses every checkpoint of a waiting conversation, and only logs it.
        return FileCheckpointStorage(self._folder / conversation, allowed_checkpoint_types=["types:GenericAlias"])

    async def durable(self, conversation: str) -> str:
        return text_of(await workflow(self._storage(conversation)).run(ring.ASKED))

    async def turn(self, text: str) -> str:
        if self._long is None:
            self._long = workflow(self._storage("long"), ends=None)
            # Its limit of 100 supersteps counts over the whole conversation and has no public setting.
            self._long._runner._max_iterations = 10**9
            result = await self._long.run(text)
        else:
            said = {self._pending: HandoffAgentUserRequest.create_response(text)}
            result = await self._long.run(responses=said)
        self._pending = result.get_request_info_events()[-1].request_id
        return text_of(result)

    async def resume(self, conversation: str) -> str:
        storage = self._storage(conversation)
        again = workflow(storage)
        kept = await storage.list_checkpoints(workflow_name=again.name)
        last = max(kept, key=lambda checkpoint: checkpoint.timestamp)
        return text_of(await again.run(checkpoint_id=last.checkpoint_id))

    async def close(self) -> None:
        pass
