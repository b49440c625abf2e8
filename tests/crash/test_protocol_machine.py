"""Everything that the protocol of handoffs knows, in any order, by several parties, through crashes.

A handoff only ever goes where its table leads, each task is somebody's, and nothing is lost: whatever was begun ends,
or visibly waits for a person.
"""

import asyncio
import os
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from changeover import (
    ApprovalRequest,
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
    Task,
    Team,
)
from changeover.errors import ApprovalError, ChangeoverError, EngineError, IllegalTransition
from changeover.facts import State as Standing
from changeover.guards.approval import Decision
from changeover.handoffs.protocol import TRANSITIONS, Signal
from changeover.messages import Assistant
from changeover.relay.events import HandoffRolledBack, RollbackDone, RunResumed
from changeover.relay.naming import call_of
from changeover.relay.result import handoffs_of
from changeover.relay.run import TURNING, Awaiting, Stopping
from changeover.relay.state import State
from changeover.relay.turn import Asked, Delegated, OpenCall
from changeover.stores.memory import MemoryLog
from changeover.testing import ManualClock, assert_valid_history
from tests.crash.parties import ANSWERS, RECEIVERS, TIMEOUT, Parties

STRESS = "CHANGEOVER_STRESS" in os.environ
CONVERSATIONS = ("c", "d")
OPEN = (Standing.PENDING, Standing.ACCEPTED, Standing.WORKING)
BACK = {Standing.REJECTED, Standing.RETURNED}
"""What cannot be undone."""


def reachable(state: Standing) -> set[Standing]:
    """Where a handoff may come from here, step by step; no lease lapses where nobody pulls."""
    found, ahead = {state}, [state]
    while ahead:
        steps = [after for signal, after in TRANSITIONS[ahead.pop()].items() if signal is not Signal.LAPSE]
        ahead += [after for after in steps if after not in found]
        found.update(steps)
    return found


REACHABLE = {state: reachable(state) for state in Standing}


class Watcher:
    """Folds every log event by event, and sees what each event does to handoffs."""

    def __init__(self) -> None:
        self.states: dict[str, State] = {}
        self.undone: list[str] = []
        """Transfers that were rolled back."""
        self.cleaned: list[str] = []

    async def look(self, log: MemoryLog, roots: Sequence[str]) -> None:
        for root in roots:
            for entry in await log.tree(root):
                state = self.states.setdefault(entry.conversation, State(entry.conversation))
                if entry.position < state.position:
                    continue
                state.at = entry.at
                for event in entry.events:
                    self._take_in(state, event)

    def _take_in(self, state: State, event: Any) -> None:
        before = {record.id: record.state for record in handoffs_of(state)}
        state.apply(event)
        after = handoffs_of(state)
        ids = [record.id for record in after]
        assert len(ids) == len(set(ids)), f"one handoff stands there twice: {ids}"
        assert before.keys() <= set(ids), f"{event} lost a handoff of {before}"
        for record in after:
            was = before.get(record.id, Standing.PENDING)
            legal = REACHABLE[was] | ({Standing.WORKING} if isinstance(event, RunResumed) else set())
            assert record.state in legal, f"{event} brought {record.id} from {was} to {record.state}"
        if isinstance(event, HandoffRolledBack):
            self.undone += [f"{state.id}:{call}<" for call in event.undone]
        if isinstance(event, RollbackDone):
            self.cleaned.append(f"{state.id}:{event.call}<")

    def check(self) -> None:
        """Each task is somebody's, and one's alone."""
        for state in self.states.values():
            records = handoffs_of(state)
            self._check_transfers(state, [each for each in records if each.mode is Mode.TRANSFER])
            self._check_delegates(state, [each for each in records if each.mode is Mode.DELEGATE])
            self._check_attempts(state, records)
            thread = list(state.thread)
            if thread and isinstance(thread[-1], Assistant) and thread[-1].calls:
                thread.pop()  # its answers come when they are all there
            assert_valid_history(thread)

    def _check_transfers(self, state: State, records: Sequence[HandoffRecord]) -> None:
        working = [record for record in records if record.state is Standing.WORKING]
        assert len(working) <= 1, f"several have {state.id}: {working}"
        if working:
            assert (working[0].receiver, state.run is not None) == (state.agent, True), f"nobody works on {working}"
        if state.run is None:
            assert not [record for record in records if record.state in OPEN], f"{state.id} ended with {records}"

    def _check_delegates(self, state: State, records: Sequence[HandoffRecord]) -> None:
        phases = [call.phase for call in _calls(state)]
        out = {f"{state.id}:{phase.offer.call}" for phase in phases if isinstance(phase, Delegated)}
        working = {record.id for record in records if record.state is Standing.WORKING}
        assert working == out, f"{working} are at work, and {out} are awaited"

    def _check_attempts(self, state: State, records: Sequence[HandoffRecord]) -> None:
        """Of one call, one handoff is open at a time: whoever declined has nothing to do with it any more."""
        calls = [call_of(record.id.rpartition(":")[2]) for record in records if record.state in OPEN]
        assert len(calls) == len(set(calls)), f"a task was offered to several at once: {records}"

    def under_way(self) -> Iterator[State]:
        return (state for state in self.states.values() if state.run or state.inbox)

    def awaited(self) -> set[str]:
        """What people have to decide."""
        return {request.id for state in self.states.values() for request in _requests(state)}


def _calls(state: State) -> list[OpenCall]:
    """The calls of the turn that is under way."""
    turn = state.run.phase.turn if state.run and isinstance(state.run.phase, TURNING) else None
    return list(turn.calls.values()) if turn else []


def _requests(state: State) -> list[ApprovalRequest]:
    """What people have to decide before it goes on here."""
    if state.run and isinstance(state.run.phase, Stopping):
        return []
    own = [state.run.phase.request] if state.run and isinstance(state.run.phase, Awaiting) else []
    return [*own, *(call.phase.request for call in _calls(state) if isinstance(call.phase, Asked))]


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

    which = st.integers(0, 7)
    where = st.sampled_from(CONVERSATIONS)

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock()
        self.log, self.watcher, self.parties = MemoryLog(), Watcher(), Parties(self.clock)
        self.team: Team = self.parties.team(store=self.log)
        self.roots: list[str] = list(CONVERSATIONS)
        self.asked: list[asyncio.Task[Any]] = []
        self.count = 0

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

    async def _undo(self, record: HandoffRecord) -> None:
        before = len(await self.log.tree(record.id.partition(":")[0]))
        try:
            await self.team.rollback(record.id, reason="undone", by="ana")
        except IllegalTransition:
            assert record.state in BACK, f"{record} could not be undone"
            assert len(await self.log.tree(record.id.partition(":")[0])) == before
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
        self.team = self.parties.team(store=self.log)
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
        self._do(self.watcher.look(self.log, self.roots))
        self.watcher.check()
        assert self.parties.wrong == []
        listed = {request.id for request in self._do(self.team.approvals())}
        assert listed == self.watcher.awaited(), "what people are shown is not what is awaited"
        for task in self.asked:
            if task.done() and isinstance(error := task.exception(), Exception):
                assert isinstance(error, ChangeoverError), f"a caller was told {error!r}"
                assert not isinstance(error, EngineError), f"a caller was told of the machinery: {error!r}"

    def teardown(self) -> None:
        try:
            self._do(self._end())
        finally:
            self._do(self._leave())
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
        assert {id: state.rollbacks for id, state in self.watcher.states.items() if state.rollbacks} == {}
        assert sorted(self.watcher.undone) == sorted(self.watcher.cleaned)
        waiting_still = [task for task in self.asked if not task.done()]
        assert not waiting_still, f"somebody waits for ever: {waiting_still}"

    async def _pass_time(self) -> None:
        for _ in range(20):
            await self._settle()
            await self.clock.advance(1_000)
        await self.watcher.look(self.log, self.roots)
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
    examples, steps = (1_500, 40) if STRESS else (40, 15)
    run_state_machine_as_test(
        Protocol, settings=settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    )
