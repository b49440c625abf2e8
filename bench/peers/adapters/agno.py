"""Agno: `Team` in the mode "route", `AsyncSqliteDb`; telemetry is off.

The leader hands to a member, which cannot hand on: more than one handoff does not apply.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

os.environ["AGNO_TELEMETRY"] = "false"

from agno.agent import Agent
from agno.db.sqlite import AsyncSqliteDb
from agno.models.base import Model
from agno.models.response import ModelResponse
from agno.team import Team
from agno.team.mode import TeamMode

from bench import ring

LEADER, MEMBER = ring.RING[:2]


@dataclass
class Scripted(Model):
    id: str = "scripted"
    agent: str = LEADER

    def invoke(self, *args, **options):
        raise NotImplementedError

    invoke_stream = ainvoke_stream = invoke

    def _parse_provider_response(self, response, **options):
        return response

    def _parse_provider_response_delta(self, response):
        return response

    async def ainvoke(self, messages, assistant_message=None, **options) -> ModelResponse:
        target = await ring.decide(self.agent)
        if target is None:
            return ModelResponse(role="assistant", content=ring.ANSWER)
        args = json.dumps({"member_id": target, "task": ring.REASON})
        function = {"name": "delegate_task_to_member", "arguments": args}
        call = {"id": ring.call_id(), "type": "function", "function": function}
        return ModelResponse(role="assistant", tool_calls=[call])


def team(db: AsyncSqliteDb | None = None) -> Team:
    member = Agent(
        id=MEMBER, name=MEMBER, model=Scripted(agent=MEMBER), instructions=ring.INSTRUCTIONS, telemetry=False
    )
    return Team(
        members=[member],
        mode=TeamMode.route,
        model=Scripted(agent=LEADER),
        instructions=ring.INSTRUCTIONS,
        db=db,
        telemetry=False,
        add_history_to_context=db is not None,
        num_history_runs=100_000,
    )


class Contender:
    def __init__(self) -> None:
        self._team = team()

    async def _answer(self, text: str, **options) -> str:
        return (await self._team.arun(text, stream=False, **options)).content

    async def relay(self) -> str:
        return await self._answer(ring.ASKED)

    async def open(self, folder: Path) -> None:
        self._db = AsyncSqliteDb(db_file=str(folder / "agno.db"))
        self._team = team(self._db)

    async def durable(self, conversation: str) -> str:
        return await self._answer(ring.ASKED, session_id=conversation, user_id="u")

    async def turn(self, text: str) -> str:
        return await self._answer(text, session_id="long", user_id="u")

    async def resume(self, conversation: str) -> str:
        return "no call continues a run whose process died"

    async def close(self) -> None:
        await self._db.close()
