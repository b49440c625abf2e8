"""Dispatcher: performs the outstanding commands of conversations on one event loop, and records their outcomes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from changeover.engines.local.children import Children
from changeover.engines.local.claims import Claims
from changeover.engines.local.conversation import (
    WAITS,
    Conversation,
    Conversations,
    is_recorded_late,
    refuse_in_hook,
)
from changeover.engines.local.directory import LiveDirectory
from changeover.engines.local.followers import Followers, Watch, undamaged
from changeover.engines.local.lapses import Lapses
from changeover.engines.local.perform import Performer
from changeover.engines.local.recorder import Postponed, Recorder
from changeover.engines.local.stream import Reading
from changeover.engines.local.waits import Timeouts, Waits
from changeover.engines.local.withdrawals import Withdrawals
from changeover.engines.placement import InProcess, Placement
from changeover.errors import (
    ClaimLost,
    Conflict,
    EngineError,
    LeaseLost,
    Owned,
    StoreUnavailable,
)
from changeover.facts import RunResult
from changeover.ids import input_cause, intent_cause, is_root
from changeover.relay.commands import AwaitClaim, CallBack, CallModel, Command, RunChild
from changeover.relay.decide.decision import awaits
from changeover.relay.editions import Editions
from changeover.relay.events import Event
from changeover.relay.inputs.claims import End
from changeover.relay.inputs.requests import Input, Resume, Say
from changeover.relay.ports.log import Log
from changeover.relay.ports.world import Observer
from changeover.relay.result import typed
from changeover.relay.state import State

T = TypeVar("T")
logger = logging.getLogger("changeover.engine")

DELAYED = (CallModel, CallBack, RunChild)
"""Commands that may have to wait before they are retried."""
LOST = (Conflict, Owned, LeaseLost, ClaimLost)
"""Errors of an append after which another process, loop or worker goes on with the conversation."""


def finish(work: Coroutine[Any, Any, None]) -> None:
    """Carry out a coroutine that waits for nothing, without a turn of the event loop."""
    try:
        work.send(None)
    except StopIteration:
        return
    raise RuntimeError(f"{work!r} waits, although its observer was ready")


class Dispatcher:
    """Runs conversations on one event loop. Commands that follow one another take one task."""

    def __init__(
        self,
        log: Log,
        editions: Editions,
        observer: Observer | None = None,
        patience: float | None = None,
        placement: Placement | None = None,
    ) -> None:
        self.log, self.patience, self.placement = log, patience or 1.0, placement or InProcess()
        self.loop = asyncio.get_running_loop()
        self.conversations = Conversations(log)
        self.timeouts = Timeouts(self)
        self.waits = Waits(self, self.timeouts)
        self.directory = LiveDirectory(log, editions, self.conversations, self.waits.holdings)
        self.recorder = Recorder(self, observer)
        self.performer = Performer(self)
        self.children, self.lapses, self.withdrawals = Children(self), Lapses(self), Withdrawals(self)
        self.claims = Claims(self)
        self.tasks: set[asyncio.Task[Any]] = set()
        self._observer, self._shared = observer, patience is not None
        self.elsewhere = self.placement.elsewhere
        self._followers, self._watch = Followers(self), Watch(self)
        if self._shared:
            self._watch.start(recover=False)

    async def put(self, input: Input[T]) -> T:
        """Record an input and go on from it."""
        live = await self._opened(input.conversation)
        try:
            async with live.lock:
                value = await self.recorder.put(live, input)
        except Postponed:
            await asyncio.sleep(self.patience / 10)
            return await self.put(input)
        await self.settle(live)
        return value

    async def result(self, input: Say | Resume, reading: Reading | None = None) -> RunResult:
        """Put an input and wait for the result of its run. `reading` gets the events of a new message; for a resumed
        conversation the caller has attached it already."""
        refuse_in_hook(input.conversation)
        live = await self._opened(input.conversation)
        if reading is not None and isinstance(input, Say):
            reading.join(live, self.log.deltas)
        try:
            async with live.lock:
                ref = await self.recorder.put(live, input)
                answer = live.wait(ref.run, self.loop.create_future())
            if reading is not None and isinstance(input, Say):
                reading.put(ref)
            if live.news or live.notifying is not None:
                await self.notify(live)
            elif not answer.done():
                self.placement.noticed(live)
            result = await self.conversations.result(live, await answer)
            return typed(result, self.directory.world.roster)
        finally:
            if reading is not None:
                reading.part()

    async def _opened(self, conversation: str) -> Conversation:
        return await self.conversations.get(conversation) if conversation else self.conversations.new()

    async def settle(self, live: Conversation) -> None:
        """After an input: inform observers and callers, and let the root of the tree go on."""
        await self.notify(live)
        if live.state.root != live.state.id:
            await self.go_on_with(live.state.root)

    async def recover(self) -> None:
        """Go on with unfinished conversations that no live process works on."""
        for conversation in await self.log.unfinished(self.directory.world.roster.team):
            with undamaged(conversation):
                if self.placement.recalled(conversation):
                    continue
                if is_root(conversation) or not await self._is_run_by_parent(conversation):
                    await self.go_on_with(conversation)

    async def _is_run_by_parent(self, conversation: str) -> bool:
        """True unless only clean-up is left in a delegate's conversation. Folded from the log and not cached: its
        parent must find it as the log has it then."""
        state = State(conversation).fold(await self.log.read(conversation))
        return state.run is not None or bool(state.inbox)

    async def take_up(self) -> None:
        """Recover now and, on a shared store, from now on. Servers are asked for their tools first."""
        if not self.directory.known:
            await self.directory.look()
        await self.recover()
        if self._shared:
            self._watch.start(recover=True)

    async def go_on_with(self, conversation: str) -> None:
        """Go on with what is outstanding in a conversation."""
        live = await self.conversations.get(conversation)
        async with live.lock:
            await self.conversations.refresh(live)
            await self.go_on(live)
        await self.notify(live)

    async def forget(self, conversation: str) -> bool:
        """Remove a conversation; raises UnderWay while something goes on in it."""
        gone = await self.log.forget(conversation)
        if gone:
            self.conversations.drop(conversation)
        return gone

    def busy(self, conversation: str) -> bool:
        """True if this loop runs, and performs something for a conversation."""
        live = self.conversations.cached(conversation)
        return live is not None and live.busy and self.loop.is_running()

    @property
    def watched(self) -> bool:
        """True if conversations that are asleep go on by themselves when something is due."""
        return self.recovers or self.placement.keeps_time

    @property
    def recovers(self) -> bool:
        """True if this process looks for unfinished work at intervals."""
        return self._watch.recovers

    def follow(self, live: Conversation, called: bool = False) -> None:
        """Follow a conversation that another process works on, by reading its log; call that process if `called`."""
        self.waits.give_way(live)
        self._followers.follow(live)
        if called:
            self.placement.call(live)

    def listen(self, live: Conversation) -> None:
        """React at once to what other processes record in the tree of a conversation that this one works on."""
        if self._shared:
            self._followers.listen(live)

    async def close(self) -> None:
        """Stop performing, and release the models. What was in flight is outstanding again."""
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.conversations.fail(EngineError("the team was closed while this run was under way; it can be resumed"))

    async def _drive(self, live: Conversation, command: Command) -> None:
        """Perform a command, record its outcome, and go on with what follows from it."""
        current: Command | None = command
        task = asyncio.current_task()
        assert task is not None
        try:
            while current is not None:
                current = await self._step(live, current, task)
        except Exception as error:
            logger.exception("conversation %s stopped", live.state.id)
            live.stale = True
            live.halted = isinstance(error, StoreUnavailable)
            live.flight.pop(current.id if current else "", None)
            self.waits.holdings.end([live.state.run.ticket] if live.state.run else [], End.LOST)
            live.fail(error)
        finally:
            self.tasks.discard(task)
            self.placement.noticed(live)

    async def _step(self, live: Conversation, command: Command, task: asyncio.Task[None]) -> Command | None:
        outcome: Event | None = None
        if isinstance(command, DELAYED) and command.not_before:
            await self.directory.world.clock.sleep_until(command.not_before)
        if self.recorder.may_begin(live):
            try:
                outcome = await self.performer.perform(live, command)
            except LOST:
                live.stale = True  # of the intent: another process began the effect
        else:
            live.stale = True  # another process may have worked on it meanwhile
        async with live.lock:
            following = await self._conclude(live, command, outcome, task)
        if live.news:
            await self.notify(live)
        return following

    async def intend(self, live: Conversation, command: str, event: Event) -> None:
        """Commit the intent of a command; raises Conflict if the command is not outstanding any more."""
        async with live.lock:
            if live.stale:
                await self.conversations.refresh(live)
            if not awaits(live.state, command):
                raise Conflict(live.state.id, live.state.position, command)
            self.dispatch(live, await self.recorder.record(live, intent_cause(command), [event]))
        await self.notify(live)
        if not self.recorder.may_begin(live):
            raise LeaseLost("the lease ran out between the intent and the effect")

    async def _conclude(
        self, live: Conversation, command: Command, outcome: Event | None, task: asyncio.Task[None]
    ) -> Command | None:
        # Under the lock, and only now: until its outcome is folded, no other task may begin this command.
        live.flight.pop(command.id, None)
        # Without an outcome fold again, so that the command is given out again.
        live.stale = live.stale or outcome is None
        while outcome is not None:
            if live.stale:
                await self.conversations.refresh(live)
            if not awaits(live.state, command.id) and not is_recorded_late(command):
                break
            try:
                commands = await self.recorder.record(live, command.id, [outcome])
                if live.promised:
                    live.promised.pop(command.id, None)
                return self.dispatch(live, commands, task)
            except (Conflict, LeaseLost) as error:
                if not await self._may_retry(live, command, error):
                    break
            except (Owned, ClaimLost):
                break
        await self.go_on(live)
        return None

    async def _may_retry(self, live: Conversation, command: Command, error: Conflict | LeaseLost) -> bool:
        """True if the outcome of a command can be recorded in another attempt. If no other process has taken the
        conversation over since the lease ran out, the outcome counts, so that the effect is not begun again."""
        if isinstance(error, Conflict):
            return await self.log.find(live.state.id, command.id) is None
        live.stale = True
        await asyncio.sleep(self.patience / 10)
        try:
            return await self._claims(live)
        except (Owned, LeaseLost):
            return False

    async def _claims(self, live: Conversation) -> bool:
        """Own a conversation; False if another process does. The caller holds the lock."""
        id, epoch = live.state.id, self.recorder.epoch
        if self.elsewhere(id):
            return False
        live.owned = await self.log.claim(id)
        if live.owned:
            live.epoch = epoch
        else:  # after this process lost its lease: the other one performs these commands again
            live.drop(lambda command: not is_recorded_late(command))
        return live.owned

    async def go_on(self, live: Conversation, called: bool = False) -> None:
        """Perform what is outstanding, or follow the process that does, and call it if `called`. The caller holds the
        lock."""
        live.halted = True  # until this has succeeded: else the watch does it again
        while True:
            if live.stale:
                await self.conversations.refresh(live)
            live.abandon()
            state = live.state
            if state.unreadable or not (state.run or state.inbox or state.callbacks):
                live.halted = False
                return
            try:
                if not await self._claims(live):
                    break
                if await self.log.read(state.id, state.position):
                    live.stale = True  # the last owner appended after this was read
                    continue
                self.dispatch(live, await self.recorder.record(live, input_cause("on", state.position), []))
                live.halted = False
                return
            except (Conflict, ClaimLost):
                continue
            except (Owned, LeaseLost):
                break
        live.halted = False
        self.follow(live, called)

    def dispatch(
        self, live: Conversation, commands: Sequence[Command], mine: asyncio.Task[None] | None = None
    ) -> Command | None:
        """Begin the commands that are not in flight. If the caller has a task, the first one is returned to it."""
        following, run, flight = None, live.state.run, live.flight
        if not self.placement.admits(live, commands):
            return None
        if run is not None and (run.limits or self.directory.world_of(live.state).roster.limits).timeout is not None:
            self.timeouts.set(live)
        for command in commands:
            if command.id in flight:
                continue
            live.asleep = False
            live.may_rest = live.may_rest or type(command) in WAITS
            if isinstance(command, RunChild):
                self.waits.reopen(command.child)
            if isinstance(command, AwaitClaim):
                flight[command.id] = (self._claim_wait(live, command), command)
            elif mine is not None and following is None:
                flight[command.id], following = (mine, command), command
            else:
                task = self.loop.create_task(self._drive(live, command))
                self.tasks.add(task)
                flight[command.id] = (task, command)
        return following

    def _claim_wait(self, live: Conversation, command: AwaitClaim) -> asyncio.Future[None]:
        """The task of a command that waits for a claim: it keeps the deadline, or is a future that is never done."""
        if command.ticket.deadline is None:
            return self.loop.create_future()
        return self.begin(self._drive(live, command))

    async def notify(self, live: Conversation) -> None:
        """Call hooks, then tell callers: a caller that has its result can rely on its hooks having been called."""
        if self._observer is not None and (calling := live.hook_task()) is not None:
            return self.soon(self._notify_after(calling, live))
        told_now = live.notifying is not None and live.notifying.locked()
        if self._observer is not None and live.unnotified and not told_now and self._observer.ready(live.unnotified):
            events, live.unnotified = live.unnotified, []
            finish(self._observer.noticed(events))
            live.wake()
        elif self._observer is not None and (live.unnotified or told_now):
            # Shielded: if this task is cancelled meanwhile, the hooks and callers are still told.
            await asyncio.shield(self.begin(self._call_hooks(live, self._observer)))
        else:
            live.wake()
        if live.may_rest and self.waits.rests(live):
            await self.waits.fall_asleep(live)
        elif live.may_rest and live.flight:
            self._followers.listen(live)
        self.placement.noticed(live)

    async def _notify_after(self, calling: asyncio.Task[Any], live: Conversation) -> None:
        """Report the events that a hook caused, once the hooks that are running have returned."""
        await asyncio.wait([calling])
        await self.notify(live)

    async def _call_hooks(self, live: Conversation, observer: Observer) -> None:
        live.enter_hooks()
        live.notifying = live.notifying or asyncio.Lock()
        async with live.notifying:  # in the order of the events, however long it takes
            while live.unnotified:
                events, live.unnotified = live.unnotified, []
                await observer.noticed(events)
        live.wake()

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task, which `close` cancels if it has not ended."""
        task = self.loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def soon(self, work: Coroutine[Any, Any, None]) -> None:
        """`begin`, for a caller that does not wait for the task."""
        _ = self.begin(work)
