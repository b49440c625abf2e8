"""Conversations in memory: state, commands in flight and waiting callers of each, and the cache of all of them."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from itertools import islice
from typing import Any

from changeover.errors import EngineError, error_of
from changeover.facts import ApprovalRequest, RunResult, Ticket
from changeover.relay.commands import Command
from changeover.relay.events import Entry
from changeover.relay.ports import Log
from changeover.relay.result import result_of, waiting_result
from changeover.relay.state import State
from changeover.relay.stream import Recorded, TextDelta, ThinkingDelta, recorded

Reader = Callable[[Recorded | TextDelta | ThinkingDelta], None]


class Live:
    """A conversation's state, what is in flight for it, and who waits for it."""

    __slots__ = (
        "asleep",
        "attempt",
        "declined",
        "ended",
        "epoch",
        "flight",
        "follower",
        "halted",
        "known",
        "listener",
        "lock",
        "may_rest",
        "missed",
        "owned",
        "patient",
        "pending",
        "promised",
        "readers",
        "stale",
        "state",
        "telling",
        "untold",
        "waiters",
    )

    def __init__(self, state: State) -> None:
        self.state = state
        self.known = state.position
        """How much of the log those who read along have been told."""
        self.epoch = 0
        """Under which lease this process owns it."""
        self.owned = False
        """Whether this process still owns it, as far as it knows."""
        self.lock = asyncio.Lock()
        self.stale = False
        """The state in memory ran ahead of the log: fold again before trusting it."""
        self.missed = False
        """The log went on without us, and what follows from that for what is in flight was not looked at yet."""
        self.halted = False
        """The store failed while this was worked on. This process still owns it, so it has to go on with it itself."""
        self.flight: dict[str, tuple[asyncio.Future[None], Command]] = {}
        """What is outstanding, each with the task that sees to it; of what others have to claim first, a future."""
        self.follower: asyncio.Task[None] | None = None
        self.listener: asyncio.Task[None] | None = None
        self.readers: list[Reader] = []
        self.waiters: dict[int, list[asyncio.Future[RunResult]]] = {}
        """Callers who want the result of a run, or to hear that it waits for a person."""
        self.patient: dict[int, list[asyncio.Future[RunResult]]] = {}
        """Those who want the end of a run, however long it waits."""
        self.asleep = False
        """Nothing goes on here until a person decides about what is `pending`, or somebody claims it."""
        self.pending: list[ApprovalRequest | Ticket] = []
        self.may_rest = False
        """Somebody was asked, here or below: it is worth looking whether anything else goes on."""
        self.declined: set[str] = set()
        """The waits that the program itself was asked about, and left to a person."""
        self.untold: list[Recorded] = []
        """What is recorded and no observer knows yet, in order."""
        self.telling: asyncio.Lock | None = None
        self.attempt = ""
        """The cause of an entry that is being committed, if observers want to know of it: whoever commits it may be
        stopped before it is told that it did."""
        self.promised: dict[str, tuple[str, str]] = {}
        """Commands that asked a receiver who has room, which is kept for them: the receiver, and where it will work."""
        self.ended: list[int] = []
        """Runs whose end is committed and not yet told."""

    @property
    def quiet(self) -> bool:
        """Whether it can be forgotten: the log has all there is to know."""
        return not (self.flight or self.awaited or self.lock.locked())

    @property
    def news(self) -> bool:
        """Whether there may be something to tell."""
        return bool(self.untold or self.ended or self.may_rest)

    @property
    def awaited(self) -> bool:
        """Whether somebody wants to know how it goes on."""
        return bool(self.waiters or self.patient or self.readers)

    def emit(self, delta: TextDelta | ThinkingDelta) -> None:
        for reader in self.readers:
            reader(delta)

    def publish(self, events: Sequence[Recorded]) -> None:
        for reader in self.readers:
            for event in events:
                reader(event)

    def wait(self, run: int, future: asyncio.Future[RunResult], patient: bool = False) -> asyncio.Future[RunResult]:
        """Give the future the result of a run, now or when it has ended. The caller holds the lock."""
        if run in self.state.outcomes:
            self._tell(future, run)
        else:
            (self.patient if patient else self.waiters).setdefault(run, []).append(future)
        return future

    def stop_waiting(self, run: int, future: asyncio.Future[RunResult]) -> None:
        """Somebody patient does not want to know any more."""
        if future.done() and not future.cancelled():
            future.exception()  # heard, though nobody listens: else asyncio complains
        if future in (waiting := self.patient.get(run, [])):
            waiting.remove(future)
            if not waiting:
                del self.patient[run]

    def tell_to_wait(self) -> None:
        """Tell those who are not patient that somebody has to decide first."""
        waiting, self.waiters = self.waiters, {}
        for run, futures in waiting.items():
            for future in futures:
                if not future.done():
                    future.set_result(waiting_result(self.state, run, list(self.pending)))

    def note_ends(self, count: int) -> None:
        """Remember the last runs to end, now that their end is committed."""
        self.ended += islice(reversed(self.state.outcomes), count)

    def catch_up(self, state: State, entries: Sequence[Entry]) -> None:
        """Go on from what the log says, which may be more than was known here; `entries` lead up to it."""
        if self.readers:
            self.publish([record for record in recorded(entries) if record.position >= self.known])
        if self.attempt:
            mine = {entry.position: len(entry.events) for entry in entries if entry.cause == self.attempt}
            told = [range(position, position + count) for position, count in mine.items() if position >= self.known]
            self.untold += [each for each in recorded(entries) if any(each.position in span for span in told)]
            self.attempt = ""
        self.missed = self.missed or state.position > self.known
        self.state, self.stale, self.known = state, False, state.position
        self.ended += [run for run in {**self.waiters, **self.patient} if run in state.outcomes]

    def wake(self) -> None:
        """Tell those who wait for runs that have ended."""
        while self.ended:
            run = self.ended.pop(0)
            for future in (*self.waiters.pop(run, ()), *self.patient.pop(run, ())):
                self._tell(future, run)

    def fail(self, error: BaseException) -> None:
        """Tell everybody who waits that the machinery below failed."""
        waiting = [*self.waiters.values(), *self.patient.values()]
        self.waiters, self.patient = {}, {}
        for futures in waiting:
            for future in futures:
                if not future.done():
                    future.set_exception(error)

    def _tell(self, future: asyncio.Future[RunResult], run: int) -> None:
        outcome = self.state.outcomes.get(run)
        if outcome is None or future.done():
            return
        result = result_of(self.state.id, outcome)
        if outcome.fault is None:
            future.set_result(result)
        else:
            future.set_exception(error_of(outcome.fault, result))


KEPT = 1_024

# Our own: a program that seeds Python's gets the same numbers again. Not os.urandom: that is a system call each time.
_RANDOM = random.Random()
if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_RANDOM.seed)


class Lives:
    """Loads conversations from the log, and forgets those that have been quiet for longest."""

    def __init__(self, log: Log, kept: int = KEPT) -> None:
        self._log, self._kept = log, kept
        self._lives: dict[str, Live] = {}

    def new(self) -> Live:
        """A conversation that nobody can have begun: its id is made here, and the log need not be asked."""
        conversation = f"{_RANDOM.getrandbits(64):016x}"
        return self._keep(conversation, Live(State(conversation)))

    async def get(self, conversation: str) -> Live:
        live = self._lives.pop(conversation, None)
        if live is None:
            entries = await self._log.read(conversation)
            # Another task may have loaded it while this one was reading.
            live = self._lives.pop(conversation, None) or Live(State(conversation).fold(entries))
        return self._keep(conversation, live)

    def __iter__(self) -> Iterator[Live]:
        return iter(list(self._lives.values()))

    def here(self, conversation: str) -> Live | None:
        """The conversation, if it is in memory."""
        return self._lives.get(conversation)

    async def refresh(self, live: Live) -> None:
        """Fold again what the log says. The caller holds the lock."""
        entries = await self._log.read(live.state.id)
        live.catch_up(State(live.state.id).fold(entries), entries)

    def drop(self, root: str) -> None:
        """Know nothing of a conversation and those below it."""
        for conversation in [id for id in self._lives if id.partition("/")[0] == root]:
            del self._lives[conversation]

    def fail(self, error: EngineError) -> None:
        """Tell everybody who still waits, and forget all."""
        for live in self._lives.values():
            live.fail(error)
        self._lives.clear()

    def _keep(self, conversation: str, live: Live) -> Live:
        if len(self._lives) >= self._kept:
            self._forget()
        self._lives[conversation] = live  # at the end: the oldest stand first
        return live

    def _forget(self) -> None:
        for conversation, live in list(islice(self._lives.items(), self._kept // 8)):
            if live.quiet:
                del self._lives[conversation]


Notice = tuple[Live, asyncio.Task[Any]]

_notices: ContextVar[tuple[Notice, ...]] = ContextVar("notices", default=())
"""In which tasks the hooks of which conversations are called, of which one does what is done here."""


def calls_hooks(live: Live) -> None:
    """The task that says so calls the hooks of this conversation, until it ends."""
    task = asyncio.current_task()
    assert task is not None
    _notices.set((*_open(), (live, task)))


def caller_of(live: Live) -> asyncio.Task[Any] | None:
    """The task that calls the hooks of this conversation, if one of these is what acts here."""
    return next((task for each, task in _open() if each is live), None)


def in_hook() -> bool:
    """Whether it is a hook that acts here."""
    return bool(_open())


def _open() -> tuple[Notice, ...]:
    # What a hook has begun may go on for long after it, and is no hook's then.
    return tuple(notice for notice in _notices.get() if not notice[1].done())
