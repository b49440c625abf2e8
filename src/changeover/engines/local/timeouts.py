"""Timeouts: an alarm for each run of a root that has a timeout; time spent waiting for people does not count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from changeover.engines.local.conversation import Conversation
from changeover.relay.control import Expire
from changeover.relay.run import Run
from changeover.relay.state import State

if TYPE_CHECKING:
    from changeover.engines.local.dispatcher import Dispatcher


class Timeouts:
    """The alarms of the runs that this process works on."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher, self._conversations = dispatcher, dispatcher.conversations
        self._alarms: set[tuple[str, int]] = set()

    def set(self, live: Conversation) -> None:
        """Set the alarm of the current run, unless it is set."""
        state = live.state
        if state.run is None or (timeout := self._timeout(state, state.run)) is None:
            return
        key = (state.id, state.run.id)
        if key not in self._alarms:
            self._alarms.add(key)
            self._dispatcher.soon(self._alarm(live, state.run, timeout))

    def end_of(self, state: State) -> float | None:
        """When the current run times out, unless a person is awaited."""
        run = state.run
        if run is None or run.waiting.asked or (timeout := self._timeout(state, run)) is None:
            return None
        return run.at + timeout + run.waiting.before + run.below.waited

    def _timeout(self, state: State, run: Run) -> float | None:
        """The timeout of a root's run, if it was not reached yet."""
        if state.depth > 0 or "timeout" in state.limits:
            return None
        return (run.limits or self._dispatcher.directory.world_of(state).roster.limits).timeout

    async def _alarm(self, live: Conversation, run: Run, timeout: float) -> None:
        clock = self._dispatcher.directory.world.clock
        try:
            at = run.at + timeout
            while at:
                await clock.alarm(at)
                async with live.lock:
                    await self._conversations.refresh(live)
                    waited = await self._conversations.waited(live, clock.now())
                    expire = Expire(live.state.id, run.id, timeout, waited)
                    at = await self._dispatcher.recorder.put(live, expire, fresh=True)
            await self._dispatcher.notify(live)
        finally:
            self._alarms.discard((live.state.id, run.id))
