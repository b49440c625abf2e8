"""A small team with pulled agents, and the invariants of its tickets.

What its members do is told in plans, as in `parties`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any

from changeover import Agent, Limits, Person, Team, Worker, delegate, handoff
from changeover.agent.agent import Member
from changeover.facts import State as HandoffState
from changeover.handoffs.protocol import TRANSITIONS, Signal
from changeover.protocol import Mode, Ticket, TicketClaim
from changeover.relay.events import TicketLapsed
from changeover.relay.ports.log import Log
from changeover.relay.ports.queue import Queued
from changeover.relay.result import handoffs_of
from changeover.relay.state import State
from changeover.relay.tickets import open_tickets, resting
from changeover.stores.memory.log import MemoryLog
from changeover.testing.crash import MortalLog
from changeover.worker import News
from tests.crash.machines import Living
from tests.crash.parties import TIMEOUT, Parties, look, pay
from tests.crash.watcher import OPEN, Watcher
from tests.relay.world import tasks_of

HERE, AWAY, PEOPLE = ("triage", "scribe"), ("clerk", "lead"), ("ana",)
RECEIVERS = (*AWAY, "scribe", *PEOPLE)
ATTEMPTS = 3


class Pullers(Parties):
    """Some agents work in this process, others are pulled."""

    def team(self, **options: Any) -> Team:
        members = [*(self._member(id, False) for id in HERE), *(self._member(id, True) for id in AWAY)]
        limits = Limits(max_handoffs=30, max_turns=100)
        people = [Person(id) for id in PEOPLE]
        return Team([*members, *people], model=self, clock=self._clock, limits=limits, **options)

    def _member(self, id: str, pull: bool) -> Member:
        ways: list[Any] = []
        for other in RECEIVERS:
            if other != id:
                after = [each for each in ("scribe", "lead") if each not in (id, other)][:1]
                ways += [handoff(other, timeout=TIMEOUT, alternatives=after, on_rollback=self._clean)]
                ways += [delegate(other, timeout=TIMEOUT, alternatives=after)]
        return Agent(id, handoffs=ways, accepts=self._accepts(id), tools=[look, pay], pull=pull)


class PulledWatcher(Watcher):
    """Checks what each event does to handoffs, of which some are claimed and may lapse."""

    def __init__(self) -> None:
        super().__init__()
        self.said_by: Counter[str] = Counter()
        """How much is recorded in the name of each worker."""

    def _take_in(self, state: State, event: Any) -> None:
        self.said_by[getattr(event, "by", "")] += 1
        if not isinstance(event, TicketLapsed):
            super()._take_in(state, event)
            return
        before = {record.id: record.state for record in handoffs_of(state)}
        state.apply(event)
        for record in handoffs_of(state):
            was = before[record.id]
            falls = record.id == event.ticket and Signal.LAPSE in TRANSITIONS[was]
            expected = HandoffState.PENDING if falls else was
            assert record.state is expected, f"{event} brought {record.id} from {was} to {record.state}"

    def _check_delegates(self, state: State, records: Iterable[Any]) -> None:
        lapsed = [record for record in records if record.state is HandoffState.PENDING and record in state.handoffs]
        working = [record for record in records if record.state is HandoffState.WORKING]
        assert all(record.mode is Mode.DELEGATE for record in (*lapsed, *working))
        if state.run is None:
            assert not [record for record in records if record.state in OPEN], f"{state.id} ended with {records}"

    def tickets(self) -> set[str]:
        """Everything that waits to be claimed, or is. A delegate's own conversation says whether it still is."""
        found = {ticket for state in self.states.values() for ticket in resting(state, ())}
        accepted = {ticket for state in self.states.values() for ticket in open_tickets(state)} - found
        return found | {ticket for ticket in accepted if ticket.replace(":", "/") not in self.states}


class Book:
    """Who holds what, as far as is known from outside."""

    def __init__(self) -> None:
        self.holders: dict[str, tuple[str, float]] = {}
        """By ticket: the token of its holder, and the end of the lease."""
        self.claims: list[TicketClaim] = []
        """What workers remember that they claimed."""
        self.lost: set[tuple[str, str]] = set()
        """The tickets and tokens of claims that cannot hold any more."""
        self.wrong: list[str] = []
        self.completed: list[str] = []
        """The tickets for which a worker was told that its result was taken."""

    def see(self, queued: Iterable[Queued]) -> None:
        """Take in who holds what now."""
        self.holders = {each.ticket.id: (each.owner, each.until or 0.0) for each in queued if each.owner}

    def take(self, claims: Iterable[TicketClaim], now: float) -> None:
        """Record these claims; none of the tickets may have had a holder."""
        for claim in claims:
            self.begin(claim.ticket, claim._taken.token, now)
            self.claims.append(claim)

    def begin(self, ticket: Ticket, token: str, now: float) -> None:
        """Record a holder; the ticket must not have another one."""
        holder, until = self.holders.get(ticket.id, ("", 0.0))
        if until > now:
            self.wrong.append(f"{holder} holds {ticket.id} until {until}, and {token} took it at {now}")
        self.lose(ticket.id)

    def lose(self, ticket: str) -> None:
        """The holder lost this ticket."""
        self.holders.pop(ticket, None)
        self.lost |= {_key(claim) for claim in self.claims if claim.ticket.id == ticket}

    def end(self, claim: TicketClaim) -> None:
        """The holder ended this ticket."""
        self.lost.add(_key(claim))

    def let_go(self, claim: TicketClaim) -> None:
        """The holder of this claim is about to end it."""
        if self.holders.get(claim.ticket.id, ("",))[0] == claim._taken.token:
            del self.holders[claim.ticket.id]

    def is_lost(self, claim: TicketClaim) -> bool:
        return _key(claim) in self.lost


def _key(claim: TicketClaim) -> tuple[str, str]:
    return claim.ticket.id, claim._taken.token


def most_urgent(queued: Iterable[Queued], agent: str, now: float) -> list[str]:
    """What can be claimed for an agent, in the order in which it is to be taken."""
    can = [each for each in queued if each.ticket.agent == agent and _is_claimable(each, now)]
    order = [(-each.ticket.priority, each.ticket.deadline or float("inf")) for each in can]
    assert order == sorted(order), f"these do not stand in their order: {can}"
    return [each.ticket.id for each in can]


def _is_claimable(queued: Queued, now: float) -> bool:
    # What was taken before its deadline may be taken up by others after it.
    in_time = queued.ticket.deadline is None or queued.ticket.deadline > now or queued.attempts > 0
    return not queued.owner and not queued.rests and queued.attempts < ATTEMPTS and in_time


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
        tasks += tasks_of(self.team)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.asked, self.worker = [], None
        self._begin()
        # External workers live on, and talk to a process that is there.
        self.book.claims = [self._rebound(claim) for claim in self.book.claims]

    def _rebound(self, claim: TicketClaim) -> TicketClaim:
        return TicketClaim(
            self.team.engine, lambda: self.team.log, claim._taken, claim._package, claim._by, claim._lease
        )

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
            await asyncio.wait(self.asked, timeout=5)  # a follower polls the log
        self._check_waiters()
        last.stop()
        await running

    async def _take_up_all(self) -> None:
        """Without a process that keeps watch, deadlines of waiting work are checked only when a caller asks for it."""
        for root in {state.root for state in self.watcher.under_way()}:
            self.asked.append(self.loop.create_task(self.team.resume(root)))
        await self._settle()

    async def _outlive_leases(self) -> None:
        """The lease of a claim runs out."""
        await self.clock.advance(self.lease + 1)
