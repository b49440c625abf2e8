"""The ring of three agents as a team of Changeover, with the cheapest possible model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextvars import ContextVar

from bench.ring import ANSWER, INSTRUCTIONS, NEXT, REASON, RING
from changeover import Agent, Limits, Team
from changeover.facts import Ledger
from changeover.guards import Guard
from changeover.guards.guard import ALLOW, Answer, Facts, Offer
from changeover.messages import Call, Reply
from changeover.relay.ports import Request

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


class Lenient:
    """Asks a guard and ignores its verdict: the ring of agents looks like a loop to a guard."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    def check(self, offer: Offer, ledger: Ledger, facts: Facts) -> Answer:
        self._guard.check(offer, ledger, facts)
        return ALLOW


def ring(latency: float = 0.0, store: str | None = None, guards: Sequence[Guard] = ()) -> Team:
    """A team for this work; without guards unless some are given."""
    members = [Agent(name, instructions=INSTRUCTIONS) for name in RING]
    limits = Limits(max_handoffs=1_000, max_turns=1_000)
    return Team(members, model=RingModel(latency), limits=limits, store=store, guards=guards)
