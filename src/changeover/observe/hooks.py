"""Hooks: user functions that are called after an event is recorded; one that fails or is late is logged and ignored."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import inf
from typing import get_args

from changeover.handoffs.callback import arity_faults
from changeover.observe.hook_thread import HookThread, is_async
from changeover.relay.events import Event
from changeover.relay.ports.world import Observer
from changeover.relay.stream import Recorded

logger = logging.getLogger("changeover.hooks")

Hook = Callable[[Recorded], Awaitable[None] | None]
Call = Callable[[], Awaitable[None] | None]

ALIASES = {"agent_handoff": "handoff_accepted"}
TIMEOUT = 5.0
"""Seconds that a hook may take, unless the team declares another timeout."""
EVENTS: dict[str, type] = {event.__struct_config__.tag: event for event in get_args(Event)}


def hook_faults(hooks: object) -> list[str]:
    """The faults of a team's hooks, one text each: unknown events, and values that are not fitting functions."""
    if not isinstance(hooks, Mapping):
        return [
            f"hooks={hooks!r} is not a dict; give a dict of events to functions, such as {{'agent_handoff': print}}"
        ]
    known = sorted({*EVENTS, *ALIASES})
    found = [f"hook {name!r} is not an event; choose one of {', '.join(known)}" for name in hooks if name not in known]
    found += [f"hook {name!r} is not a function" for name, hook in hooks.items() if not callable(hook)]
    return found + [f"the team {fault}" for name, hook in hooks.items() for fault in _arity_faults(name, hook)]


def _arity_faults(name: str, hook: object) -> list[str]:
    return arity_faults(f"the hook {name!r}", hook, "recorded")


def hook_timeout_faults(seconds: object) -> list[str]:
    """The faults of the declaration `hook_timeout=…`, one text each."""
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds < inf:
        return []
    return [f"hook_timeout={seconds!r} is not a number of seconds above 0"]


class Observers:
    """Several observers as one; each event goes to them in order."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers
        self.reads_handoffs = any(each.reads_handoffs for each in observers)

    def ready(self, recorded: Sequence[Recorded]) -> bool:
        return all(each.ready(recorded) for each in self._observers)

    async def noticed(self, recorded: Sequence[Recorded]) -> None:
        for each in self._observers:
            await each.noticed(recorded)


class Hooks:
    """Calls the hooks of a team for recorded events, in the order of the events.

    Each call gets `timeout` seconds. Async hooks run on the event loop, plain functions one after the other in a
    thread beside it.
    """

    reads_handoffs = True

    def __init__(self, hooks: Mapping[str, Hook], timeout: float = TIMEOUT) -> None:
        self._timeout, self._thread = timeout, HookThread()
        self._hooks: dict[type, list[Hook]] = {}
        for name, hook in hooks.items():
            self._hooks.setdefault(EVENTS[ALIASES.get(name, name)], []).append(hook)

    def ready(self, recorded: Sequence[Recorded]) -> bool:
        """True if no hook is called."""
        return self._hooks.keys().isdisjoint(type(record.event) for record in recorded)

    async def noticed(self, recorded: Sequence[Recorded]) -> None:
        for record in recorded:
            for hook in self._hooks.get(type(record.event), ()):
                await self._call(hook, record)

    async def _call(self, hook: Hook, record: Recorded) -> None:
        if is_async(hook):
            return await self._wait(lambda: hook(record), record)
        job = self._thread.put(hook, record)
        try:
            await job.started
            arrived, _ = await asyncio.wait([job.outcome], timeout=self._timeout)
        finally:
            if not job.outcome.done():
                self._thread.give_up(job)
        if not arrived:
            return self._log_late(record)
        answer, error = job.outcome.result()
        if error is not None:
            logger.error("a hook failed on %s", record.id, exc_info=error)
        elif isinstance(answer, Awaitable):
            try:
                await self._wait(lambda: answer, record)
            finally:
                # Stopped before it began: a coroutine that is never awaited would be reported as a mistake.
                if inspect.iscoroutine(answer) and inspect.getcoroutinestate(answer) == inspect.CORO_CREATED:
                    answer.close()

    async def _wait(self, call: Call, record: Recorded) -> None:
        """Wait for an async hook in a task of its own: it may ignore that it is cancelled."""
        task = asyncio.ensure_future(_awaited(call))
        try:
            arrived, _ = await asyncio.wait([task], timeout=self._timeout)
        finally:
            task.cancel()
        if not arrived:
            self._log_late(record)
        elif (error := task.result()) is not None:
            logger.error("a hook failed on %s", record.id, exc_info=error)

    def _log_late(self, record: Recorded) -> None:
        logger.error("a hook took longer than %g s on %s and is not waited for", self._timeout, record.id)


async def _awaited(call: Call) -> BaseException | None:
    """The error of a hook. One that leaks a cancellation or exits has failed, too."""
    try:
        waiting = call()
        if waiting is not None:
            await waiting
    except (Exception, asyncio.CancelledError, SystemExit) as error:
        return error
    return None
