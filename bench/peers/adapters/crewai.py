"""CrewAI: a crew of two agents, of which the first delegates to the second; telemetry is off.

The library has no handoff after which another agent has the conversation: the coworker's result comes back to the
first agent, whose model is called once more. A checkpoint is written after each task, to a JSON file. A crew holds no
conversation, and calls models from threads: the long conversation and the concurrent runs do not apply.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from pathlib import Path

os.environ["CREWAI_DISABLE_TELEMETRY"] = os.environ["OTEL_SDK_DISABLED"] = "true"
os.environ["CREWAI_TRACING_ENABLED"] = "false"
logging.disable(logging.WARNING)

from crewai import Agent, Crew, Task
from crewai.llms.base_llm import BaseLLM
from crewai.state.checkpoint_config import CheckpointConfig

from bench import ring

FIRST, COWORKER = ring.RING[:2]


class Scripted(BaseLLM):
    agent: str = FIRST

    def call(self, messages, *args, **options) -> str:
        try:
            ring.decide(self.agent).send(None)  # the library calls models from plain functions
        except StopIteration as decided:
            if decided.value is None:
                return f"Thought: I now know the final answer\nFinal Answer: {ring.ANSWER}"
        work = json.dumps({"task": ring.REASON, "context": ring.ASKED, "coworker": COWORKER})
        return f"Thought: A coworker knows this.\nAction: delegate_work_to_coworker\nAction Input: {work}\n"


def member(name: str) -> Agent:
    return Agent(
        role=name,
        goal="Help the customer.",
        backstory=ring.INSTRUCTIONS,
        llm=Scripted(model="scripted", agent=name),
        allow_delegation=name == FIRST,
    )


def crew(checkpoints: Path | None = None) -> Crew:
    first = member(FIRST)
    task = Task(description=ring.ASKED, expected_output="An answer to the customer.", agent=first)
    config = CheckpointConfig(location=str(checkpoints)) if checkpoints else None
    return Crew(agents=[first, member(COWORKER)], tasks=[task], checkpoint=config)


class Contender:
    def __init__(self) -> None:
        self._crew = crew()

    async def relay(self) -> str:
        return str(await asyncio.to_thread(self._crew.kickoff))

    async def open(self, folder: Path) -> None:
        self._folder = folder

    async def durable(self, conversation: str) -> str:
        return str(await asyncio.to_thread(crew(self._folder / conversation).kickoff))

    async def resume(self, conversation: str) -> str:
        kept = sorted((self._folder / conversation).rglob("*.json"))
        if not kept:
            return "nothing on disk: a checkpoint is written after each task"
        found = CheckpointConfig(restore_from=kept[-1])
        return str(await asyncio.to_thread(crew().kickoff, from_checkpoint=found))

    async def close(self) -> None:
        pass
