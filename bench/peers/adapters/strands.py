"""Strands: `Swarm`, `FileSessionManager`.

A swarm serves one run at a time, and a session manager one session, so concurrent and persisted runs build swarms of
their own. A swarm forgets what its agents said before, so the long conversation is one agent's. After a handoff the
sender's model is called once more, which is the library's design.
"""

from __future__ import annotations

import json
import logging
import os
import warnings
from pathlib import Path

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)
os.environ.setdefault("OTEL_SDK_DISABLED", "true")

from strands import Agent
from strands.agent.conversation_manager import NullConversationManager
from strands.models.model import Model
from strands.multiagent import Swarm
from strands.session.file_session_manager import FileSessionManager

from bench import ring


class Scripted(Model):
    def __init__(self, agent: str) -> None:
        self._agent = agent

    def update_config(self, **options) -> None:
        pass

    def get_config(self):
        return {"model_id": "scripted"}

    def structured_output(self, *args, **options):
        raise NotImplementedError

    async def stream(self, messages, *args, **options):
        if any("toolResult" in part for part in messages[-1]["content"]):
            await ring.called(self._agent)
            target, text = None, "Handed off."
        else:
            target, text = await ring.decide(self._agent), ring.ANSWER
        start, delta = self._parts(target, text)
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": start}}
        yield {"contentBlockDelta": {"delta": delta}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if target else "end_turn"}}
        usage = {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 0}}}

    def _parts(self, target: str | None, text: str):
        if target is None:
            return {}, {"text": text}
        args = json.dumps({"agent_name": target, "message": ring.REASON})
        return {"toolUse": {"name": "handoff_to_agent", "toolUseId": ring.call_id()}}, {"toolUse": {"input": args}}


def member(name: str, **options) -> Agent:
    return Agent(
        name=name,
        agent_id=name,
        model=Scripted(name),
        system_prompt=ring.INSTRUCTIONS,
        callback_handler=None,
        load_tools_from_directory=False,
        **options,
    )


def swarm(**options) -> Swarm:
    members = [member(name) for name in ring.RING]
    return Swarm(members, entry_point=members[0], max_handoffs=1_000, max_iterations=1_000, **options)


async def answer(swarm: Swarm) -> str:
    result = await swarm.invoke_async(ring.ASKED)
    last = result.node_history[-1].node_id
    return result.results[last].result.message["content"][0]["text"]


class Contender:
    def __init__(self) -> None:
        self._swarm = swarm()
        self._busy = False

    async def relay(self) -> str:
        if self._busy:
            return await answer(swarm())
        self._busy = True
        try:
            return await answer(self._swarm)
        finally:
            self._busy = False

    async def open(self, folder: Path) -> None:
        self._folder = str(folder)
        self._long: Agent | None = None

    def _session(self, id: str) -> FileSessionManager:
        return FileSessionManager(session_id=id, storage_dir=self._folder)

    async def durable(self, conversation: str) -> str:
        return await answer(swarm(session_manager=self._session(conversation)))

    async def turn(self, text: str) -> str:
        if self._long is None:
            options = {"session_manager": self._session("long"), "conversation_manager": NullConversationManager()}
            self._long = member(ring.RING[0], **options)
        return (await self._long.invoke_async(text)).message["content"][0]["text"]

    async def resume(self, conversation: str) -> str:
        return await self.durable(conversation)

    async def close(self) -> None:
        pass
