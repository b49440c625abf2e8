"""The ring and the line of agents as teams of Changeover, with the cheapest possible model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextvars import ContextVar

from bench.ring import ANSWER, INSTRUCTIONS, LINE, NEXT, REASON, RING
from changeover import Agent, Limits, Team
from changeover.assembly import DEFAULT
from changeover.guards import Guard
from changeover.messages import Call, Reply
from changeover.relay.ports.world import Request

LEFT: ContextVar[list[int]] = ContextVar("left")


class RingModel:
    """The cheapest possible model: it hands over a given number of times, then answers."""

    def __init__(self, latency: float = 0.0) -> None:
        self._latency = latency

    async def reply(self, request: Request) -> Reply:
        if self._latency:
            await asyncio.sleep(self._latency)
        left = LEFT.get()
        if left[0] <= 0:
            return Reply(text=ANSWER)
        left[0] -= 1
        call = Call(f"call_{request.command}", "handoff", {"to": NEXT[request.agent], "message": REASON})
        return Reply(calls=(call,))

    async def stream(self, request: Request) -> AsyncIterator[Reply]:
        yield await self.reply(request)


def ring(latency: float = 0.0, store: str | None = None) -> Team:
    """A ring of three agents. Without guards: they refuse agents that go round in circles."""
    return _team(RING, RingModel(latency), store, guards=())


def line(guards: Sequence[Guard] = DEFAULT) -> Team:
    """A line of agents that never go round in circles."""
    return _team(LINE, RingModel(), None, guards)


def _team(names: Sequence[str], model: RingModel, store: str | None, guards: Sequence[Guard]) -> Team:
    members = [Agent(name, instructions=INSTRUCTIONS) for name in names]
    limits = Limits(max_handoffs=1_000, max_turns=1_000, max_agents=len(LINE))
    return Team(members, model=model, limits=limits, store=store, guards=guards)
