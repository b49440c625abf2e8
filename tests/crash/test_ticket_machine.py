"""Everything that can happen to work that waits to be claimed, in any order: workers come, go and die, leases lapse,
deadlines pass, processes die.

Nobody has what another has, a claim that is lost changes nothing, and whatever was asked for ends, or visibly waits for
a person.
"""

import asyncio
import os
import tempfile
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from msgspec.structs import replace

from changeover import (
    Approve,
    Context,
    Edit,
    Expectations,
    HandoffPackage,
    Metadata,
    Mode,
    Reject,
    Respond,
    Task,
    Team,
    TicketClaim,
    Worker,
)
from changeover.errors import (
    ApprovalError,
    ChangeoverError,
    ClaimLost,
    ConversationNotFound,
    EngineError,
    IllegalTransition,
)
from changeover.facts import State as Standing
from changeover.guards.approval import Decision
from changeover.relay.ports import Log
from changeover.relay.queue import Queued
from changeover.relay.result import handoffs_of
from changeover.stores.memory import MemoryLog
from changeover.stores.open import Store, open_log
from changeover.testing import ManualClock
from changeover.testing.crash import MortalLog
from changeover.worker import News
from tests.crash.parties import ANSWERS, TIMEOUT
from tests.crash.pulling import AWAY, RECEIVERS, Book, PulledWatcher, Pullers, most_urgent
from tests.crash.test_protocol_machine import LAST

STRESS = "CHANGEOVER_STRESS" in os.environ
CONVERSATIONS = ("c", "d")
BACK = {Standing.REJECTED, Standing.RETURNED}

answers = st.sampled_from((*("yes",) * len(ANSWERS), *ANSWERS))
receivers = st.sampled_from((*AWAY * 3, *RECEIVERS))
words = st.one_of(
    st.sampled_from(("look", "pay", "wait", "!")),
    st.builds(lambda who, said: f">{who}/{said}", receivers, answers),
    st.builds(
        lambda who, said, below: f"*{who}/{said}:{','.join(below)}",
        receivers,
        answers,
        st.lists(st.sampled_from(("look", "pay", "wait", ">scribe/yes", "*clerk/yes", "*lead/no")), max_size=2),
    ),
)
plans = st.lists(words, max_size=3).map(" ".join)
decisions = st.one_of(
    st.just(Approve()),
    st.just(Reject("no")),
    st.just(Respond("answered")),
    st.sampled_from(RECEIVERS).map(lambda receiver: Edit(receiver=receiver)),
)
metadata = st.builds(
    lambda receiver, mode, priority: Metadata(receiver=receiver, mode=mode, priority=priority),
    receivers,
    st.sampled_from(Mode),
    st.sampled_from((0, 0, 5, 20, -10)),
)
ACTIONS = ("accept", "accept", "complete", "complete", "fail", "give_back", "reject", "heartbeat", "permit", "context")


class Tickets(RuleBasedStateMachine):
    """Users, programs, workers, people, time and crashes, all at once on one log."""

    which = st.integers(0, 7)
    where = st.sampled_from(CONVERSATIONS)
    lease = 60.0

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock()
        self.watcher, self.parties, self.book = PulledWatcher(), Pullers(self.clock), Book()
        self.store = self._place()
        self.roots: list[str] = list(CONVERSATIONS)
        self.asked: list[asyncio.Task[Any]] = []
        self.worker: tuple[Worker, asyncio.Task[None]] | None = None
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

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        async def settled() -> Any:
            try:
                return await work
            finally:
                await self._settle()

        return self.loop.run_until_complete(settled())

    async def _settle(self) -> None:
        """Return when nothing more is recorded."""
        quiet = 0
        while quiet < 2:
            before = self.watcher.seen
            await self._breathe()
            await self._look()
            quiet = quiet + 1 if self.watcher.seen == before else 0
        self.book.see(await self._queued())

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

    @rule(conversation=where, plan=plans, agent=st.sampled_from((None, None, *AWAY)))
    def a_user_speaks(self, conversation: str, plan: str, agent: str | None) -> None:
        self._ask(self.team.run(f"go {plan}", conversation=conversation, agent=agent))

    @rule(
        own=st.booleans(),
        task=st.builds(lambda answer, plan: f"/{answer}: {plan}", answers, plans),
        about=metadata,
        patience=st.sampled_from((None, None, 30.0, 200.0)),
        more=st.booleans(),
    )
    def a_program_submits(self, own: bool, task: str, about: Metadata, patience: float | None, more: bool) -> None:
        self.count += 1
        conversation = f"own-{self.count}" if own else CONVERSATIONS[self.count % 2]
        self.roots += [conversation] if own else []
        until = patience and datetime.fromtimestamp(self.clock.now() + patience, UTC)
        about = replace(about, conversation=conversation, deadline=until or None)
        others = Context(escalation_path=("clerk", "scribe") if more else ())
        given = HandoffPackage(Task(task), others, about, Expectations(timeout=TIMEOUT))
        self._ask(self._submit(given, f"key-{self.count}"))
        if more:
            self._ask(self._submit(given, f"key-{self.count}"))

    async def _submit(self, given: HandoffPackage, key: str) -> None:
        ticket = await self.team.submit(given, key=key)
        assert ticket.id == (await self.team.submit(given, key=key)).id
        await self.team.result(ticket)

    @rule(agent=st.sampled_from((*AWAY * 2, "scribe")), limit=st.integers(1, 3))
    def a_worker_claims(self, agent: str, limit: int) -> None:
        self._do(self._claim(agent, limit))

    async def _claim(self, agent: str, limit: int) -> None:
        now, queued = self._now(), await self._queued()
        self.book.see(queued)
        self.count += 1
        claims = await self.team.claim(agent, limit=limit, lease=self.lease, by=f"worker-{self.count}")
        self.book.take(claims, now)
        wanted = most_urgent(queued, agent, self.clock.now())[:limit]
        assert [claim.ticket.id for claim in claims] == wanted, "these are not the most urgent"
        assert all(claim.package.metadata.receiver == agent for claim in claims)

    @rule(which=which, what=st.sampled_from(ACTIONS))
    def a_worker_does_something_with_what_it_claimed(self, which: int, what: str) -> None:
        if self.book.claims:
            self._do(self._act(self.book.claims[-1 - which % len(self.book.claims)], what))

    async def _act(self, claim: TicketClaim, what: str) -> None:
        before = self._words_of(claim)
        if what not in ("accept", "heartbeat"):
            self.book.let_go(claim)  # who waits for it may take it before we hear that it is free
        try:
            await self._perform(claim, what)
        except ClaimLost as lost:
            await self._look()
            assert self._words_of(claim) == before, f"{claim} was lost, and {what} was recorded"
            self._was_right(claim, what, str(lost), await self._queued())
            return
        assert not self.book.is_lost(claim), f"{claim} was lost, and could {what}"
        if what not in ("accept", "heartbeat"):
            self.book.end(claim)
        if what == "complete":
            self.book.completed.append(claim.ticket.id)

    async def _perform(self, claim: TicketClaim, what: str) -> None:
        match what:
            case "complete":
                await claim.complete("done")
            case "permit":
                await claim.conditional(needs_permission=["it"])
            case "context":
                await claim.conditional(needs_more_context=["more"])
            case "fail" | "reject" | "give_back":
                await getattr(claim, what)("no")
            case _:
                await getattr(claim, what)()

    def _was_right(self, claim: TicketClaim, what: str, why: str, queued: list[Queued]) -> None:
        """Whoever is told that a claim is lost has lost it, or wanted what nobody can."""
        holds = [each for each in queued if each.ticket.id == claim.ticket.id and each.owner == claim._taken.token]
        impossible = what in ("reject", "permit", "context") or "somebody is at work on it" in why
        assert not holds or impossible, f"{claim} holds, and could not {what}: {why}"

    def _words_of(self, claim: TicketClaim) -> int:
        """How much was recorded in the name of a claim."""
        return self.watcher.said_by[claim._by]

    @rule(which=which)
    def a_worker_dies(self, which: int) -> None:
        if self.book.claims:
            self.book.claims.pop(which % len(self.book.claims))

    @rule(agents=st.sampled_from((AWAY, AWAY[:1], (*AWAY, "scribe"))), concurrency=st.integers(1, 3))
    def a_worker_of_our_own_comes(self, agents: tuple[str, ...], concurrency: int) -> None:
        if self.worker is None:
            self.count += 1
            worker = self._worker(f"own-{self.count}", agents, concurrency)
            self.worker = worker, self.loop.create_task(worker.run())
            self._do(self._settle())

    def _worker(self, name: str, agents: tuple[str, ...], concurrency: int = 4) -> Worker:
        lease = {"lease": self.lease}
        return Worker(self.team, agents, concurrency=concurrency, grace=0.0, name=name, news=self._heed, **lease)

    def _heed(self, news: News) -> None:
        if news.end is None:
            self.book.begin(news.ticket, "own", self._now())

    @rule()
    def our_own_worker_is_stopped(self) -> None:
        self._do(self._stop())

    async def _stop(self) -> None:
        if self.worker is not None:
            worker, running = self.worker
            self.worker = None
            worker.stop()
            await running
            kept = [each for each in await self._queued() if each.owner.startswith(f"{worker.name}#")]
            assert not kept, f"{worker.name} was stopped, and keeps {kept}"

    @rule(which=which)
    def somebody_frees_a_ticket(self, which: int) -> None:
        self._do(self._free(which))

    async def _free(self, which: int) -> None:
        if queued := [each for each in await self._queued() if each.owner]:
            ticket = queued[which % len(queued)].ticket.id
            self.book.lose(ticket)
            await self.store.queue.retry(ticket)

    @rule(which=which, decision=decisions)
    def a_person_decides(self, which: int, decision: Decision) -> None:
        self._do(self._decide(which, decision))

    async def _decide(self, which: int, decision: Decision) -> None:
        if waiting := await self.team.approvals():
            with suppress(ApprovalError):
                await self.team.decide(waiting[which % len(waiting)], decision, by="ana")

    @rule(which=which)
    def somebody_undoes_a_handoff(self, which: int) -> None:
        records = [record for state in self.watcher.states.values() for record in handoffs_of(state)]
        if found := [record for record in reversed(records) if record.state not in BACK]:
            self._do(self._undo(found[which % len(found)].id))

    async def _undo(self, handoff: str) -> None:
        with suppress(IllegalTransition):
            await self.team.rollback(handoff, reason="undone", by="ana")

    @rule(which=which, all_of_it=st.booleans())
    def somebody_cancels(self, which: int, all_of_it: bool) -> None:
        self._do(self._cancel(which, all_of_it))

    async def _cancel(self, which: int, all_of_it: bool) -> None:
        if all_of_it and (known := [root for root in self.roots if root in self.watcher.states]):
            await self.team.cancel(known[which % len(known)])
        elif queued := await self._queued():
            await self.team.cancel(queued[which % len(queued)].ticket)

    @rule(conversation=where)
    def somebody_asks_how_it_stands(self, conversation: str) -> None:
        if conversation in self.watcher.states:
            self._ask(self.team.resume(conversation))

    @rule(seconds=st.sampled_from((1.0, 25.0, 61.0, 61.0, 600.0)))
    def time_passes(self, seconds: float) -> None:
        self._do(self.clock.advance(seconds))

    @rule(reopened=st.booleans())
    def the_process_dies_and_another_comes(self, reopened: bool) -> None:
        self._do(self._die())
        if reopened:
            self._do(self.team.__aenter__())

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
        return TicketClaim(self.team.on_engine, claim._taken, claim.package, claim._by, claim._lease)

    @invariant()
    def every_handoff_goes_where_its_table_leads_and_every_ticket_is_one_of_an_open_task(self) -> None:
        self.watcher.check()
        assert self.parties.wrong + self.book.wrong == []
        assert {each.ticket.id for each in self._do(self._queued())} == self.watcher.tickets()
        listed = {request.id for request in self._do(self.team.approvals())}
        assert listed == self.watcher.awaited(), "what people are shown is not what is awaited"
        twice = [ticket for ticket, count in Counter(self.book.completed).items() if count > 1]
        assert not twice, f"{twice} were completed more than once"
        self._look_at_callers()

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
        """In memory nobody keeps the time of what was left waiting, unless somebody asks for it."""
        for root in {state.root for state in self.watcher.under_way()}:
            self.asked.append(self.loop.create_task(self.team.resume(root)))
        await self._settle()

    async def _outlive_leases(self) -> None:
        """Whoever has claimed something is not heard of any more."""
        await self.clock.advance(self.lease + 1)

    async def _pass_time(self) -> None:
        for _ in range(20):
            await self._settle()
            await self.clock.advance(100)
        await self._settle()
        self.watcher.check()

    async def _leave(self) -> None:
        await self.team.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


@pytest.mark.stress
@pytest.mark.timeout(900 if STRESS else 90)
def test_whatever_happens_to_work_that_waits_it_is_one_workers_until_it_ends():
    examples, steps = (600, 40) if STRESS else (30, 15)
    run_state_machine_as_test(
        Tickets, settings=settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    )


class OnAFile(Tickets):
    """The same on SQLite, where leases run by its own clock, and are short."""

    lease = 0.05

    def _place(self) -> Log:
        self._folder = tempfile.TemporaryDirectory()
        return open_log(Store(f"sqlite:///{self._folder.name}/store.db"))

    async def _breathe(self) -> None:
        await self.clock.advance(0)
        await asyncio.sleep(0.004)

    async def _take_up_all(self) -> None:
        """Whoever opens the store finds what is due."""

    async def _outlive_leases(self) -> None:
        await asyncio.sleep(2 * self.lease)

    def teardown(self) -> None:
        super().teardown()
        self._folder.cleanup()


@pytest.mark.stress
@pytest.mark.timeout(900 if STRESS else 90)
def test_whatever_happens_to_work_that_waits_on_a_database_it_is_one_workers_until_it_ends():
    examples, steps = (150, 25) if STRESS else (5, 10)
    run_state_machine_as_test(
        OnAFile, settings=settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    )
