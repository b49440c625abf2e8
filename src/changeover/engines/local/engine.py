"""LocalEngine: performs the outstanding commands of conversations, records their outcomes and goes on from there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from changeover.engines.local.commit import again, record, say
from changeover.engines.local.conversation import Live, Lives, Reader, caller_of, calls_hooks
from changeover.engines.local.deadlines import Overtime
from changeover.engines.local.directory import LiveDirectory
from changeover.engines.local.followers import Follower, Watch
from changeover.engines.local.perform import performed
from changeover.engines.local.waits import End, Holdings, Resting
from changeover.errors import ClaimLost, Conflict, EngineError, LeaseLost, Owned, StoreDamaged, StoreUnavailable
from changeover.facts import RunResult
from changeover.relay.commands import AwaitApproval, AwaitClaim, CallModel, CleanUp, Command, RunChild, RunTool
from changeover.relay.decide.decision import awaits
from changeover.relay.events import Event, UserSpoke
from changeover.relay.ports import Log, Observer, World
from changeover.relay.state import State

logger = logging.getLogger("changeover.engine")

PATIENT = (CallModel, CleanUp)
"""What may have to wait before it is tried again."""

WAITS = (AwaitApproval, AwaitClaim)


class LocalEngine:
    """Runs conversations on one event loop. A conversation in which one thing follows another takes one task."""

    def __init__(
        self,
        log: Log,
        world: World,
        observer: Observer | None = None,
        patience: float = 1.0,
        elsewhere: Callable[[str], bool] = lambda conversation: False,
    ) -> None:
        self.log, self.patience, self.observer = log, patience, observer
        self.world = world
        """What effects act upon; another, when what is said of agents changes."""
        self.directory = LiveDirectory(self, world)
        self.elsewhere = elsewhere
        """Whether another loop of this process works on a conversation."""
        self.loop = asyncio.get_running_loop()
        self.lives = Lives(log)
        self.holdings = Holdings()
        self._follower, self.resting, self._watch = Follower(self), Resting(self), Watch(self)
        self.overtime = Overtime(self)
        self._tasks: set[asyncio.Task[None]] = set()

    async def speak(
        self, conversation: str, spoken: UserSpoke, key: str, reader: Reader | None = None, alone: bool = False
    ) -> tuple[tuple[str, int], asyncio.Future[RunResult]]:
        """Record what a user said, once for each key; return where its run is, and a future of its result.

        Without a conversation a new one begins. If it is to be `alone`, nothing else may be under way there.
        """
        live = await self.lives.get(conversation) if conversation else self.lives.new()
        async with live.lock:
            if reader is not None:
                live.readers.append(reader)
            try:
                run = await say(self, live, spoken, key, alone=alone)
            except BaseException:
                if reader is not None:
                    live.readers.remove(reader)  # there is no run that it could read
                raise
            future = live.wait(run, self.loop.create_future())
        if live.news:
            await self.tell(live)
        return (live.state.id, run), future

    def leave(self, conversation: str, reader: Reader) -> None:
        """Read along no longer."""
        if (live := self.lives.here(conversation)) and reader in live.readers:
            live.readers.remove(reader)

    async def resume(self, conversation: str) -> asyncio.Future[RunResult]:
        """A future of the run under way, else of the last one; if that failed, its failed step is tried again."""
        live = await self.lives.get(conversation)
        async with live.lock:
            await self.lives.refresh(live)
            run = await again(self, live)
            future = live.wait(run, self.loop.create_future())
            await self.go_on(live)
        await self.tell(live)
        return future

    async def recover(self) -> None:
        """Take up what nobody works on: fold, decide, perform what is outstanding."""
        for conversation in await self.log.unfinished():
            try:
                if "/" not in conversation or not await self._is_opened_above(conversation):
                    await self.take_up(conversation)
            except StoreDamaged as error:  # which keeps the others from nothing
                logger.error("conversation %s cannot be taken up: %s", conversation, error)

    async def _is_opened_above(self, conversation: str) -> bool:
        """Whether a delegate's conversation is its parent's to open, if it is in time: all but what it left to clean
        up. Looked up and not kept: its parent must find it as the log has it then."""
        state = State(conversation).fold(await self.log.read(conversation))
        return state.run is not None or bool(state.inbox)

    async def take_up(self, conversation: str) -> None:
        """Go on with what is outstanding in a conversation."""
        live = await self.lives.get(conversation)
        async with live.lock:
            await self.lives.refresh(live)
            await self.go_on(live)
        await self.tell(live)

    async def forget(self, conversation: str) -> bool:
        """Remove a conversation and all that is kept of it; raises UnderWay while something goes on in it."""
        gone = await self.log.forget(conversation)
        if gone:
            self.lives.drop(conversation)
        return gone

    def busy(self, conversation: str) -> bool:
        """Whether this engine has something in flight for a conversation."""
        live = self.lives.here(conversation)
        return live is not None and bool(live.flight) and not live.asleep and self.loop.is_running()

    def keep_watch(self, recover: bool) -> None:
        """Go on hearing what other processes say to ours and, if wanted, taking up what they leave behind."""
        self._watch.keep(recover)

    @property
    def watched(self) -> bool:
        """Whether what is due in conversations that rest is taken up by itself."""
        return self._watch.recovers

    def follow(self, live: Live) -> None:
        """Learn from the log how another process goes on with this conversation."""
        self.resting.give_way(live)
        self._follower.follow(live)

    async def close(self) -> None:
        """Stop performing. What is recorded stays; what was in flight is outstanding again."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.lives.fail(EngineError("the team was closed while this run was under way; it can be resumed"))

    async def _drive(self, live: Live, command: Command) -> None:
        """Perform a command, record its outcome, go on with what follows from it."""
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
            self.holdings.let_go([live.state.run.ticket] if live.state.run else [], End.LOST)
            live.fail(error)
        finally:
            self._tasks.discard(task)

    async def _step(self, live: Live, command: Command, task: asyncio.Task[None]) -> Command | None:
        outcome: Event | None = None
        if isinstance(command, PATIENT) and command.not_before:
            await self.world.clock.sleep_until(command.not_before)
        if self._may_begin(live):
            try:
                outcome = await performed(self, live, command)
            except (Conflict, Owned, LeaseLost, ClaimLost):
                live.stale = True  # the intent: somebody else began it
        else:
            live.stale = True  # whoever worked on it meanwhile wrote what is not known here
        async with live.lock:
            following = await self._conclude(live, command, outcome, task)
        if live.news:
            await self.tell(live)
        return following

    async def intend(self, live: Live, command: str, event: Event) -> None:
        """Commit the intent of a command, if it is still wanted."""
        async with live.lock:
            if live.stale:
                await self.lives.refresh(live)
            if not awaits(live.state, command):
                raise Conflict(live.state.id, live.state.position, command)
            self.dispatch(live, await record(self, live, f"{command}:begun", [event]))
        await self.tell(live)
        if not self._may_begin(live):
            raise LeaseLost("the lease ran out between the intent and the effect")

    async def _conclude(
        self, live: Live, command: Command, outcome: Event | None, task: asyncio.Task[None]
    ) -> Command | None:
        # Under the lock, and only now: until its outcome is folded, nobody else may begin this command.
        live.flight.pop(command.id, None)
        # It was not carried out: fold anew, so that it is given out again. The state may have been folded since it was
        # given up, when it still counted as being in work.
        live.stale = live.stale or outcome is None
        while outcome is not None:
            if live.stale:
                await self.lives.refresh(live)
            if not awaits(live.state, command.id) and not _once(command):
                break
            try:
                commands = await record(self, live, command.id, [outcome])
                if live.promised:
                    live.promised.pop(command.id, None)
                return self.dispatch(live, commands, task)
            except Conflict:
                if await self.log.find(live.state.id, command.id) is not None:
                    break
            except (Owned, LeaseLost, ClaimLost):
                break
        await self.go_on(live)
        return None

    async def go_on(self, live: Live) -> None:
        """Perform what is outstanding, unless another process does: then follow it. The caller holds the lock."""
        while True:
            if live.stale:
                await self.lives.refresh(live)
            self.abandon(live)
            state = live.state
            if state.unreadable or not (state.run or state.inbox or state.rollbacks):
                live.halted = False
                return
            try:
                epoch = self.epoch
                if self.elsewhere(state.id) or not await self.log.claim(state.id):
                    break
                live.epoch, live.owned = epoch, True
                if await self.log.read(state.id, state.position):
                    live.stale = True  # whoever had it before went on after this was read
                    continue
                self.dispatch(live, await record(self, live, f"on@{state.position}", []))
                live.halted = False
                return
            except (Conflict, ClaimLost):
                continue
            except (Owned, LeaseLost):
                break
        self.follow(live)

    def dispatch(
        self, live: Live, commands: Sequence[Command], mine: asyncio.Task[None] | None = None
    ) -> Command | None:
        """Begin what is not in flight; the first of it is left to the caller's own task, if it has one."""
        following, run = None, live.state.run
        if run is not None and (run.limits or self.world.roster.limits).timeout is not None:
            self.overtime.time(live)
        for command in commands:
            if command.id in live.flight:
                continue
            live.asleep = False
            live.may_rest = live.may_rest or isinstance(command, WAITS)
            if isinstance(command, RunChild):
                self.resting.reopen(command.child)
            if isinstance(command, AwaitClaim):
                live.flight[command.id] = (self.awaiting(live, command), command)
                continue
            if mine is not None and following is None:
                following, task = command, mine
            else:
                task = self.loop.create_task(self._drive(live, command))
                self._tasks.add(task)
            live.flight[command.id] = (task, command)
        return following

    def awaiting(self, live: Live, command: AwaitClaim) -> asyncio.Future[None]:
        """What stands for a command that others have to claim: nothing happens here, unless it has a deadline."""
        if command.ticket.deadline is None:
            return self.loop.create_future()
        return self.begin(self._drive(live, command))

    def abandon(self, live: Live) -> None:
        """Stop what is not wanted any more; what must happen at most once is let go on, and its outcome recorded."""
        live.missed = False
        for id, (task, command) in list(live.flight.items()):
            if not awaits(live.state, id) and not _once(command):
                live.promised.pop(id, None)
                del live.flight[id]
                task.cancel()

    @property
    def epoch(self) -> int:
        """By which lease this process is about to own something; asked before, for afterwards it may be lost."""
        return self.log.epoch or 1  # a process that has none yet takes its first

    def _may_begin(self, live: Live) -> bool:
        """Whether this process may begin effects here: its lease holds, and is the one by which it owns this."""
        return self.log.may_begin() and live.epoch == self.log.epoch

    async def tell(self, live: Live) -> None:
        """Hooks first, then whoever waits: a caller that has its result finds its hooks called."""
        if self.observer is not None and (calling := caller_of(live)) is not None:
            return self.soon(self._tell_after(calling, live))
        if self.observer is not None and (live.untold or (live.telling and live.telling.locked())):
            # Also when whoever tells is stopped in the middle of it: the others are told all the same.
            await asyncio.shield(self.begin(self._notify(live, self.observer)))
        else:
            live.wake()
        if live.may_rest and self.resting.rests(live):
            await self.resting.fall_asleep(live)
        elif live.may_rest and live.flight:
            self._follower.listen(live)

    async def _tell_after(self, calling: asyncio.Task[Any], live: Live) -> None:
        """What a hook has brought about is told when it has returned, and the other hooks that are called with it."""
        await asyncio.wait([calling])
        await self.tell(live)

    async def _notify(self, live: Live, observer: Observer) -> None:
        calls_hooks(live)
        live.telling = live.telling or asyncio.Lock()
        async with live.telling:  # in the order of the events, however long it takes
            while live.untold:
                untold, live.untold = live.untold, []
                await observer.noticed(untold)
        live.wake()

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task that `close` ends."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def soon(self, work: Coroutine[Any, Any, None]) -> None:
        """Have it done, and do not wait for it."""
        self._tasks.add(task := self.loop.create_task(work))
        task.add_done_callback(self._tasks.discard)


def _once(command: Command) -> bool:
    """Whether its outcome is recorded even when nobody waits for it any more."""
    return isinstance(command, RunTool) and command.at_most_once
