"""Children: delegates' conversations, opened, awaited and cancelled for the conversation of their sender."""

from __future__ import annotations

from asyncio import Future
from typing import TYPE_CHECKING

from changeover.engines.clock import done_by
from changeover.engines.local.conversation import Conversation, Ended
from changeover.ids import offer_of
from changeover.relay.commands import CancelChild, RunChild
from changeover.relay.events import ENGINE, CancelRequested, HandoffExpired, HandoffReturned
from changeover.relay.inputs.control import CancelRun
from changeover.relay.inputs.requests import Say
from changeover.relay.result import returned_of
from changeover.relay.run import Outcome

if TYPE_CHECKING:
    from changeover.engines.local.dispatcher import Dispatcher


LATE = "it was not done in time"


class Children:
    """Runs the delegates of conversations."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher, self._conversations = dispatcher, dispatcher.conversations

    async def open(self, parent: Conversation, command: RunChild) -> tuple[Conversation, int]:
        """Open the delegate's conversation, unless it is open; returns it with its run. The caller notifies."""
        child = await self._conversations.child(parent, command.child)
        async with child.lock:
            say = Say(command.child, command.spoken, "given", command.opening, override=parent.override)
            return child, (await self._dispatcher.recorder.put(child, say)).run

    async def run(self, parent: Conversation, command: RunChild) -> HandoffReturned | HandoffExpired:
        """Open the delegate's conversation, or find it where it was left, and wait for its end or its deadline."""
        child = await self._fresh(parent, command)
        if await self._is_overdue(child, command.deadline):  # before this process came to it
            return await self._expire(parent, command)
        child, run = await self.open(parent, command)
        ended = child.wait(run, self._dispatcher.loop.create_future(), patient=True)
        try:
            await self._dispatcher.notify(child)
            self._park(parent, command, ended)
            if await self._done_in_time(child, command.deadline, ended):
                returned = await self._returned(child, command, run, ended)
                return _unless_late(command, child.state.outcomes[run], returned)
        finally:
            child.stop_waiting(run, ended)
        return await self._expire(parent, command)

    async def cancel(self, parent: Conversation, command: CancelChild | RunChild) -> HandoffReturned:
        """Cancel a delegate. One that was never opened is opened as cancelled, so that no process opens it later."""
        child, ended = await self._fresh(parent, command), None
        reason, by = (command.reason, command.by) if isinstance(command, CancelChild) else (LATE, ENGINE)
        async with child.lock:
            cancel = CancelRun(command.child, CancelRequested(by=by, reason=reason), command.opening)
            await self._dispatcher.recorder.put(child, cancel)
            runs = [child.state.run.id] if child.state.run else list(child.state.outcomes)
            if runs:
                ended = child.wait(runs[0], self._dispatcher.loop.create_future(), patient=True)
        if ended is not None:
            self._park(parent, command, ended)
            return await self._returned(child, command, runs[0], ended)
        await self._dispatcher.notify(child)
        who = (offer_of(command.id), command.task, command.receiver)
        return HandoffReturned(*who, success=False, error=reason, cancelled=True, by=by)

    async def _fresh(self, parent: Conversation, command: RunChild | CancelChild) -> Conversation:
        """The delegate's conversation, as it is in the log if another process may have worked on it."""
        child = await self._conversations.child(parent, command.child)
        if child.state.position and self._dispatcher.elsewhere(command.child):
            async with child.lock:
                await self._conversations.refresh(child)
        return child

    def _park(self, parent: Conversation, command: RunChild | CancelChild, ended: Future[Ended]) -> None:
        """Note that this process has nothing to do for a delegate but to wait, if that is so."""
        if not ended.done() and self._dispatcher.elsewhere(command.child):
            parent.parked |= {command.id}
            self._dispatcher.placement.noticed(parent)

    async def _expire(self, parent: Conversation, command: RunChild) -> HandoffReturned | HandoffExpired:
        """Cancel a delegate whose deadline has passed. A result that it had by then counts."""
        returned = await self.cancel(parent, command)
        return _expired(command, returned) if returned.cancelled else returned

    async def _done_in_time(self, child: Conversation, deadline: float | None, ended: Future[Ended]) -> bool:
        """Wait until a delegate ends; False if its time is over before."""
        clock, until = self._dispatcher.directory.world.clock, deadline
        while not await done_by(clock, until, ended):
            if await self._is_overdue(child, deadline):
                return False
            assert deadline is not None
            until = deadline + await self._conversations.waited(child, clock.now())
        return True

    async def _is_overdue(self, child: Conversation, deadline: float | None) -> bool:
        """True if a delegate has not ended, and has used up its time."""
        if deadline is None:
            return False
        now = self._dispatcher.directory.world.clock.now()
        # The result of one that has ended counts, however late it is fetched.
        ended = child.state.position > 0 and child.state.run is None and not child.state.inbox
        return not ended and now >= deadline + await self._conversations.waited(child, now)

    async def _returned(
        self, child: Conversation, command: RunChild | CancelChild, run: int, ended: Future[Ended]
    ) -> HandoffReturned:
        await self._dispatcher.notify(child)
        try:
            await ended
        finally:
            child.stop_waiting(run, ended)
        return returned_of(command, child.state.outcomes[run], child.state.record)


def _unless_late(command: RunChild, outcome: Outcome, returned: HandoffReturned) -> HandoffReturned | HandoffExpired:
    """What a delegate returned, or an expiry if an earlier process cancelled it at its deadline."""
    over = command.deadline is not None and outcome.at >= command.deadline + returned.spent.waited
    return _expired(command, returned) if returned.cancelled and over else returned


def _expired(command: RunChild, returned: HandoffReturned) -> HandoffExpired:
    who = (command.id, command.task, command.receiver)
    return HandoffExpired(*who, LATE, returned.spent, returned.response, ENGINE)
