"""Everything that can happen to work that waits to be claimed, in any order: workers come, go and die, leases lapse,
deadlines pass, processes die.

A ticket has one owner, a lost claim changes nothing, and all that was asked for ends, or visibly waits for
a person.
"""

import asyncio
import os
import tempfile
import time
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule
from msgspec.structs import replace

from changeover import Approve, Edit, Reject, Respond
from changeover.errors import (
    ApprovalError,
    ClaimLost,
    IllegalTransition,
)
from changeover.facts import State as HandoffState
from changeover.guards.approval import Decision
from changeover.protocol import Context, Expectations, HandoffPackage, Metadata, Mode, Task, TicketClaim
from changeover.relay.ports.log import Log
from changeover.relay.ports.queue import Queued
from changeover.relay.result import handoffs_of
from changeover.stores.store import Store, open_log
from changeover.ticket import retry
from tests.crash.machines import CONVERSATIONS, run_machine
from tests.crash.parties import ANSWERS, TIMEOUT
from tests.crash.tickets import AWAY, RECEIVERS, Ticketing, most_urgent

STRESS = "CHANGEOVER_STRESS" in os.environ
BACK = {HandoffState.REJECTED, HandoffState.RETURNED}

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


class Tickets(Ticketing):
    """Users, programs, workers, people, time and crashes, all at once on one log."""

    which = st.integers(0, 7)
    where = st.sampled_from(CONVERSATIONS)

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
        await self._see_clearly()
        queued = await self._queued()
        self.book.see(queued)
        self.count += 1
        claims = await self.team.claim(agent, limit=limit, lease=self.lease, by=f"worker-{self.count}")
        self.book.take(claims, self._now())
        found, wanted = [claim.ticket.id for claim in claims], most_urgent(queued, agent, self.clock.now())[:limit]
        assert found == wanted, f"{found} were taken, and these are the most urgent: {wanted}"
        assert all(claim.package.metadata.receiver == agent for claim in claims)

    async def _see_clearly(self) -> None:
        """No claim is lost between two checks."""

    @rule(which=which, what=st.sampled_from(ACTIONS))
    def a_worker_does_something_with_what_it_claimed(self, which: int, what: str) -> None:
        if self.book.claims:
            self._do(self._act(self.book.claims[-1 - which % len(self.book.claims)], what))

    async def _act(self, claim: TicketClaim, what: str) -> None:
        before = self._words_of(claim)
        if what not in ("accept", "heartbeat"):
            self.book.let_go(claim)  # a waiting worker may claim it before this call returns
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
        """ClaimLost is raised only for a lost claim or an impossible action."""
        holds = [each for each in queued if each.ticket.id == claim.ticket.id and each.owner == claim._taken.token]
        impossible = what in ("reject", "permit", "context") or "another process is at work on it" in why
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

    @rule()
    def our_own_worker_is_stopped(self) -> None:
        self._do(self._stop())

    @rule(which=which)
    def a_ticket_is_freed(self, which: int) -> None:
        self._do(self._free(which))

    async def _free(self, which: int) -> None:
        if queued := [each for each in await self._queued() if each.owner]:
            ticket = queued[which % len(queued)].ticket.id
            self.book.lose(ticket)
            await retry(self.store, ticket)

    @rule(which=which, decision=decisions)
    def a_person_decides(self, which: int, decision: Decision) -> None:
        self._do(self._decide(which, decision))

    async def _decide(self, which: int, decision: Decision) -> None:
        if waiting := await self.team.approvals():
            with suppress(ApprovalError):
                await self.team.decide(waiting[which % len(waiting)], decision, by="ana")

    @rule(which=which)
    def a_handoff_is_rolled_back(self, which: int) -> None:
        records = [record for state in self.watcher.states.values() for record in handoffs_of(state)]
        if found := [record for record in reversed(records) if record.state not in BACK]:
            self._do(self._undo(found[which % len(found)].id))

    async def _undo(self, handoff: str) -> None:
        with suppress(IllegalTransition):
            await self.team.rollback(handoff, reason="undone", by="ana")

    @rule(which=which, all_of_it=st.booleans())
    def a_run_is_cancelled(self, which: int, all_of_it: bool) -> None:
        self._do(self._cancel(which, all_of_it))

    async def _cancel(self, which: int, all_of_it: bool) -> None:
        if all_of_it and (known := [root for root in self.roots if root in self.watcher.states]):
            await self.team.cancel(known[which % len(known)])
        elif queued := await self._queued():
            await self.team.cancel(queued[which % len(queued)].ticket)

    @rule(conversation=where)
    def a_caller_asks_for_the_result(self, conversation: str) -> None:
        if conversation in self.watcher.states:
            self._ask(self.team.resume(conversation))

    @rule(seconds=st.sampled_from((1.0, 25.0, 61.0, 61.0, 600.0)))
    def time_passes(self, seconds: float) -> None:
        self._do(self._let_pass(seconds))

    @rule(reopened=st.booleans())
    def the_process_dies_and_another_comes(self, reopened: bool) -> None:
        self._do(self._die())
        if reopened:
            self._do(self.team.__aenter__())

    @invariant()
    def every_handoff_goes_where_its_table_leads_and_every_ticket_is_one_of_an_open_task(self) -> None:
        self._check()
        assert self.parties.wrong + self.book.wrong == []
        assert {each.ticket.id for each in self.queued} == self.watcher.tickets()
        twice = [ticket for ticket, count in Counter(self.book.completed).items() if count > 1]
        assert not twice, f"{twice} were completed more than once"


@pytest.mark.stress
@pytest.mark.timeout(900 if STRESS else 90)
def test_whatever_happens_to_work_that_waits_it_is_one_workers_until_it_ends():
    examples, steps = (600, 40) if STRESS else (30, 15)
    run_machine(Tickets, examples, steps)


class OnAFile(Tickets):
    """The same on SQLite, where leases run by its own clock, and are short."""

    lease, looks = 0.2, 100

    def _place(self) -> Log:
        self._folder = tempfile.TemporaryDirectory()
        return open_log(Store(f"sqlite:///{self._folder.name}/store.db"))

    def _now(self) -> float:
        return time.time()

    async def _let_pass(self, seconds: float) -> None:
        await super()._let_pass(seconds)
        if seconds > 60:
            await asyncio.sleep(self.lease)

    async def _see_clearly(self) -> None:
        for each in await self._queued():
            left = (each.until or 0.0) - self._now()
            await asyncio.sleep(left if 0 < left < self.lease / 2 else 0)

    async def _breathe(self) -> None:
        await super()._breathe()
        await asyncio.sleep(0.004)

    async def _outlive_leases(self) -> None:
        await asyncio.sleep(2 * self.lease)

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            asyncio.run(self.store.close())
            self._folder.cleanup()


@pytest.mark.stress
@pytest.mark.timeout(900)
@pytest.mark.skipif(not STRESS, reason="its leases run in real time, which a busy machine does not keep: make stress")
def test_whatever_happens_to_work_that_waits_on_a_database_it_is_one_workers_until_it_ends():
    run_machine(OnAFile, 150, 25)
