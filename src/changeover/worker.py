"""Worker: claims tickets of its agents and works on several at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf

from msgspec import Struct

from changeover.agent.agent import Function
from changeover.agent.roster import Seat
from changeover.errors import EngineError, MisconfiguredError, StoreClosed, StoreUnavailable, UnknownAgentError
from changeover.facts import Ticket
from changeover.relay.inputs.claims import End
from changeover.relay.ports.queue import Bell, SeenWorker, Taken
from changeover.team import Team
from changeover.ticket import LEASE, lease_faults, whole_faults, worker_name

logger = logging.getLogger("changeover.worker")

LOOK = 1.0
"""The longest pause, in seconds, between two looks for tickets whose claims lapsed."""


class News(Struct, frozen=True):
    """A ticket on which a worker started or ended work."""

    ticket: Ticket
    attempt: int
    end: End | None = None
    """How the work ended; None if it starts."""
    seconds: float = 0.0


class Worker:
    """Serves agents of a team on the team's store, which any number of workers may share.

    It works on up to `concurrency` tickets at once, holds each for `lease` seconds and renews it. After `stop` it has
    `grace` seconds to finish. `agents` are the ids of the agents that it serves, and `name` is recorded as the owner of
    its tickets (default: host and process). `news` is called when work on a ticket starts and ends. Raises
    MisconfiguredError.
    """

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
        faults = [*_faults(team, agents, begins=False), *_number_faults(concurrency, lease, grace)]
        if faults:
            raise MisconfiguredError(*faults)
        self._team, self._agents, self._concurrency = team, tuple(agents), concurrency
        self._engine = team.engine
        self._lease, self._grace, self.name = lease, grace, name or worker_name()
        self._news = news
        self._tasks: dict[asyncio.Task[None], Taken] = {}
        self._stopping = asyncio.Event()

    async def check(self) -> None:
        """Open the team. Raises MisconfiguredError if neither code nor store declares an agent that it serves."""
        await self._team.open()
        if _faults(self._team, self._agents):
            await self._engine.world()  # the store may have declared it since
            if faults := _faults(self._team, self._agents):
                raise MisconfiguredError(*faults)

    async def run(self) -> None:
        """Work until `stop` is called; then finish what was begun, or give it back when `grace` is over.

        Raises what `check` raises.
        """
        await self.check()
        started = self._team.clock.now()
        await self._announce(started)
        renewing = asyncio.ensure_future(self._renew(started))
        try:
            with self._team.log.queue.listening(self._agents) as bell:
                while not self._stopping.is_set():
                    await self._claim_if_available()
                    await self._pause(bell)
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=self._grace)
        finally:
            await self._give_back()
            renewing.cancel()

    def stop(self) -> None:
        """Claim nothing more; `run` returns when no ticket is held any longer."""
        self._stopping.set()

    async def _claim_if_available(self) -> None:
        try:
            await self._claim()
        except StoreClosed:
            raise
        except StoreUnavailable as error:  # it may come back
            logger.warning("%s claims nothing for now: %s", self.name, error)

    async def _claim(self) -> None:
        """Claim as many tickets as this worker, and agents with a limit of their own, have room for."""
        rooms = {agent: await self._engine.room(agent) for agent in self._agents}
        unlimited = [agent for agent, room in rooms.items() if room == inf]
        for agents, room in [(unlimited, inf), *(([agent], rooms[agent]) for agent in rooms if agent not in unlimited)]:
            limit = int(min(room, self._concurrency - len(self._tasks)))
            if agents and limit > 0:
                self._begin(await self._engine.claim(agents, self.name, self._lease, limit))

    def _begin(self, all_taken: Sequence[Taken]) -> None:
        for taken in all_taken:
            task = asyncio.ensure_future(self._work(taken))
            self._tasks[task] = taken
            task.add_done_callback(self._tasks.pop)

    async def _work(self, taken: Taken) -> None:
        begun = self._team.clock.now()
        self._tell(News(taken.ticket, taken.attempt))
        end = End.LOST
        try:
            end = await self._engine.serve(taken, self.name)
        except asyncio.CancelledError:
            end = End.BACK
            raise
        finally:
            self._tell(News(taken.ticket, taken.attempt, end, self._team.clock.now() - begun))

    def _tell(self, news: News) -> None:
        try:
            if self._news:
                self._news(news)
        except Exception:  # an observer must not stop the work
            logger.exception("news=… raised on %s", news.ticket.id)

    async def _pause(self, bell: Bell) -> None:
        """Wait until there may be a ticket to claim and room for it, or the longest pause is over."""
        waits = [asyncio.ensure_future(self._stopping.wait()), *self._tasks]
        if len(self._tasks) < self._concurrency:
            waits.append(asyncio.ensure_future(bell.wait()))
        try:
            await asyncio.wait(waits, timeout=min(LOOK, self._lease / 3), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                if wait not in self._tasks:
                    wait.cancel()

    async def _announce(self, started: float) -> None:
        """Tell the store that this worker is alive, for as long as a lease."""
        now = self._team.clock.now()
        seen = SeenWorker(
            name=self.name, agents=self._agents, started_at=started, until=now + self._lease, team=self._team.name
        )
        with suppress(StoreUnavailable):  # it may come back
            await self._team.log.workers.seen(seen, now)

    async def _renew(self, started: float) -> None:
        """Renew the claims of tickets in work; stop working on those that another worker has by now."""
        while True:
            await asyncio.sleep(self._lease / 3)
            await self._announce(started)
            held = {taken.ticket.id: taken for taken in self._tasks.values()}
            if not held:
                continue
            with suppress(EngineError):  # the store is unavailable: claims may lapse, but the worker goes on
                kept = await self._team.log.queue.renew([taken.claim for taken in held.values()], self._lease)
                for id in held.keys() - set(kept):
                    await self._engine.release(held[id], self.name, None)

    async def _give_back(self) -> None:
        for task, taken in list(self._tasks.items()):
            try:
                await self._engine.release(taken, self.name, "the worker was stopped")
            except EngineError as error:  # then the lease runs out
                logger.warning("%s was not given back: %s", taken.ticket.id, error)
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _number_faults(concurrency: int, lease: float, grace: float) -> list[str]:
    graceful = isinstance(grace, int | float) and grace >= 0
    return [
        *whole_faults(concurrency=concurrency),
        *lease_faults(lease),
        *([] if graceful else [f"grace={grace!r} must be a number of seconds, 0 or more"]),
    ]


def _faults(team: Team, agents: Sequence[str], begins: bool = True) -> list[str]:
    """Faults of the agents that a worker is to serve. Before it begins, an unknown agent is no fault on a store, which
    may declare it."""
    if not isinstance(team, Team):
        return [f"team={team!r} is not a Team(…)"]
    if isinstance(agents, str) or not agents:
        return [f"agents={agents!r} must name the agents to serve, for example ['billing']"]
    found, seats = [], team.roster.seats
    for agent in agents:
        seat = seats.get(agent)
        if seat is None and (begins or team.declared.store is None):
            found.append(str(UnknownAgentError(agent, list(seats))))
        elif not isinstance(seat, Seat | Function | None):
            found.append(f"{agent!r} is a person, whom no worker can serve")
        elif isinstance(seat, Seat) and not team.thinks(agent):
            found.append(f"agent {agent!r} has no model to work with; claim its tickets by Team.claim")
    return found
