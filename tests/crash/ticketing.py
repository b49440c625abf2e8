"""Processes that share a log on which work waits to be claimed: how they live, die, and come to their end."""

import asyncio

from changeover import TicketClaim, Worker
from changeover.relay.ports import Log
from changeover.relay.queue import Queued
from changeover.stores.memory.log import MemoryLog
from changeover.testing.crash import MortalLog
from changeover.worker import News
from tests.crash.living import Living
from tests.crash.tickets import AWAY, Book, PulledWatcher, Pullers


class Ticketing(Living):
    """One process after another on one log, and workers of other people who outlive them."""

    lease = 60.0
    watcher: PulledWatcher

    def __init__(self) -> None:
        super().__init__()
        self.watcher, self.parties, self.book = PulledWatcher(), Pullers(self.clock), Book()
        self.store = self._place()
        self.worker: tuple[Worker, asyncio.Task[None]] | None = None
        self.queued: list[Queued] = []
        self._begin()

    def _place(self) -> Log:
        """Where everything is recorded."""
        return MemoryLog(self.clock.now)

    def _begin(self) -> None:
        """A process begins."""
        self.log = MortalLog(self.store)
        self.team = self.parties.team(store=self.log)

    def _now(self) -> float:
        """The time by which leases run."""
        return self.clock.now()

    async def _let_pass(self, seconds: float) -> None:
        await self.clock.advance(seconds)

    async def _settle(self) -> None:
        await super()._settle()
        self.book.see(self.queued)

    async def _look(self) -> None:
        """Also who holds what."""
        self.queued = await self._queued()
        await super()._look()

    async def _queued(self) -> list[Queued]:
        return await self.store.queue.tickets()

    async def _stop(self) -> None:
        if self.worker is not None:
            worker, running = self.worker
            self.worker = None
            worker.stop()
            await running
            kept = [each for each in await self._queued() if each.owner.startswith(f"{worker.name}#")]
            assert not kept, f"{worker.name} was stopped, and keeps {kept}"

    def _worker(self, name: str, agents: tuple[str, ...], concurrency: int = 4) -> Worker:
        lease = {"lease": self.lease}
        return Worker(self.team, agents, concurrency=concurrency, grace=0.0, name=name, news=self._heed, **lease)

    def _heed(self, news: News) -> None:
        if news.end is None:
            self.book.begin(news.ticket, "our own worker", self._now())
        else:
            self.book.holders.pop(news.ticket.id, None)

    async def _die(self) -> None:
        self.log.dead = True
        tasks = [*self.asked, *([self.worker[1]] if self.worker else ())]
        tasks += self.team._engine._tasks if self.team._engine else ()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.asked, self.worker = [], None
        self._begin()
        # Workers of other people live on, and speak to whoever is there.
        self.book.claims = [self._rebound(claim) for claim in self.book.claims]

    def _rebound(self, claim: TicketClaim) -> TicketClaim:
        return TicketClaim(self.team.on_engine, claim._taken, claim._package, claim._by, claim._lease)

    async def _end(self) -> None:
        await self._stop()
        await self.team.__aenter__()
        await self._take_up_all()
        await self._outlive_leases()
        last = Worker(self.team, (*AWAY, "scribe"), lease=1e9, name="last", news=self._heed)
        running = self.loop.create_task(last.run())
        await self._decide_all()
        assert await self._queued() == []
        if self.asked:
            await asyncio.wait(self.asked, timeout=5)  # whoever follows a log looks at it now and then
        self._nobody_waits()
        last.stop()
        await running

    async def _take_up_all(self) -> None:
        """Where nobody keeps watch, nobody keeps the time of what was left waiting, unless somebody asks for it."""
        for root in {state.root for state in self.watcher.under_way()}:
            self.asked.append(self.loop.create_task(self.team.resume(root)))
        await self._settle()

    async def _outlive_leases(self) -> None:
        """Whoever has claimed something is not heard of any more."""
        await self.clock.advance(self.lease + 1)
