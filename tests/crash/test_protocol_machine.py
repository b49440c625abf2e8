"""Everything that the protocol of handoffs knows, in any order, by several parties, through crashes.

A handoff follows its transition table, each task has one owner, and nothing is lost: all that was begun ends,
or visibly waits for a person.
"""

import asyncio
import os
import tempfile
from contextlib import suppress

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from changeover import Approve, Edit, Reject, Respond, Store
from changeover.errors import ApprovalError, IllegalTransition
from changeover.facts import State as HandoffState
from changeover.guards.approval import Decision
from changeover.protocol import Context, Expectations, HandoffPackage, HandoffRecord, Metadata, Mode, Task
from changeover.relay.result import handoffs_of
from changeover.stores.memory.log import MemoryLog
from tests.crash.machines import CONVERSATIONS, Living, run_machine
from tests.crash.parties import ANSWERS, RECEIVERS, TIMEOUT, Parties
from tests.crash.watcher import Watcher
from tests.relay.world import tasks_of

STRESS = "CHANGEOVER_STRESS" in os.environ
BACK = {HandoffState.REJECTED, HandoffState.RETURNED}
"""What cannot be undone."""

BELOW = ("look", "pay", "wait", ">sales/yes", ">billing/no", "*clerk/later", "!")
"""What a delegate may be told to do."""
# Most agree, for what is never taken is soon over.
answers = st.sampled_from((*("yes",) * len(ANSWERS), *ANSWERS))
receivers = st.sampled_from(("billing", "billing", *RECEIVERS))
words = st.one_of(
    st.sampled_from(("look", "pay", "wait", "!")),
    st.builds(lambda who, said: f">{who}/{said}", receivers, answers),
    st.builds(
        lambda who, said, below: f"*{who}/{said}:{','.join(below)}",
        receivers,
        answers,
        st.lists(st.sampled_from(BELOW), max_size=2),
    ),
)
plans = st.lists(words, max_size=4).map(" ".join)
decisions = st.one_of(
    st.just(Approve()),
    st.just(Reject("no")),
    st.just(Respond("answered")),
    st.sampled_from(RECEIVERS).map(lambda receiver: Edit(receiver=receiver)),
)


class Protocol(Living):
    """Users, programs, people, time and crashes, all at once on one log."""

    which = st.integers(0, 7)
    where = st.sampled_from(CONVERSATIONS)

    def __init__(self) -> None:
        super().__init__()
        self.watcher, self.parties = Watcher(), Parties(self.clock)
        self.store = self._place()
        self.team = self.parties.team(store=self.store)

    def _place(self) -> MemoryLog | Store:
        """Where everything is recorded."""
        return MemoryLog()

    @rule(conversation=where, plan=plans)
    def a_user_speaks(self, conversation: str, plan: str) -> None:
        self._ask(self.team.run(f"go {plan}", conversation=conversation))

    @rule(
        conversation=st.sampled_from(("", *CONVERSATIONS)),
        plan=plans,
        answer=answers,
        receiver=receivers,
        mode=st.sampled_from(Mode),
        more=st.booleans(),
    )
    def a_program_offers(
        self, conversation: str, plan: str, answer: str, receiver: str, mode: Mode, more: bool
    ) -> None:
        self.count += 1
        key = f"offer-{self.count}"
        self.roots += [] if conversation else [f"own-{self.count}"]
        about = Metadata(
            receiver=receiver, mode=mode, conversation=conversation or f"own-{self.count}", idempotency_key=key
        )
        others = Context(escalation_path=("billing", "sales", "ana") if more else ())
        given = HandoffPackage(Task(f"/{answer}: {plan}"), others, about, Expectations(timeout=TIMEOUT))
        self._ask(self.team.offer(given))
        if more:
            self._ask(self.team.offer(given))

    @rule(which=which, decision=decisions)
    def a_person_decides(self, which: int, decision: Decision) -> None:
        self._do(self._decide(which, decision))

    async def _decide(self, which: int, decision: Decision) -> None:
        if waiting := await self.team.approvals():
            with suppress(ApprovalError):
                await self.team.decide(waiting[which % len(waiting)], decision, by="ana")

    @rule(which=which, possible=st.booleans())
    def a_handoff_is_rolled_back(self, which: int, possible: bool) -> None:
        records = [record for state in self.watcher.states.values() for record in handoffs_of(state)]
        if found := [record for record in reversed(records) if (record.state in BACK) is not possible]:
            self._do(self._undo(found[which % len(found)]))

    @rule(which=which)
    def an_accepted_transfer_is_rolled_back(self, which: int) -> None:
        records = [record for state in self.watcher.states.values() for record in state.handoffs]
        taken = [each for each in reversed(records) if each.mode is Mode.TRANSFER and each.state not in BACK]
        if taken:
            self._do(self._undo(taken[which % len(taken)]))

    async def _undo(self, record: HandoffRecord) -> None:
        before = self.watcher.seen
        try:
            await self.team.rollback(record.id, reason="undone", by="ana")
        except IllegalTransition:
            assert record.state in BACK, f"{record} could not be undone"
            await self._look()
            assert self.watcher.seen == before
        else:
            assert record.state not in BACK, f"{record} was undone again"

    @rule(conversation=where)
    def a_run_is_cancelled(self, conversation: str) -> None:
        self._do(self._cancel(conversation))

    async def _cancel(self, what: str) -> None:
        if what in self.watcher.states:
            await self.team.cancel(what)

    @rule(conversation=where)
    def a_caller_asks_for_the_result(self, conversation: str) -> None:
        if conversation in self.watcher.states:
            self._ask(self.team.resume(conversation))

    @rule(seconds=st.sampled_from((1.0, 25.0, 61.0, 600.0)))
    def time_passes(self, seconds: float) -> None:
        self._do(self.clock.advance(seconds))

    @rule(reopened=st.booleans())
    def the_process_dies_and_another_comes(self, reopened: bool) -> None:
        self._do(self._die())
        self.team = self.parties.team(store=self.store)
        if reopened:
            self._do(self.team.__aenter__())

    async def _die(self) -> None:
        tasks = [*self.asked, *tasks_of(self.team)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.asked = []

    @invariant()
    def every_handoff_follows_its_table_and_every_task_has_one_owner(self) -> None:
        self._check()
        assert self.parties.wrong == []

    async def _end(self) -> None:
        await self.team.__aenter__()
        await self._decide_all()
        assert [state.id for state in self.watcher.states.values() if state.callbacks] == []
        assert sorted(self.watcher.undone) == sorted(self.watcher.cleaned)
        self._check_waiters()


@pytest.mark.stress
@pytest.mark.timeout(900 if STRESS else 90)
def test_every_task_has_an_owner_until_it_ends():
    examples, steps = (600, 40) if STRESS else (40, 15)
    run_machine(Protocol, examples, steps)


class OnAFile(Protocol):
    """The same on SQLite, where every record takes a while, and each process closes before the next one opens."""

    looks = 100

    def _place(self) -> Store:
        self._folder = tempfile.TemporaryDirectory()
        return Store(f"sqlite:///{self._folder.name}/store.db")

    async def _breathe(self) -> None:
        await super()._breathe()
        await asyncio.sleep(0.004)

    async def _die(self) -> None:
        for task in self.asked:
            task.cancel()
        await asyncio.gather(*self.asked, return_exceptions=True)
        self.asked = []
        await self.team.close()

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self._folder.cleanup()


@pytest.mark.stress
@pytest.mark.timeout(900 if STRESS else 90)
def test_every_task_has_an_owner_until_it_ends_on_a_database():
    examples, steps = (150, 25) if STRESS else (6, 10)
    run_machine(OnAFile, examples, steps)
