"""One conversation in memory, while somebody works on it or waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import islice

from changeover.errors import error_of
from changeover.facts import ApprovalRequest, RunResult, Ticket
from changeover.relay.commands import Command
from changeover.relay.events import Entry
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
