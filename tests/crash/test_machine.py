"""Several engines on one log, with faults and crashes in any order: nothing is lost or recorded twice.

The event loop has a clock of its own, which moves only when every task waits; so an hour takes no time.
"""

import asyncio
import os
import selectors
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeAlias

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from changeover import Agent, RunContext, RunResult, Team, tool
from changeover.agent.moves import UseTool
from changeover.errors import ChangeoverError, ConversationNotFound, LeaseLost, ModelError, Owned
from changeover.messages import Assistant, User
from changeover.relay.events import Entry, RunCompleted, RunFailed, ToolStarted, UserSpoke
from changeover.relay.ports.log import Circuits, Head, Reserve
from changeover.relay.ports.queue import Claim
from changeover.relay.ports.world import Model, Request, Toolkit, ToolOutcome, World
from changeover.relay.projection.rows import Rows
from changeover.relay.state import State
from changeover.relay.stream import TextDelta, ThinkingDelta
from changeover.stores.memory.log import MemoryLog
from changeover.testing import Reply, assert_valid_history, calls, hands_off, says
from changeover.testing.crash import PassingLog
from changeover.testing.scripted import resolve
from tests.crash.checks import events_of
from tests.crash.machines import run_machine
from tests.relay.world import tasks_of

STRESS = "CHANGEOVER_STRESS" in os.environ
CONVERSATIONS = ("c", "d")
TEAMS = 3
MOMENT = 0.05
"""Seconds that the log takes before and after a write: a process that dies then does not know the outcome."""

TURNS = ("look", "pay", "look+pay", "pay+look+slow", "slow", ">", "?look", "?pay", "?>", "!")
"""What a model does: call these tools, hand over; `?` fails the first time, `!` fails for good."""

Trouble = Literal["", "lease lost", "owned by another"]


class Skipping(selectors.SelectSelector):
    """A loop in which waiting moves the clock instead."""

    passed = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "every task waits, and nothing is scheduled"
        self.passed += max(0.0, timeout)
        return super().select(0)


class QuickLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._skipping = Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.passed


class LoopClock:
    """The loop's time, also for those who wait before they try again."""

    def __init__(self, loop: QuickLoop) -> None:
        self.now = loop.time

    async def sleep_until(self, at: float) -> None:
        await asyncio.sleep(max(0.0, at - self.now()))

    alarm = sleep_until


Owners: TypeAlias = dict[str, tuple["TroubledLog", int]]
"""Which process works on a conversation, and by which of its leases."""


class TroubledLog(PassingLog):
    """One process's way to the log that all share. If `owners` are kept, one of them works on a conversation at a time;
    else all may work on the same at once, and the log alone keeps them from doing harm."""

    epoch = 1

    def __init__(self, log: MemoryLog, owners: Owners | None) -> None:
        super().__init__(log)
        self._owners = owners
        self.trouble: Trouble = ""
        self.dead = False

    def owns(self, conversation: str) -> bool:
        return self._owners is None or self._owners.get(conversation) == (self, self.epoch)

    def _is_elsewhere(self, conversation: str) -> bool:
        """Whether another live process works on it."""
        if self.trouble:
            return True
        owner, epoch = (self._owners or {}).get(conversation, (self, 0))
        return owner is not self and owner.may_begin() and owner.epoch == epoch

    def _own(self, conversation: str, working: bool) -> None:
        if self._owners is not None:
            self._owners.pop(conversation, None)
            if working:
                self._owners[conversation] = (self, self.epoch)

    def trouble_with(self, trouble: Trouble) -> None:
        """Take a new lease, which owns nothing; a conversation that is owned under a valid lease cannot be taken."""
        if "lease lost" in (self.trouble, trouble) or trouble == "owned by another":
            self.epoch += self.trouble != trouble
        self.trouble = trouble

    async def append(
        self,
        entry: Entry,
        head: Head | None,
        reserve: Reserve | None = None,
        claim: Claim | None = None,
        circuits: Circuits | None = None,
        rows: Rows | None = None,
    ) -> None:
        asked_under = self.epoch
        await asyncio.sleep(MOMENT)
        if self.trouble == "lease lost" or self.epoch != asked_under:
            raise LeaseLost("for the sake of this test")
        known = await self._log.read(entry.conversation)
        if head is not None and known and self._is_elsewhere(entry.conversation):
            raise Owned(entry.conversation, "another process")
        await self._log.append(entry, head, reserve, claim, circuits, rows)
        if head is not None:
            self._own(entry.conversation, head.working)
        await asyncio.sleep(MOMENT)

    async def claim(self, conversation: str) -> bool:
        await asyncio.sleep(MOMENT)
        if self._is_elsewhere(conversation):
            return False
        if conversation in await self._log.unfinished():  # an ended conversation has no owner
            self._own(conversation, True)
        return True

    def may_begin(self) -> bool:
        return self.trouble != "lease lost" and not self.dead

    async def release(self, conversation: str, position: int, rests: str = "", due: float | None = None) -> bool:
        if self.owns(conversation):
            self._own(conversation, False)
        return True

    async def owned(self) -> dict[str, int]:
        return {}

    async def unfinished(self, team: str | None = None) -> list[str]:
        return [id for id in await self._log.unfinished(team) if not self._is_elsewhere(id)]

    async def close(self) -> None:
        """The log outlives the process."""


class Planned:
    """A model that follows the user's message, and answers with its key."""

    async def reply(self, request: Request) -> Reply:
        await asyncio.sleep(MOMENT)
        messages = request.messages
        spoke = max(index for index, message in enumerate(messages) if isinstance(message, User))
        key, *turns = messages[spoke].text.split()
        done = sum(isinstance(message, Assistant) for message in messages[spoke:])
        return resolve(_turn(turns[done], request) if done < len(turns) else says(f"answer to {key}"), request)

    async def stream(self, request: Request) -> AsyncIterator[TextDelta | ThinkingDelta | Reply]:
        yield await self.reply(request)


def _turn(turn: str, request: Request) -> Reply:
    if turn == "!":
        raise ModelError("out of order", agent=request.agent, retryable=False)
    if turn.startswith("?") and request.attempt == 1:
        raise ModelError("overloaded", agent=request.agent)
    turn = turn.removeprefix("?")
    if turn == ">":
        return hands_off("billing" if request.agent == "triage" else "triage", "go on")
    return calls(*((name, {}) for name in turn.split("+")))


class Witness:
    """Sees what begins, by which process, and what must not."""

    def __init__(self) -> None:
        self.paid: Counter[str] = Counter()
        self.wrong: list[str] = []

    def watch(self, log: TroubledLog, world: World) -> World:
        return replace(
            world,
            models={id: WatchedModel(model, log, self) for id, model in world.models.items()},
            toolkits={id: WatchedToolkit(toolkit, log, self) for id, toolkit in world.toolkits.items()},
        )

    def see(self, log: TroubledLog, what: str) -> None:
        if not log.may_begin():
            self.wrong.append(f"{what} was begun without a lease")
        if not log.owns(what.partition(":")[0]):
            self.wrong.append(f"{what} was begun by a process that does not own it")


class WatchedModel:
    def __init__(self, model: Model, log: TroubledLog, witness: Witness) -> None:
        self._model, self._log, self._witness = model, log, witness

    async def reply(self, request: Request) -> Reply:
        self._witness.see(self._log, f"{request.conversation}:{request.command}")
        try:
            assert_valid_history(request)
        except AssertionError as error:
            self._witness.wrong.append(str(error))
        return await self._model.reply(request)

    def stream(self, request: Request) -> AsyncIterator[TextDelta | ThinkingDelta | Reply]:
        return self._model.stream(request)


class WatchedToolkit:
    def __init__(self, toolkit: Toolkit, log: TroubledLog, witness: Witness) -> None:
        self._toolkit, self._log, self._witness = toolkit, log, witness

    def tools(self) -> Sequence[UseTool]:
        return self._toolkit.tools()

    def misfit(self, name: str, args: dict[str, Any], context: RunContext) -> str:
        return self._toolkit.misfit(name, args, context)

    async def call(self, name: str, args: dict[str, Any], context: RunContext) -> ToolOutcome:
        self._witness.see(self._log, context.idempotency_key)
        if name == "pay":
            self._witness.paid[context.idempotency_key] += 1
        return await self._toolkit.call(name, args, context)


@tool(read_only=True)
async def look() -> str:
    await asyncio.sleep(MOMENT)
    return "looked"


@tool(at_most_once=True)
async def pay() -> str:
    await asyncio.sleep(MOMENT)
    return "paid"


@tool(timeout=0.5)
async def slow() -> str:
    await asyncio.sleep(1_000)
    return "never"


Said = tuple[str, str, str]
"""The conversation, the key and the text."""


class Processes(RuleBasedStateMachine):
    """Teams that share a log, as processes share a store, and all that may happen to them."""

    said = Bundle[Said]("said")
    which = st.integers(0, TEAMS - 1)
    soon = st.sampled_from((0.0, MOMENT / 2, 1.5 * MOMENT, 2.5 * MOMENT, 0.3, 0.8))

    def __init__(self) -> None:
        super().__init__()
        self.loop = QuickLoop()
        self.log, self.witness = MemoryLog(), Witness()
        agents = [Agent(id, tools=[look, pay, slow]) for id in ("triage", "billing")]
        self.team = Team(agents, model=Planned(), clock=LoopClock(self.loop))
        self.owners: Owners | None = None
        self.logs: list[TroubledLog] = []
        self.teams: list[Team] = []
        self.everything: list[Said] = []
        self.asked: list[tuple[int, Said | None, asyncio.Task[RunResult]]] = []

    # With and without ownership: without it the log alone keeps the processes from harm, which is harder.
    @initialize(owned=st.booleans())
    def processes_come(self, owned: bool) -> None:
        self.owners = {} if owned else None
        for which in range(TEAMS):
            self._join(which)

    def _join(self, at: int) -> None:
        log = TroubledLog(self.log, self.owners)
        self.logs[at : at + 1] = [log]
        self.teams[at : at + 1] = [self.team.on(log, lambda world: self.witness.watch(log, world))]

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def _ask(self, which: int, said: Said | None, work: Coroutine[Any, Any, RunResult]) -> None:
        self.asked.append((which, said, self.loop.create_task(work)))

    async def _run(self, which: int, said: Said) -> RunResult:
        conversation, key, text = said
        team = self.teams[which]
        return await team.run(text, conversation=conversation, key=key, agent="triage")

    @rule(
        target=said,
        which=which,
        conversation=st.sampled_from(CONVERSATIONS),
        turns=st.lists(st.sampled_from(TURNS), max_size=3),
    )
    def a_user_speaks(self, which: int, conversation: str, turns: list[str]) -> Said:
        key = f"key-{len(self.everything)}"
        said = (conversation, key, " ".join([key, *turns]))
        self.everything.append(said)
        self._ask(which, said, self._run(which, said))
        return said

    @rule(which=which, said=said)
    def the_same_is_said_again(self, which: int, said: Said) -> None:
        self._ask(which, said, self._run(which, said))

    @rule(which=which, conversation=st.sampled_from(CONVERSATIONS))
    def a_caller_asks_for_the_result(self, which: int, conversation: str) -> None:
        async def resume() -> RunResult:
            return await self.teams[which].resume(conversation)

        self._ask(which, None, resume())

    @rule(seconds=st.sampled_from((0.0, MOMENT / 2, MOMENT, 0.1, 0.25, 0.7, 3.0)))
    def time_passes(self, seconds: float) -> None:
        self._do(asyncio.sleep(seconds))

    @rule(which=which, reopened=st.booleans())
    def a_process_dies_and_another_comes(self, which: int, reopened: bool) -> None:
        callers = [task for asker, _, task in self.asked if asker == which]
        self.asked = [asked for asked in self.asked if asked[0] != which or asked[2].done()]
        self._do(self._kill(self.teams[which], callers))
        self.logs[which].dead = True
        self._join(which)
        if reopened:
            self._do(self.teams[which].__aenter__())

    async def _kill(self, team: Team, callers: Sequence[asyncio.Task[RunResult]]) -> None:
        tasks = [*callers, *tasks_of(team)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @rule(which=which, soon=soon)
    def a_lease_runs_out(self, which: int, soon: float) -> None:
        self.loop.call_later(soon, self.logs[which].trouble_with, "lease lost")

    @rule(which=which, soon=soon)
    def every_conversation_is_owned_by_another(self, which: int, soon: float) -> None:
        self.loop.call_later(soon, self.logs[which].trouble_with, "owned by another")

    @rule(which=which, soon=soon)
    def the_trouble_is_over(self, which: int, soon: float) -> None:
        self.loop.call_later(soon, self.logs[which].trouble_with, "")

    @invariant()
    def the_log_is_whole(self) -> None:
        for conversation in CONVERSATIONS:
            entries = self._do(self.log.read(conversation))
            position = 0
            for entry in entries:
                assert (entry.position, entry.seq) == (position, position + 1), f"a gap before {entry}"
                position += len(entry.events)
            assert (causes := Counter(entry.cause for entry in entries)) == dict.fromkeys(causes, 1)
            thread = list(State(conversation).fold(entries).thread)
            if thread and isinstance(thread[-1], Assistant) and thread[-1].calls:
                thread.pop()  # its answers come when they are all there
            assert_valid_history(thread)

    @invariant()
    def nothing_happened_that_must_not(self) -> None:
        assert self.witness.wrong == []
        assert all(count == 1 for count in self.witness.paid.values()), f"paid twice: {self.witness.paid}"

    def teardown(self) -> None:
        try:
            self.time_passes(1)  # no trouble is to come any more
            for log in self.logs:
                log.trouble_with("")
            self._do(self._end())
            self.the_log_is_whole()
            self.nothing_happened_that_must_not()
        finally:
            self._do(self._leave())
            self.loop.close()

    async def _end(self) -> None:
        """Every caller gets an answer, the work of dead processes is resumed, and everything has ended."""
        await self._all_are_answered()
        for team in self.teams:
            await team.__aenter__()
        await asyncio.sleep(60)
        for conversation in CONVERSATIONS:
            self._assert_ended(conversation, await self.log.read(conversation))
        for which in range(TEAMS):
            for said in self.everything:
                self._ask(which, said, self._run(which, said))
        await self._all_are_answered()
        self._assert_right_answers()

    async def _all_are_answered(self) -> None:
        if self.asked:
            _, waiting = await asyncio.wait([task for _, _, task in self.asked], timeout=120)
            whose = [(which, said) for which, said, task in self.asked if task in waiting]
            assert not whose, f"callers wait for ever: {whose}"

    def _assert_right_answers(self) -> None:
        answers: dict[Said, set[tuple[str, str]]] = {said: set() for said in self.everything}
        for _, asked, task in self.asked:
            if asked is not None:
                answers[asked].add(_answer(task))
            else:
                with suppress(ModelError, ConversationNotFound):
                    assert task.result().output.startswith("answer to ")
        for (_, key, text), given in answers.items():
            assert len(given) == 1, f"{text!r} was answered differently: {given}"
            assert given.pop()[0] == ("ModelError" if "!" in text else f"answer to {key}")

    def _assert_ended(self, conversation: str, entries: Sequence[Entry]) -> None:
        state = State(conversation).fold(entries)
        assert (state.run, state.inbox) == (None, {}), f"{conversation} has not ended"
        events = events_of(entries)
        said = [position for position, event in enumerate(events) if isinstance(event, UserSpoke)]
        completed = [event.run for event in events if isinstance(event, RunCompleted)]
        failed = {event.run for event in events if isinstance(event, RunFailed)}
        assert sorted([*completed, *failed]) == said, "not every run has ended once"
        begun = Counter(event.call for event in events if isinstance(event, ToolStarted))
        assert all(count == 1 for count in begun.values()), f"intended twice: {begun}"
        assert {key for key in self.witness.paid if key.startswith(f"{conversation}:")} <= {
            f"{conversation}:{call}" for call in begun
        }

    async def _leave(self) -> None:
        for team in self.teams:
            await team.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


def _answer(task: asyncio.Task[RunResult]) -> tuple[str, str]:
    """What a caller got, and of which run."""
    try:
        return task.result().output, task.result().run_id
    except ModelError as error:
        return "ModelError", error.result.run_id if error.result else ""
    except ChangeoverError as error:
        raise AssertionError(f"a caller was told of the machinery: {error!r}") from error


@pytest.mark.stress
@pytest.mark.timeout(900 if STRESS else 60)
def test_whatever_happens_to_processes_that_share_a_log_everything_said_is_answered_once():
    examples, steps = (2_000, 40) if STRESS else (30, 15)
    run_machine(Processes, examples, steps)


class LeaseRunsOut(MemoryLog):
    """A log in which everything is another process's for a while, and whose lease runs out when word is left there."""

    def __init__(self) -> None:
        super().__init__()
        self.elsewhere = self.lost = False

    async def append(
        self,
        entry: Entry,
        head: Head | None,
        reserve: Reserve | None = None,
        claim: Claim | None = None,
        circuits: Circuits | None = None,
        rows: Rows | None = None,
    ) -> None:
        if self.elsewhere and head is not None:
            raise Owned(entry.conversation, "another process")
        if self.elsewhere and not self.lost:
            self.lost = True
            raise LeaseLost("it ran out just now")
        self.elsewhere = False  # the other process has gone when word is left for it
        await super().append(entry, head, reserve, claim, circuits, rows)


async def test_a_lease_that_runs_out_while_word_is_left_for_another_process_is_no_business_of_the_caller():
    log = LeaseRunsOut()
    async with Team([Agent("triage")], model=Planned(), store=log) as team:
        await team.run("one", conversation="c")
        log.elsewhere = True
        async with asyncio.timeout(5):
            assert (await team.run("two", conversation="c", key="k")).output == "answer to two"
    assert log.lost


def test_a_command_that_one_process_gives_up_because_another_began_it_is_not_lost():
    processes = Processes()
    processes.processes_come(owned=False)
    processes.a_user_speaks(conversation="c", turns=["pay+look+slow"], which=0)
    processes.a_process_dies_and_another_comes(reopened=False, which=0)
    processes.teardown()  # which checks that every caller is answered
