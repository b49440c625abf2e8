"""LangGraph: `create_agent` and langgraph-swarm, `AsyncSqliteSaver` with the default durability; tracing is off."""

from __future__ import annotations

import os
from pathlib import Path

os.environ["LANGSMITH_TRACING"] = os.environ["LANGCHAIN_TRACING_V2"] = "false"

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph_swarm import create_handoff_tool, create_swarm

from bench import ring


class Scripted(BaseChatModel):
    agent: str

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools, **options):
        return self

    def _generate(self, *args, **options):
        raise NotImplementedError

    async def _agenerate(self, messages, stop=None, run_manager=None, **options) -> ChatResult:
        target = await ring.decide(self.agent)
        call = {"name": f"transfer_to_{target}", "args": {}, "id": ring.call_id()}
        message = AIMessage(ring.ANSWER) if target is None else AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


def member(name: str):
    tools = [create_handoff_tool(agent_name=ring.NEXT[name])]
    return create_agent(Scripted(agent=name), tools, system_prompt=ring.INSTRUCTIONS, name=name)


SWARM = create_swarm([member(name) for name in ring.RING], default_active_agent=ring.RING[0])


class Contender:
    def __init__(self) -> None:
        self._app = SWARM.compile()

    async def _answer(self, text: str | None, thread: str | None = None) -> str:
        config = {"recursion_limit": 1_000, "configurable": {"thread_id": thread} if thread else {}}
        state = await self._app.ainvoke({"messages": [("user", text)]} if text else None, config)
        return state["messages"][-1].content

    async def relay(self) -> str:
        return await self._answer(ring.ASKED)

    async def open(self, folder: Path) -> None:
        self._saver = AsyncSqliteSaver.from_conn_string(str(folder / "checkpoints.db"))
        checkpointer = await self._saver.__aenter__()
        await checkpointer.setup()
        self._app = SWARM.compile(checkpointer=checkpointer)

    async def durable(self, conversation: str) -> str:
        return await self._answer(ring.ASKED, conversation)

    async def turn(self, text: str) -> str:
        return await self._answer(text, "long")

    async def resume(self, conversation: str) -> str:
        return await self._answer(None, conversation)

    async def close(self) -> None:
        await self._saver.__aexit__(None, None, None)
