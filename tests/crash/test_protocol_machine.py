"""Everything that the protocol of handoffs knows, in any order, by several parties, through crashes.

A handoff only ever goes where its table leads, each task is somebody's, and nothing is lost: whatever was begun ends,
or visibly waits for a person.
"""

import asyncio
import os
import tempfile
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from changeover import (
    Approve,
    Context,
    Edit,
    Expectations,
    HandoffPackage,
    HandoffRecord,
    Metadata,
    Mode,
    Reject,
    Respond,
    Store,
    Task,
    Team,
)
from changeover.errors import ApprovalError, ChangeoverError, ConversationNotFound, EngineError, IllegalTransition
from changeover.facts import State as Standing
from changeover.guards.approval import Decision
from changeover.relay.result import handoffs_of
from changeover.stores.memory import MemoryLog
from changeover.testing import ManualClock
from tests.crash.machines import assert_same, run_machine
from tests.crash.parties import ANSWERS, RECEIVERS, TIMEOUT, Parties
from tests.crash.watching import Watcher

STRESS = "CHANGEOVER_STRESS" in os.environ
CONVERSATIONS = ("c", "d")
BACK = {Standing.REJECTED, Standing.RETURNED}
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


class Protocol(RuleBasedStateMachine):
    """Users, programs, people, time and crashes, all at once on one log."""

    looks = 1

    which = st.integers(0, 7)
    where = st.sampled_from(CONVERSATIONS)

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock()
        self.watcher, self.parties = Watcher(), Parties(self.clock)
        self.store = self._place()
        self.team: Team = self.parties.team(store=self.store)
        self.roots: list[str] = list(CONVERSATIONS)
        self.asked: list[asyncio.Task[Any]] = []
        self.count = 0

    def _place(self) -> MemoryLog | Store:
        """Where everything is recorded."""
        return MemoryLog()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        async def settled() -> Any:
            try:
                return await work
            finally:
                await self._settle()

        return self.loop.run_until_complete(settled())

    async def _settle(self) -> None:
        await self.clock.advance(0)
        await self.clock.advance(0)
        await self._look()

    async def _look(self) -> None:
        for root in self.roots:
            with suppress(ConversationNotFound):
                self.watcher.look(await self.team.history(root))

    def _ask(self, work: Coroutine[Any, Any, Any]) -> None:
        self.asked.append(self.loop.create_task(work))
        self._do(self._settle())

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
    def somebody_undoes_a_handoff(self, which: int, possible: bool) -> None:
        records = [record for state in self.watcher.states.values() for record in handoffs_of(state)]
        if found := [record for record in reversed(records) if (record.state in BACK) is not possible]:
            self._do(self._undo(found[which % len(found)]))

    @rule(which=which)
    def somebody_undoes_a_transfer_that_was_taken(self, which: int) -> None:
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
    def somebody_cancels(self, conversation: str) -> None:
        self._do(self._cancel(conversation))

    async def _cancel(self, what: str) -> None:
        if what in self.watcher.states:
            await self.team.cancel(what)

    @rule(conversation=where)
    def somebody_asks_how_it_stands(self, conversation: str) -> None:
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
        tasks = [*self.asked, *(self.team._engine._tasks if self.team._engine else ())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.asked = []

    @invariant()
    def every_handoff_goes_where_its_table_leads_and_every_task_is_somebodys(self) -> None:
        self.watcher.check()
        assert self.parties.wrong == []
        assert_same(self._shown, self.watcher.awaited, "what people are shown is not what is awaited", self.looks)
        self._look_at_callers()

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
        """What was left is taken up; whoever waits, waits for a person; when all is decided, all has ended."""
        await self.team.__aenter__()
        for _ in range(200):
            await self._pass_time()
            waiting = await self.team.approvals()
            for state in self.watcher.under_way():
                root = state.id.partition("/")[0]
                mine = [each for each in waiting if each.conversation.partition("/")[0] == root]
                assert mine, f"{state.id} neither ends nor waits for anybody: {state.run and state.run.phase}"
            if not waiting:
                break
            await self.team.decide(waiting[0], LAST[waiting[0].kind], by="ana")
        assert not await self.team.approvals(), "there is no end to what people are asked"
        assert [state.id for state in self.watcher.under_way()] == []
        assert [state.id for state in self.watcher.states.values() if state.rollbacks] == []
        assert sorted(self.watcher.undone) == sorted(self.watcher.cleaned)
        self._look_at_callers()
        waiting_still = [task for task in self.asked if not task.done()]
        assert not waiting_still, f"somebody waits for ever: {waiting_still}"

    async def _pass_time(self) -> None:
        for _ in range(20):
            await self._settle()
            await self.clock.advance(1_000)
        await self._settle()
        self.watcher.check()

    async def _leave(self) -> None:
        await self.team.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


LAST: dict[str, Decision] = {
    "approval": Reject("late"),
    "permission": Reject("late"),
    "escalation": Respond("answered"),
    "task": Respond("answered"),
}
"""How people decide in the end, so that it comes to an end."""


@pytest.mark.stress
@pytest.mark.timeout(900 if STRESS else 90)
def test_whatever_the_parties_of_handoffs_do_every_task_is_somebodys_until_it_ends():
    examples, steps = (600, 40) if STRESS else (40, 15)
    run_machine(Protocol, examples, steps)


class OnAFile(Protocol):
    """The same on SQLite, where every record takes a while, and each process closes before the next one opens."""

    looks = 100

    def _place(self) -> Store:
        self._folder = tempfile.TemporaryDirectory()
        return Store(f"sqlite:///{self._folder.name}/store.db")

    async def _settle(self) -> None:
        """Return when nothing more is recorded."""
        quiet = 0
        while quiet < 3:
            before = self.watcher.seen
            await self.clock.advance(0)
            await asyncio.sleep(0.004)
            await self._look()
            quiet = quiet + 1 if self.watcher.seen == before else 0

    async def _die(self) -> None:
        for task in self.asked:
            task.cancel()
        await asyncio.gather(*self.asked, return_exceptions=True)
        self.asked = []
        await self.team.close()

    def teardown(self) -> None:
        super().teardown()
        self._folder.cleanup()


@pytest.mark.stress
@pytest.mark.timeout(900 if STRESS else 90)
def test_whatever_the_parties_of_handoffs_do_on_a_database_every_task_is_somebodys_until_it_ends():
    examples, steps = (150, 25) if STRESS else (6, 10)
    run_machine(OnAFile, examples, steps)
