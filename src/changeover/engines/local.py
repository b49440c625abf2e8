"""The engine in this process: what is outstanding and not in flight is performed, its outcome recorded, and so on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from changeover.engines.live import Live, Reader
from changeover.errors import Conflict
from changeover.facts import RunResult
from changeover.relay.commands import Command, RunTool
from changeover.relay.decide import awaits
from changeover.relay.events import Entry, Event, Started, UserSpoke
from changeover.relay.perform import World, perform
from changeover.relay.ports import Log, Observer
from changeover.relay.settle import settle
from changeover.relay.state import State
from changeover.relay.stream import Recorded, recorded

logger = logging.getLogger("changeover.engine")


class LocalEngine:
    """Runs conversations on one event loop. A conversation in which one thing follows another takes one task."""

    def __init__(self, log: Log, world: World, observer: Observer | None = None) -> None:
        self._log, self._world, self._observer = log, world, observer
        self._lives: dict[str, Live] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def speak(
        self, conversation: str, spoken: UserSpoke, key: str, reader: Reader | None = None
    ) -> tuple[int, asyncio.Future[RunResult]]:
        """Record what a user said, once for each key; return its run and a future of its result."""
        live = await self._live(conversation)
        async with live.lock:
            if reader is not None:
                live.readers.append(reader)
            run, events, commands = await self._say(live, spoken, key)
            future = live.wait(run)
            self._dispatch(live, commands)
        await self._tell(live, events)
        return run, future

    def leave(self, conversation: str, reader: Reader) -> None:
        """Read along no longer."""
        if (live := self._lives.get(conversation)) and reader in live.readers:
            live.readers.remove(reader)

    async def recover(self) -> None:
        """Take up what was left unfinished: fold, decide, perform what is outstanding."""
        for conversation in await self._log.unfinished():
            live = await self._live(conversation)
            async with live.lock:
                await self._resume(live)

    async def close(self) -> None:
        """Stop performing. What is recorded stays; what was in flight is outstanding again."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._lives.clear()

    async def _say(self, live: Live, spoken: UserSpoke, key: str) -> tuple[int, Sequence[Recorded], Sequence[Command]]:
        while True:
            if live.stale:
                await self._refresh(live)
            if key and (position := await self._log.find(live.state.id, key)) is not None:
                return position or 1, (), []  # at position 0 stands the beginning of the conversation itself
            state = live.state
            said: list[Event] = [spoken] if state.position else [Started(state.root), spoken]
            run = state.position + len(said) - 1
            try:
                events, commands = await self._record(live, key or f"said@{run}", said)
            except Conflict:
                continue
            return run, events, commands

    async def _resume(self, live: Live) -> Sequence[Recorded]:
        """Perform what is outstanding and not in flight. The caller holds the lock."""
        while True:
            if live.stale:
                await self._refresh(live)
            try:
                events, commands = await self._record(live, f"resume@{live.state.position}", [])
            except Conflict:
                continue
            self._dispatch(live, commands)
            return events

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
            live.flight.pop(current.id if current else "", None)
            live.fail(error)
        finally:
            self._tasks.discard(task)

    async def _step(self, live: Live, command: Command, task: asyncio.Task[None]) -> Command | None:
        async def intend(event: Event) -> None:
            async with live.lock:
                events, commands = await self._record(live, f"{command.id}:begun", [event])
                self._dispatch(live, commands)
            await self._tell(live, events)

        try:
            outcome = await perform(self._world, command, intend, live.emit if live.readers else None)
        except Conflict:  # the intent: somebody else began it
            outcome = []
        async with live.lock:
            events, following = await self._conclude(live, command, outcome, task)
        if events or live.ended:
            await self._tell(live, events)
        return following

    async def _conclude(
        self, live: Live, command: Command, outcome: list[Event], task: asyncio.Task[None]
    ) -> tuple[Sequence[Recorded], Command | None]:
        # Under the lock, and only now: until its outcome is folded, nobody else may begin this command.
        live.flight.pop(command.id, None)
        while True:
            if live.stale:
                await self._refresh(live)
            if not outcome or not (awaits(live.state, command.id) or _once(command)):
                return await self._resume(live), None
            try:
                events, commands = await self._record(live, command.id, outcome)
            except Conflict:
                if await self._log.find(live.state.id, command.id) is not None:
                    outcome = []
                continue
            return events, self._dispatch(live, commands, task)

    async def _record(
        self, live: Live, cause: str, events: Sequence[Event]
    ) -> tuple[Sequence[Recorded], Sequence[Command]]:
        """Fold and commit; only what is committed may have effects. The caller holds the lock."""
        state, world = live.state, self._world
        position, agent, ended, at = state.position, state.agent, len(state.outcomes), world.clock.now()
        batch, commands = settle(state, world.roster, at, events)
        if not batch:
            return (), commands
        entry = Entry(state.id, state.root, position, cause, at, tuple(batch))
        live.stale = True
        await self._log.append(entry)
        live.stale = False
        if len(state.outcomes) > ended:
            live.note_ends(len(state.outcomes) - ended)
        if not live.readers and self._observer is None:
            return (), commands
        told = list(recorded([entry], agent))
        live.publish(told)
        return told, commands

    def _dispatch(
        self, live: Live, commands: Sequence[Command], mine: asyncio.Task[None] | None = None
    ) -> Command | None:
        """Begin what is not in flight; the first of it is left to the caller's own task, if it has one."""
        following = None
        for command in commands:
            if command.id in live.flight:
                continue
            if mine is not None and following is None:
                following, task = command, mine
            else:
                task = asyncio.create_task(self._drive(live, command))
                self._tasks.add(task)
            live.flight[command.id] = (task, command)
        return following

    async def _tell(self, live: Live, events: Sequence[Recorded]) -> None:
        """Hooks first, then whoever waits: a caller that has its result finds its hooks called."""
        if events and self._observer is not None:
            await self._observer.noticed(events)
        live.wake()

    async def _live(self, conversation: str) -> Live:
        live = self._lives.get(conversation)
        if live is None:
            entries = await self._log.read(conversation)
            # Another task may have loaded it while this one was reading.
            live = self._lives.setdefault(conversation, Live(State(conversation).fold(entries)))
        return live

    async def _refresh(self, live: Live) -> None:
        live.state = State(live.state.id).fold(await self._log.read(live.state.id))
        live.stale = False


def _once(command: Command) -> bool:
    """Whether its outcome is recorded even when nobody waits for it any more."""
    return isinstance(command, RunTool) and command.at_most_once
