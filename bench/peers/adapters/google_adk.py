"""Google ADK: a tree of `LlmAgent` with transfers, `DatabaseSessionService` on SQLite."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import DatabaseSessionService, InMemorySessionService
from google.genai import types

from bench import ring

APP = {"app_name": "ring", "user_id": "u"}
CONFIG = RunConfig(max_llm_calls=10_000)


class Scripted(BaseLlm):
    agent: str = ""

    async def generate_content_async(self, llm_request, stream=False):
        target = await ring.decide(self.agent)
        if target is None:
            part = types.Part(text=ring.ANSWER)
        else:
            call = types.FunctionCall(id=ring.call_id(), name="transfer_to_agent", args={"agent_name": target})
            part = types.Part(function_call=call)
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def member(name: str, under: tuple[str, ...] = ()) -> LlmAgent:
    return LlmAgent(
        name=name,
        model=Scripted(model="scripted", agent=name),
        instruction=ring.INSTRUCTIONS,
        description=name,
        sub_agents=[member(each) for each in under],
    )


class Contender:
    def __init__(self) -> None:
        self._use(InMemorySessionService())

    def _use(self, sessions) -> None:
        self._sessions = sessions
        first, *others = ring.RING
        self._runner = Runner(app_name="ring", agent=member(first, tuple(others)), session_service=sessions)

    async def _answer(self, text: str, session: str) -> str:
        message = types.Content(role="user", parts=[types.Part(text=text)])
        said = ""
        async for event in self._runner.run_async(
            user_id="u", session_id=session, new_message=message, run_config=CONFIG
        ):
            if event.content and event.content.parts and event.content.parts[0].text:
                said = event.content.parts[0].text
        return said

    async def relay(self) -> str:
        session = await self._sessions.create_session(**APP)
        output = await self._answer(ring.ASKED, session.id)
        await self._sessions.delete_session(**APP, session_id=session.id)
        return output

    async def open(self, folder: Path) -> None:
        self._use(DatabaseSessionService(f"sqlite+aiosqlite:///{folder}/sessions.db"))
        self._begun = False

    async def durable(self, conversation: str) -> str:
        await self._sessions.create_session(**APP, session_id=conversation)
        return await self._answer(ring.ASKED, conversation)

    async def turn(self, text: str) -> str:
        if not self._begun:
            await self._sessions.create_session(**APP, session_id="long")
            self._begun = True
        return await self._answer(text, "long")

    async def resume(self, conversation: str) -> str:
        # Without a resumable app no call continues a run: the user has to write once more.
        return await self._answer("continue", conversation)

    async def close(self) -> None:
        await self._runner.close()
