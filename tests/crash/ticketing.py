"""Processes that share a log on which work waits to be claimed: how they live, die, and come to their end."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine

from changeover import Team, TicketClaim, Worker
from changeover.errors import ChangeoverError, ConversationNotFound, EngineError
from changeover.relay.ports import Log
from changeover.relay.queue import Queued
from changeover.stores.memory import MemoryLog
from changeover.testing import ManualClock
from changeover.testing.crash import MortalLog
from changeover.worker import News
from tests.crash.pulling import AWAY, Book, PulledWatcher, Pullers
from tests.crash.test_protocol_machine import LAST

CONVERSATIONS = ("c", "d")


class Ticketing(RuleBasedStateMachine):
    """One process after another on one log, and workers of other people who outlive them."""

    lease = 60.0
    looks = 1

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock()
        self.watcher, self.parties, self.book = PulledWatcher(), Pullers(self.clock), Book()
        self.store = self._place()
        self.roots: list[str] = list(CONVERSATIONS)
        self.asked: list[asyncio.Task[Any]] = []
        self.worker: tuple[Worker, asyncio.Task[None]] | None = None
        self.queued: list[Queued] = []
        self.count = 0
        self._begin()

    def _place(self) -> Log:
        """Where everything is recorded."""
        return MemoryLog(self.clock.now)

    def _begin(self) -> None:
        """A process begins."""
        self.log = MortalLog(self.store)
        self.team: Team = self.parties.team(store=self.log)

    def _now(self) -> float:
        """The time by which leases run."""
        return self.clock.now()

    async def _let_pass(self, seconds: float) -> None:
        await self.clock.advance(seconds)

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        async def settled() -> Any:
            try:
                return await work
            finally:
                await self._settle()

        return self.loop.run_until_complete(settled())

    async def _settle(self) -> None:
        """Return when nothing more is recorded, and it is known who holds what then."""
        quiet = 0
        while quiet < 3:
            before = self.watcher.seen
            await self._breathe()
            self.queued = await self._queued()
            await self._look()
            quiet = quiet + 1 if self.watcher.seen == before else 0
        self.book.see(self.queued)

    async def _breathe(self) -> None:
        await self.clock.advance(0)

    async def _look(self) -> None:
        for root in self.roots:
            with suppress(ConversationNotFound):
                self.watcher.look(await self.team.history(root))

    async def _queued(self) -> list[Queued]:
        return await self.store.queue.tickets()

    def _ask(self, work: Coroutine[Any, Any, Any]) -> None:
        self.asked.append(self.loop.create_task(work))
        self._do(self._settle())

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

    def _shown(self) -> set[str]:
        return {request.id for request in self._do(self.team.approvals())}

    def _look_at_callers(self) -> None:
        """Whoever was told that something went wrong was told what, and not of the machinery."""
        for task in self.asked:
            if task.done() and isinstance(error := task.exception(), Exception):
                assert isinstance(error, ChangeoverError), f"a caller was told {error!r}"
                assert not isinstance(error, EngineError), f"a caller was told of the machinery: {error!r}"

    def teardown(self) -> None:
        try:
            self._do(self._end())
        finally:
            self.loop.run_until_complete(self._leave())
            self.loop.close()

    async def _end(self) -> None:
        """Workers do what is left, and people decide what they are asked: then all has ended."""
        await self._stop()
        await self.team.__aenter__()
        await self._take_up_all()
        await self._outlive_leases()
        last = Worker(self.team, (*AWAY, "scribe"), lease=1e9, name="last", news=self._heed)
        running = self.loop.create_task(last.run())
        for _ in range(200):
            await self._pass_time()
            waiting = await self.team.approvals()
            for state in self.watcher.under_way():
                root = state.id.partition("/")[0]
                mine = [each for each in waiting if each.conversation.partition("/")[0] == root]
                assert mine, f"{state.id} neither ends nor waits for a person: {state.run and state.run.phase}"
            if not waiting:
                break
            await self.team.decide(waiting[0], LAST[waiting[0].kind], by="ana")
        assert not await self.team.approvals(), "there is no end to what people are asked"
        assert [state.id for state in self.watcher.under_way()] == []
        assert await self._queued() == []
        if self.asked:
            await asyncio.wait(self.asked, timeout=5)  # whoever follows a log looks at it now and then
        self._look_at_callers()
        waiting_still = [task for task in self.asked if not task.done()]
        assert not waiting_still, f"somebody waits for ever: {waiting_still}"
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

    async def _pass_time(self) -> None:
        """Until nothing has come of it for longer than anybody is given: of what waits in a row, each has its time."""
        quiet = 0
        while quiet < 20:
            before = self.watcher.seen
            await self._settle()
            await self.clock.advance(100)
            quiet = quiet + 1 if self.watcher.seen == before else 0
        await self._settle()
        self.watcher.check()

    async def _leave(self) -> None:
        await self.team.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
