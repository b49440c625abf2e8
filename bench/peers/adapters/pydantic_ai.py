"""Pydantic AI: an output type of one agent names the next, and the application runs it.

The library has no handoff and no store: the application keeps the messages, here in a JSON file that is written after
each agent.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel
from pydantic_ai import Agent, ModelMessage, ModelMessagesTypeAdapter
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.output import ToolOutput

from bench import ring


class Handoff(BaseModel):
    target: str
    reason: str


def member(name: str) -> Agent[None, Handoff | str]:
    async def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        target = await ring.decide(name)
        if target is None:
            return ModelResponse(parts=[TextPart(ring.ANSWER)])
        args = {"target": target, "reason": ring.REASON}
        return ModelResponse(parts=[ToolCallPart("handoff", args, tool_call_id=ring.call_id())])

    output = [ToolOutput(Handoff, name="handoff"), str]
    return Agent(FunctionModel(model), instructions=ring.INSTRUCTIONS, output_type=output, name=name)


AGENTS = {name: member(name) for name in ring.RING}


class Contender:
    def __init__(self) -> None:
        self._folder: Path | None = None
        self._long: list[ModelMessage] = []

    async def _answer(self, text: str | None, history: list[ModelMessage], conversation: str) -> str:
        agent = ring.RING[0]
        while True:
            result = await AGENTS[agent].run(text, message_history=history)
            history[:], text = result.all_messages(), None
            if self._folder:
                self._write(history, self._folder / f"{conversation}.json")
            if isinstance(result.output, str):
                return result.output
            agent = result.output.target

    def _write(self, history: list[ModelMessage], path: Path) -> None:
        fresh = path.with_suffix(".tmp")
        fresh.write_bytes(ModelMessagesTypeAdapter.dump_json(history))
        fresh.replace(path)

    async def relay(self) -> str:
        return await self._answer(ring.ASKED, [], "")

    async def open(self, folder: Path) -> None:
        self._folder = folder

    async def durable(self, conversation: str) -> str:
        return await self._answer(ring.ASKED, [], conversation)

    async def turn(self, text: str) -> str:
        return await self._answer(text, self._long, "long")

    async def resume(self, conversation: str) -> str:
        assert self._folder
        kept = ModelMessagesTypeAdapter.validate_json((self._folder / f"{conversation}.json").read_bytes())
        return await self._answer(None, kept, conversation)

    async def close(self) -> None:
        pass
