"""A process that serves tickets, as a worker of the team or by a program of its own."""

import asyncio
import random
import time
from typing import Literal

import msgspec

from changeover import Agent, Store, Team, Worker
from changeover.errors import ClaimLost
from changeover.protocol import HandoffPackage, Metadata, Mode, Task, TicketClaim
from changeover.testing import Reply, ScriptedModel, says
from changeover.worker import News
from tests.crash.notes import Notes

SERVED = ("billing", "clerk")
LEASE = 0.6
AT_ONCE = 4


class Serve(msgspec.Struct, frozen=True):
    """How a process serves tickets."""

    how: Literal["worker", "claims"]
    longest: float = 0.01
    """How long the work on one takes at most."""


class Server:
    """Works on tickets until it is killed."""

    def __init__(self, serve: Serve, notes: Notes, seed: str) -> None:
        self._serve, self._notes, self._rng = serve, notes, random.Random(seed)

    def team(self, store: Store) -> Team:
        return desk(store, ScriptedModel(self._reply))

    async def serve(self, team: Team) -> None:
        if self._serve.how == "worker":
            await Worker(team, SERVED, concurrency=AT_ONCE, lease=LEASE, news=self._note).run()
        else:
            await asyncio.gather(*(self._claim(team, agent) for agent in SERVED))

    async def _reply(self, agent: str, messages: object, tools: object) -> Reply:
        await asyncio.sleep(self._rng.uniform(0, self._serve.longest))
        return says("done")

    def _note(self, news: News) -> None:
        if news.end is None:
            self._notes.write("took", news.ticket.id, value=[news.attempt])
        elif news.end == "lost":
            self._notes.write("lost", news.ticket.id)

    async def _claim(self, team: Team, agent: str) -> None:
        while True:
            before = time.monotonic()
            claims = await team.claim(agent, limit=AT_ONCE, lease=LEASE)
            for claim in claims:
                self._notes.write("took", claim.ticket.id, value=[claim.attempt, before])
            await asyncio.gather(*(self._work(claim) for claim in claims))
            if not claims:
                await asyncio.sleep(0.02)

    async def _work(self, claim: TicketClaim) -> None:
        try:
            await claim.accept()
            await asyncio.sleep(self._rng.uniform(0, self._serve.longest))
            await claim.complete("done")
            self._notes.write("completed", claim.ticket.id)
        except ClaimLost:
            self._notes.write("lost", claim.ticket.id)


def desk(store: Store, model: ScriptedModel) -> Team:
    members = [Agent("front"), *(Agent(name, pull=True, handoffs=()) for name in SERVED)]
    return Team(members, model=model, store=store)


def a_package(rng: random.Random, number: int) -> HandoffPackage:
    """A package with a random mode, receiver and priority."""
    mode = rng.choice((Mode.DELEGATE, Mode.TRANSFER))
    metadata = Metadata(receiver=rng.choice(SERVED), mode=mode, priority=rng.randrange(3))
    return HandoffPackage(Task(f"job {number}"), metadata=metadata)
