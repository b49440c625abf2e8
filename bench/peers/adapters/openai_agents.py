"""OpenAI Agents: `handoffs=[…]`, `SQLiteSession`; tracing is off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agents import Agent, RunConfig, Runner, SQLiteSession, Usage, set_tracing_disabled
from agents.items import ModelResponse
from agents.models.interface import Model
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from bench import ring

set_tracing_disabled(True)
CONFIG = RunConfig(tracing_disabled=True)


class Scripted(Model):
    def __init__(self, agent: str) -> None:
        self._agent = agent

    async def get_response(self, *args, **options) -> ModelResponse:
        target = await ring.decide(self._agent)
        id = ring.call_id()
        output: ResponseOutputMessage | ResponseFunctionToolCall
        if target is None:
            text = ResponseOutputText(text=ring.ANSWER, type="output_text", annotations=[])
            output = ResponseOutputMessage(
                id=f"msg_{id}", type="message", role="assistant", status="completed", content=[text]
            )
        else:
            output = ResponseFunctionToolCall(
                id=f"fc_{id}", call_id=id, type="function_call", name=f"transfer_to_{target}", arguments="{}"
            )
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *args, **options):
        raise NotImplementedError


AGENTS = {name: Agent(name=name, instructions=ring.INSTRUCTIONS, model=Scripted(name)) for name in ring.RING}
for name, agent in AGENTS.items():
    agent.handoffs = [AGENTS[ring.NEXT[name]]]
FIRST = AGENTS[ring.RING[0]]


async def answer(asked: str | list[Any], session: SQLiteSession | None = None) -> str:
    result = await Runner.run(FIRST, asked, session=session, run_config=CONFIG, max_turns=1_000)
    return result.final_output


class Contender:
    async def relay(self) -> str:
        return await answer(ring.ASKED)

    async def open(self, folder: Path) -> None:
        self._path = folder / "sessions.db"
        self._long = SQLiteSession("long", self._path)

    async def durable(self, conversation: str) -> str:
        session = SQLiteSession(conversation, self._path)
        output = await answer(ring.ASKED, session)
        session.close()
        return output

    async def turn(self, text: str) -> str:
        return await answer(text, self._long)

    async def resume(self, conversation: str) -> str:
        # A session holds messages and not the active agent, and no call continues a run: the first agent gets no input.
        return await answer([], SQLiteSession(conversation, self._path))

    async def close(self) -> None:
        self._long.close()
