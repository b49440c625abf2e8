"""Worker: claims what waits for its agents and has them work on it, as many at once as it may."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf

from msgspec import Struct

from changeover.agent.agent import Function
from changeover.agent.roster import Seat
from changeover.engines.local import claims
from changeover.engines.local.claims import take
from changeover.engines.local.directory import room
from changeover.engines.local.engine import LocalEngine
from changeover.engines.local.waits import End
from changeover.errors import EngineError, MisconfiguredError, StoreClosed, StoreUnavailable, UnknownAgentError
from changeover.facts import Ticket
from changeover.relay.queue import Bell, Claim, Taken
from changeover.team import Team
from changeover.ticket import LEASE, lease_faults, worker_name

logger = logging.getLogger("changeover.worker")

LOOK = 1.0
"""How many seconds pass at most until it looks for what others have let lapse."""


class News(Struct, frozen=True):
    """Something that a worker did."""

    ticket: Ticket
    attempt: int
    end: End | None = None
    """How it ended; None if it begins."""
    seconds: float = 0.0


class Worker:
    """Serves agents of a team on the store that the team has; any number of workers may share that."""

    def __init__(
        self,
        team: Team,
        agents: Sequence[str],
        *,
        concurrency: int = 4,
        lease: float = LEASE,
        grace: float = 30.0,
        name: str = "",
        news: Callable[[News], None] | None = None,
    ) -> None:
        faults = [*_faults(team, agents), *_number_faults(concurrency, lease, grace)]
        if faults:
            raise MisconfiguredError(*faults)
        self._team, self._agents, self._concurrency = team, tuple(agents), concurrency
        self._lease, self._grace, self.name = lease, grace, name or worker_name()
        self._news = news
        self._tasks: dict[asyncio.Task[None], Taken] = {}
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Work until `stop` is called: then finish what was begun, or give it back when `grace` is over."""
        await self._team.open()
        await self._team.on_engine(self._run)

    def stop(self) -> None:
        """Claim nothing more; `run` returns when nothing is held any longer."""
        self._stopping.set()

    async def _run(self, engine: LocalEngine) -> None:
        renewing = asyncio.ensure_future(self._renew(engine))
        try:
            with engine.log.queue.listening(self._agents) as bell:
                while not self._stopping.is_set():
                    await self._claim_what_can_be(engine)
                    await self._pause(bell)
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=self._grace)
        finally:
            await self._give_back(engine)
            renewing.cancel()

    async def _claim_what_can_be(self, engine: LocalEngine) -> None:
        try:
            await self._claim(engine)
        except StoreClosed:
            raise
        except StoreUnavailable as error:  # it may come back, and nobody else would claim again then
            logger.warning("%s claims nothing for now: %s", self.name, error)

    async def _claim(self, engine: LocalEngine) -> None:
        """Take as much as there is room for: here, and with agents that can do only so much at once."""
        rooms = {agent: await room(engine, agent) for agent in self._agents}
        free = [agent for agent, space in rooms.items() if space == inf]
        for agents, space in [(free, inf), *(([agent], rooms[agent]) for agent in rooms if agent not in free)]:
            limit = int(min(space, self._concurrency - len(self._tasks)))
            if agents and limit > 0:
                self._begin(engine, await take(engine, agents, self.name, self._lease, limit))

    def _begin(self, engine: LocalEngine, all_taken: Sequence[Taken]) -> None:
        for taken in all_taken:
            task = asyncio.ensure_future(self._work(engine, taken))
            self._tasks[task] = taken
            task.add_done_callback(self._tasks.pop)

    async def _work(self, engine: LocalEngine, taken: Taken) -> None:
        begun = engine.world.clock.now()
        self._tell(News(taken.ticket, taken.attempt))
        end = End.LOST
        try:
            end = await claims.work(engine, taken, self.name)
        except asyncio.CancelledError:
            end = End.BACK
            raise
        finally:
            self._tell(News(taken.ticket, taken.attempt, end, engine.world.clock.now() - begun))

    def _tell(self, told: News) -> None:
        try:
            if self._news:
                self._news(told)
        except Exception:  # whoever watches must not stop the work
            logger.exception("what was to be told of %s raised", told.ticket.id)

    async def _pause(self, bell: Bell) -> None:
        """Until there may be something to claim, and room for it; or it is time to look."""
        waits = [asyncio.ensure_future(self._stopping.wait()), *self._tasks]
        if len(self._tasks) < self._concurrency:
            waits.append(asyncio.ensure_future(bell.wait()))
        try:
            await asyncio.wait(waits, timeout=min(LOOK, self._lease / 3), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                if wait not in self._tasks:
                    wait.cancel()

    async def _renew(self, engine: LocalEngine) -> None:
        """Hold what is worked on, and stop working on what is somebody else's by now."""
        while True:
            await asyncio.sleep(self._lease / 3)
            held = {taken.ticket.id: taken for taken in self._tasks.values()}
            if not held:
                continue
            with suppress(EngineError):  # a store that is away: what lapses by that is lost, and nothing else
                kept = await engine.log.queue.renew([Claim(id, taken.token) for id, taken in held.items()], self._lease)
                for id in held.keys() - set(kept):
                    await claims.lose(engine, held[id])

    async def _give_back(self, engine: LocalEngine) -> None:
        for task, taken in list(self._tasks.items()):
            try:
                await claims.give_up(engine, taken, self.name, "the worker was stopped")
            except EngineError as error:  # then the lease runs out
                logger.warning("%s was not given back: %s", taken.ticket.id, error)
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _number_faults(concurrency: int, lease: float, grace: float) -> list[str]:
    whole = isinstance(concurrency, int) and concurrency >= 1
    return [
        *([] if whole else [f"concurrency={concurrency!r} must be a whole number, 1 or more"]),
        *lease_faults(lease),
        *([] if grace >= 0 else [f"grace={grace!r} must be a number of seconds, 0 or more"]),
    ]


def _faults(team: Team, agents: Sequence[str]) -> list[str]:
    """What is wrong with these agents for somebody who has them work."""
    if isinstance(agents, str) or not agents:
        return [f"agents={agents!r} must name the agents to serve, for example ['billing']"]
    found, seats = [], team.roster.seats
    for agent in agents:
        seat = seats.get(agent)
        if seat is None:
            found.append(str(UnknownAgentError(agent, list(seats))))
        elif not isinstance(seat, Seat | Function):
            found.append(f"{agent!r} is a person, who is served by nobody else")
        elif isinstance(seat, Seat) and not team.thinks(agent):
            found.append(f"agent {agent!r} has no model to work with; claim its tickets by Team.claim")
    return found
