"""Changeover: one `Team` for all runs, SQLite with one fsync per step, as is its default.

The default guards refuse agents that go round in circles, which is what this work consists of; so they are off.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from bench import ring
from changeover import Agent, Limits, Team
from changeover.messages import Call, Reply


class Scripted:
    async def reply(self, request) -> Reply:
        target = await ring.decide(request.agent)
        if target is None:
            return Reply(text=ring.ANSWER)
        return Reply(calls=(Call(ring.call_id(), "handoff", {"to": target, "message": ring.REASON}),))

    async def stream(self, request) -> AsyncIterator[Reply]:
        yield await self.reply(request)


def team(store: str | None = None) -> Team:
    members = [Agent(name, instructions=ring.INSTRUCTIONS) for name in ring.RING]
    limits = Limits(max_handoffs=1_000, max_turns=2_000)
    return Team(members, model=Scripted(), limits=limits, store=store, guards=())


class Contender:
    def __init__(self) -> None:
        self._team = team()

    async def relay(self) -> str:
        return (await self._team.run(ring.ASKED)).output

    async def open(self, folder: Path) -> None:
        self._team = team(f"sqlite:///{folder}/changeover.db")

    async def durable(self, conversation: str) -> str:
        return (await self._team.run(ring.ASKED, conversation=conversation)).output

    async def turn(self, text: str) -> str:
        return (await self._team.run(text, conversation="long")).output

    async def resume(self, conversation: str) -> str:
        return (await self._team.resume(conversation)).output

    async def close(self) -> None:
        await self._team.close()
