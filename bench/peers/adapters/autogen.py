"""AutoGen: `Swarm` of autogen-agentchat.

A team serves one run at a time, so concurrent runs build teams of their own. There is no store: the application writes
`save_state()` to a file after each run.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import TextMentionTermination
from autogen_agentchat.teams import Swarm
from autogen_core import FunctionCall
from autogen_core.models import ChatCompletionClient, CreateResult, RequestUsage

from bench import ring

for logger in ("autogen_core", "autogen_core.events", "autogen_agentchat.events"):
    logging.getLogger(logger).setLevel(logging.CRITICAL)
USAGE = RequestUsage(prompt_tokens=0, completion_tokens=0)


class Scripted(ChatCompletionClient):
    component_type = "model"
    component_config_schema = None

    def __init__(self, agent: str) -> None:
        self._agent = agent

    async def create(self, messages, **options) -> CreateResult:
        target = await ring.decide(self._agent)
        if target is None:
            return CreateResult(finish_reason="stop", content=ring.ANSWER, usage=USAGE, cached=False)
        call = FunctionCall(id=ring.call_id(), name=f"transfer_to_{target}", arguments="{}")
        return CreateResult(finish_reason="function_calls", content=[call], usage=USAGE, cached=False)

    def create_stream(self, *args, **options):
        raise NotImplementedError

    async def close(self) -> None:
        pass

    def actual_usage(self) -> RequestUsage:
        return USAGE

    def total_usage(self) -> RequestUsage:
        return USAGE

    def count_tokens(self, messages, **options) -> int:
        return 0

    def remaining_tokens(self, messages, **options) -> int:
        return 100_000

    @property
    def capabilities(self):
        return self.model_info

    @property
    def model_info(self):
        abilities = {"vision": False, "function_calling": True, "json_output": False, "structured_output": False}
        return {**abilities, "family": "unknown"}


def team() -> Swarm:
    members = [
        AssistantAgent(name, model_client=Scripted(name), handoffs=[ring.NEXT[name]], system_message=ring.INSTRUCTIONS)
        for name in ring.RING
    ]
    return Swarm(members, termination_condition=TextMentionTermination(ring.ANSWER))


class Contender:
    def __init__(self) -> None:
        self._team = team()
        self._busy = False

    async def _answer(self, text: str, team: Swarm) -> str:
        return (await team.run(task=text)).messages[-1].content

    async def relay(self) -> str:
        if self._busy:
            return await self._answer(ring.ASKED, team())
        self._busy = True
        try:
            output = await self._answer(ring.ASKED, self._team)
            await self._team.reset()
        finally:
            self._busy = False
        return output

    async def open(self, folder: Path) -> None:
        self._folder = folder

    async def _save(self, conversation: str) -> None:
        path = self._folder / f"{conversation}.json"
        fresh = path.with_suffix(".tmp")
        fresh.write_text(json.dumps(await self._team.save_state()))
        fresh.replace(path)

    async def durable(self, conversation: str) -> str:
        output = await self._answer(ring.ASKED, self._team)
        await self._save(conversation)
        await self._team.reset()
        return output

    async def turn(self, text: str) -> str:
        output = await self._answer(text, self._team)
        await self._save("long")
        return output

    async def resume(self, conversation: str) -> str:
        if not (self._folder / f"{conversation}.json").exists():
            return "nothing on disk: the application saves after a run"
        raise NotImplementedError

    async def close(self) -> None:
        pass
