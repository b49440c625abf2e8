"""Conversations in memory: state, commands in flight and waiting callers of each, and the cache of all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from itertools import islice
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from changeover.engines.clock import new_id
from changeover.engines.lock import Lock
from changeover.errors import EngineError, ProtocolError, WrittenByNewer
from changeover.facts import DELEGATE, ApprovalRequest, RunResult, Ticket
from changeover.ids import child_id, root_of
from changeover.relay.commands import AwaitApproval, AwaitClaim, Command, RunTool
from changeover.relay.decide.decision import awaits
from changeover.relay.events import Entry
from changeover.relay.history import recorded
from changeover.relay.ports.log import Log
from changeover.relay.ports.world import Override
from changeover.relay.result import error_of, result_of, waiting_result, whole_chain
from changeover.relay.run import Outcome
from changeover.relay.state import State
from changeover.relay.stream import Recorded
from changeover.relay.tickets import delegated, resting
from changeover.relay.wait_time import WaitTime

Ended = Outcome | RunResult
"""The outcome of a run, or the interim result of one that waits for a person or a worker."""
Reader = Callable[[Recorded], None]

# Shared by all conversations: the garbage collector visits every collection that each of thousands has of its own.
NO_COMMANDS: frozenset[str] = frozenset()
NO_TASKS: frozenset[asyncio.Future[None]] = frozenset()

WAITS = frozenset({AwaitApproval, AwaitClaim})
"""Commands for which this process does nothing but wait."""


class Conversation(Struct, eq=False):
    """One conversation's state, its commands in flight, and the callers that wait for it."""

    state: State
    known: int = 0
    """The position up to which readers have been given the log."""
    epoch: int = 0
    """The lease under which this process owns the conversation."""
    owned: bool = False
    """True while this process owns the conversation, as far as it knows."""
    lock: Lock = field(default_factory=Lock)
    stale: bool = False
    """True if the state in memory is ahead of the log or incomplete: fold again before using it."""
    missed: bool = False
    """True if others appended to the log, and commands in flight were not yet checked against that."""
    halted: bool = False
    """True if the store failed while this process worked on it, or was about to go on; it still owns the
    conversation, so it has to go on itself."""
    flight: dict[str, tuple[asyncio.Future[None], Command]] = {}
    """Outstanding commands, each with its task, or with a plain future if a worker has to claim it."""
    leaving: frozenset[asyncio.Future[None]] = NO_TASKS
    """Tasks of abandoned commands that were cancelled and still clean up."""
    follower: asyncio.Task[None] | None = None
    listener: asyncio.Task[None] | None = None
    readers: list[Reader] = []
    waiters: dict[int, list[asyncio.Future[Ended]]] = {}
    """Callers that wait until a run ends or waits for a person or a worker."""
    patient: dict[int, list[asyncio.Future[Ended]]] = {}
    """Callers that wait until a run ends."""
    expected: tuple[tuple[Callable[[State], bool], asyncio.Future[None]], ...] = ()
    """Callers that wait until a condition holds for the state that is in the log."""
    asleep: bool = False
    """True while nothing goes on until a person decides or a worker claims what is `pending`."""
    pending: Sequence[ApprovalRequest | Ticket] = ()
    may_rest: bool = False
    """True once a person or a worker was asked, here or below: check whether anything else goes on."""
    declined: frozenset[str] = NO_COMMANDS
    """The waits for a person about which the program's `ask` gave no decision."""
    parked: frozenset[str] = NO_COMMANDS
    """Commands that wait for a delegate on which another process, or this one later, works."""
    unnotified: list[Recorded] = []
    """Recorded events that the observer has not received yet, in order."""
    notifying: asyncio.Lock | None = None
    attempt: str = ""
    """The cause of an entry that is being committed, if there is an observer: the task that commits it may be
    cancelled before it learns that it did."""
    promised: dict[str, tuple[str, str]] = {}
    """Commands whose receiver accepted and is limited in its capacity: the receiver, and where it will work."""
    overrides: Mapping[int, Override] = {}
    """Overrides of the team's declarations that callers gave for runs that have not ended, by run."""
    ended: tuple[int, ...] = ()
    """Runs whose end is committed, and whose callers do not have the outcome yet."""

    def __post_init__(self) -> None:
        self.known = self.state.position

    @property
    def idle(self) -> bool:
        """True if the cache may drop it: the log has all there is to know."""
        return not (self.flight or self.awaited or self.lock.locked() or self.override)

    @property
    def news(self) -> bool:
        """True if there may be something to tell observers or callers."""
        return bool(self.unnotified or self.ended or self.may_rest or self.expected)

    @property
    def awaited(self) -> bool:
        """True if a caller or a reader waits for it to go on."""
        return bool(self.waiters or self.patient or self.readers or self.expected)

    @property
    def busy(self) -> bool:
        """True if commands are in flight, and not all of them are waits."""
        return bool(self.flight) and not self.asleep

    @property
    def performs(self) -> bool:
        """True if commands are in flight, and not only tools whose outcomes are recorded although another process has
        taken the conversation over."""
        return bool(self.flight) and (self.owned or not all(map(is_recorded_late, self.commands)))

    @property
    def commands(self) -> list[Command]:
        """The commands in flight."""
        return [command for _, command in self.flight.values()]

    @property
    def override(self) -> Override | None:
        """The overrides of the team's declarations for the current run."""
        return self.overrides.get(self.state.run.id) if self.overrides and self.state.run else None

    def works(self, commands: Sequence[Command]) -> bool:
        """True if one of these commands, or of those in flight, is more than a wait."""
        for command in commands:  # a loop instead of `any`, because this runs with every entry
            if type(command) not in WAITS:
                return True
        return any(type(command) not in WAITS for _, command in self.flight.values())

    def drop(self, unwanted: Callable[[Command], bool]) -> None:
        """Cancel these commands; the next fold gives them out again as far as they are still outstanding."""
        for id, (task, command) in list(self.flight.items()):
            if unwanted(command):
                del self.flight[id]
                self.stale = True
                task.cancel()

    def abandon(self) -> None:
        """Cancel commands that are not outstanding any more. A tool that runs at most once goes on: its outcome is
        recorded in any case."""
        self.missed = False
        for id, (task, command) in list(self.flight.items()):
            if not awaits(self.state, id) and not is_recorded_late(command):
                self.promised.pop(id, None)
                del self.flight[id]
                task.cancel()
                self.leaving |= {task}
                task.add_done_callback(self._forget)

    def resting_ticket(self) -> str:
        """The ticket of the active agent, if nothing is left to do under it; else an empty text."""
        own = self.state.run.ticket if self.state.run else ""
        return own if own in resting(self.state, self.commands) else ""

    def publish(self, events: Sequence[Recorded]) -> None:
        """Pass recorded events to the readers."""
        for reader in self.readers:
            for event in events:
                reader(event)

    def leave(self, reader: Reader) -> None:
        """Remove a reader, if it is there."""
        if reader in self.readers:
            self.readers.remove(reader)

    def wait(self, run: int, future: asyncio.Future[Ended], patient: bool = False) -> asyncio.Future[Ended]:
        """Give the future the outcome of a run, now or when it ends. The caller holds the lock."""
        if run in self.state.outcomes:
            self._resolve(future, run)
        else:
            (self.patient if patient else self.waiters).setdefault(run, []).append(future)
        return future

    def expect(self, holds: Callable[[State], bool], future: asyncio.Future[None]) -> asyncio.Future[None]:
        """Resolve the future once this condition holds for the state. The caller holds the lock."""
        self.expected += ((holds, future),)
        return future

    def stop_waiting(self, run: int, future: asyncio.Future[Ended]) -> None:
        """Remove a patient caller."""
        if future.done() and not future.cancelled():
            future.exception()  # retrieved, or asyncio would log it
        if future in (waiting := self.patient.get(run, [])):
            waiting.remove(future)
            if not waiting:
                del self.patient[run]

    def tell_pending(self) -> None:
        """Give the callers that are not patient a result that says what is pending."""
        waiting, self.waiters = self.waiters, {}
        for run, futures in waiting.items():
            for future in futures:
                if not future.done():
                    future.set_result(waiting_result(self.state, run, list(self.pending)))

    def note_ends(self, count: int) -> None:
        """Remember the last runs to end, now that their end is committed."""
        self.ended += tuple(islice(reversed(self.state.outcomes), count))

    def catch_up(self, state: State, entries: Sequence[Entry]) -> None:
        """Replace the state by one that was folded from the log; `entries` are those it was folded from."""
        if self.readers:
            self.publish([record for record in recorded(entries) if record.position >= self.known])
        if self.attempt:
            mine = {entry.position: len(entry.events) for entry in entries if entry.cause == self.attempt}
            spans = [range(position, position + count) for position, count in mine.items() if position >= self.known]
            self.unnotified += [each for each in recorded(entries) if any(each.position in span for span in spans)]
            self.attempt = ""
        self.missed = self.missed or state.position > self.known
        self.state, self.stale, self.known = state, False, state.position
        self.ended += tuple(run for run in {**self.waiters, **self.patient} if run in state.outcomes)

    def wake(self) -> None:
        """Give callers the outcomes of runs that have ended, and resolve the conditions that hold now."""
        if self.expected and not self.stale:
            self.expected = tuple(each for each in self.expected if not self._is_met(*each))
        ended, self.ended = self.ended, ()
        for run in ended:
            for future in (*self.waiters.pop(run, ()), *self.patient.pop(run, ())):
                self._resolve(future, run)

    def fail(self, error: BaseException) -> None:
        """Raise an error of the engine in all waiting callers."""
        waiting: list[asyncio.Future[Any]] = [future for _, future in self.expected]
        for futures in (*self.waiters.values(), *self.patient.values()):
            waiting += futures
        self.waiters, self.patient, self.expected = {}, {}, ()
        for future in waiting:
            if not future.done():
                future.set_exception(error)
                future.exception()  # read once, so that asyncio does not report it where the caller has gone

    def enter_hooks(self) -> None:
        """Mark the current task as the one that calls this conversation's hooks."""
        task = asyncio.current_task()
        assert task is not None
        _hook_tasks.set((*_open_hook_tasks(), (self, task)))

    def hook_task(self) -> asyncio.Task[Any] | None:
        """The task that calls this conversation's hooks, if the current code runs in one of them."""
        return next((task for each, task in _open_hook_tasks() if each is self), None)

    def _forget(self, task: asyncio.Future[None]) -> None:
        """Drop the task of an abandoned command, which has cleaned up."""
        self.leaving -= {task}

    def _is_met(self, holds: Callable[[State], bool], future: asyncio.Future[None]) -> bool:
        """True if the awaited condition holds, or its caller has stopped waiting."""
        if not future.done() and holds(self.state):
            future.set_result(None)
        return future.done()

    def _resolve(self, future: asyncio.Future[Ended], run: int) -> None:
        outcome = self.state.outcomes.get(run)
        if outcome is None or future.done():
            return
        future.set_result(outcome)


def is_recorded_late(command: Command) -> bool:
    """True if the outcome of this command is recorded even when it is not outstanding any more."""
    return isinstance(command, RunTool) and command.at_most_once


KEPT = 1_024
"""Number of conversations in the cache from which on idle ones are dropped."""


class Conversations:
    """A cache of conversations: loads them from the log, and drops those that have been idle for longest."""

    def __init__(self, log: Log, kept: int = KEPT) -> None:
        self._log, self._kept = log, kept
        self._cached: dict[str, Conversation] = {}

    def new(self) -> Conversation:
        """A new conversation with an id of its own, for which the log need not be read."""
        id = new_id()
        return self._keep(id, Conversation(State(id)))

    async def get(self, id: str) -> Conversation:
        """The conversation, from the cache or the log."""
        live = self._cached.pop(id, None)
        if live is None:
            entries = await self._log.read(id)
            # Another task may have loaded it while this one was reading.
            live = self._cached.pop(id, None) or Conversation(State(id).fold(entries))
        return self._keep(id, live)

    def __iter__(self) -> Iterator[Conversation]:
        return iter(list(self._cached.values()))

    def cached(self, id: str) -> Conversation | None:
        """The conversation, if it is in memory."""
        return self._cached.get(id)

    async def result(self, live: Conversation, ended: Ended) -> RunResult:
        """The result of a run for its caller; raises the error of one that failed."""
        own = ended.handoffs if isinstance(ended, Outcome) else ended.handoff_chain
        chain = await whole_chain(own, self._state) if any(each.mode is DELEGATE for each in own) else list(own)
        if isinstance(ended, RunResult):
            return replace(ended, handoff_chain=chain)
        result = result_of(live.state.id, ended, chain)
        if ended.fault is not None:
            raise error_of(ended.fault, result)
        return result

    async def _state(self, id: str) -> State:
        """The state of a delegate's conversation, from the cache only if its run has ended: else another process may
        have gone on with it."""
        state = (await self.get(id)).state
        return state if state.last and not state.run else State(id).fold(await self._log.read(id))

    async def refresh(self, live: Conversation) -> None:
        """Fold the log again. The caller holds the lock."""
        entries = await self._log.read(live.state.id)
        live.catch_up(State(live.state.id).fold(entries), entries)

    async def ensure_readable(self, live: Conversation) -> None:
        """Fold again if the state is stale; raise WrittenByNewer if this version does not know all of its events."""
        if live.stale:
            await self.refresh(live)
        if live.state.unreadable:
            raise WrittenByNewer(live.state.id, live.state.unreadable)

    async def child(self, parent: Conversation, id: str) -> Conversation:
        """A delegate's conversation, whose events also go to the readers of its parent."""
        child = await self.get(id)
        child.readers = parent.readers  # the same list, so that it follows every change
        return child

    async def waited(self, live: Conversation, now: float) -> float:
        """Seconds that the current run of a conversation, with its delegates, has waited for people."""
        return (await self._waiting(live, now)).seconds

    async def _waiting(self, live: Conversation, now: float) -> WaitTime:
        run, last = live.state.run, live.state.last
        if run is None:
            return last.run.waiting if last else WaitTime()
        found = run.waiting.until(now)
        for offer in delegated(run):
            found.add(await self._waiting(await self.get(child_id(live.state.id, offer.call)), now))
        return found

    def drop(self, root: str) -> None:
        """Remove a conversation and its delegates from the cache."""
        for id in [id for id in self._cached if root_of(id) == root]:
            del self._cached[id]

    def fail(self, error: EngineError) -> None:
        """Raise an error in all waiting callers, and empty the cache."""
        for live in self._cached.values():
            live.fail(error)
        self._cached.clear()

    def _keep(self, id: str, live: Conversation) -> Conversation:
        if len(self._cached) >= self._kept:
            self._drop_idle()
        self._cached[id] = live  # at the end: the least recently used come first
        return live

    def _drop_idle(self) -> None:
        for id, live in list(islice(self._cached.items(), self._kept // 8)):
            if live.idle:
                del self._cached[id]


HookTask = tuple[Conversation, asyncio.Task[Any]]

_hook_tasks: ContextVar[tuple[HookTask, ...]] = ContextVar("hook_tasks", default=())
"""The tasks that call hooks and from which the current code was started, each with its conversation."""


def in_hook() -> bool:
    """True if the current code runs in a hook."""
    return bool(_open_hook_tasks())


def refuse_in_hook(conversation: str) -> None:
    """Raise ProtocolError if the current code runs in a hook for which the tree of this conversation waits."""
    if conversation and any(live.state.root == root_of(conversation) for live, _ in _open_hook_tasks()):
        raise ProtocolError(
            f"a hook cannot run its own conversation {conversation!r}: the run waits for the hook; "
            "run it when the hook has returned"
        )


def _open_hook_tasks() -> tuple[HookTask, ...]:
    # A task that a hook started may outlive it, and runs in no hook then.
    return tuple(each for each in _hook_tasks.get() if not each[1].done())
