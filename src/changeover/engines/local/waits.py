"""Waits: conversations in which only people, workers or the clock can cause the next step are released until then.
Timeouts: the alarms of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from changeover.engines.local.conversation import Conversation
from changeover.engines.local.holdings import Holdings
from changeover.facts import ApprovalRequest, Ticket
from changeover.ids import parent_of
from changeover.relay.commands import AwaitApproval, AwaitClaim, CallBack, Command, RunChild
from changeover.relay.decide.decision import settle
from changeover.relay.inputs.claims import End
from changeover.relay.inputs.control import Expire
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
        """When the current run times out; None while it waits for a person."""
        run = state.run
        if run is None or run.waiting.asked or (timeout := self._timeout(state, run)) is None:
            return None
        return run.at + timeout + run.waiting.seconds

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


class Waits:
    """Puts conversations to sleep when all of their commands in flight are waits, and wakes them again."""

    def __init__(self, dispatcher: Dispatcher, timeouts: Timeouts) -> None:
        self._dispatcher, self._timeouts = dispatcher, timeouts
        self._log, self._conversations = dispatcher.log, dispatcher.conversations
        self.holdings = Holdings()

    def rests(self, live: Conversation) -> bool:
        """True if all commands in flight, here and below, are waits; callbacks do not count."""
        others = [command for command in live.commands if not isinstance(command, CallBack)]
        return bool(others) and all(self._is_wait(live, command) for command in others)

    def parked(self, live: Conversation) -> bool:
        """True if this process has nothing to do in a conversation, though work may go on below it."""
        return all(each.id in live.parked or self._is_wait(live, each) for _, each in live.flight.values())

    def _is_wait(self, live: Conversation, command: Command) -> bool:
        if isinstance(command, RunChild):
            child = self._conversations.cached(command.child)
            return child is not None and child.asleep
        if isinstance(command, AwaitClaim):
            return True
        left_to_people = self._dispatcher.directory.world.ask is None or command.id in live.declined
        return isinstance(command, AwaitApproval) and left_to_people

    async def fall_asleep(self, live: Conversation) -> None:
        """Tell callers what is pending, release the conversation, and check whether its parent rests now too."""
        async with live.lock:
            if not self.rests(live):
                return
            live.pending = [request for command in live.commands for request in self._pending(command)]
            live.asleep = True
            if not any(isinstance(command, CallBack) for command in live.commands):
                await self._release(live)
            live.tell_pending()
        parent = self._conversations.cached(live.state.parent) if live.state.parent else None
        if parent is not None:
            parent.may_rest = True
            # In a task of its own: the current task may be the one that waits for the child, and ends with this.
            self._dispatcher.soon(self._dispatcher.notify(parent))

    async def _release(self, live: Conversation) -> None:
        """Give up ownership and the claim. If another process left an input meanwhile, go on instead."""
        ticket, due = live.resting_ticket(), self.due(live)
        live.drop(self._resumed_by_others)
        if live.owned:
            live.owned = not await self._log.release(live.state.id, live.known, ticket, due)
            if live.owned:
                self._dispatcher.soon(self._dispatcher.go_on_with(live.state.id))
        self.holdings.end([ticket], End.RESTS)

    def due(self, live: Conversation, commands: Sequence[Command] = ()) -> float | None:
        """When a process has to take up a conversation without an owner; None if never."""
        if live.state.run is None:
            return None
        ends = [_deadline(wait) for wait in (*commands, *live.commands) if not self._is_paused(wait)]
        ends.append(self._timeouts.end_of(live.state))
        return min((end for end in ends if end is not None), default=None)

    def timed(self, live: Conversation) -> bool:
        """True if something in flight has a deadline, or the run has."""
        waits = (command for command in live.commands if isinstance(command, RunChild))
        return self.due(live) is not None or any(command.deadline is not None for command in waits)

    async def next_due(self, live: Conversation) -> tuple[float | None, bool]:
        """When a conversation that waits for the clock has to be taken up; and True if the deadline of a delegate
        stands still, because the delegate waits for a person. The caller holds the lock."""
        now, paused = self._dispatcher.directory.world.clock.now(), False
        due = self.due(live)
        ends = [] if due is None else [max(due, now + await self._still(live, now))]
        for command in live.commands:
            if isinstance(command, RunChild) and command.deadline is not None and not command.queued:
                child = await self._conversations.get(command.child)
                waited = await self._conversations.waited(child, now)
                if await self._still(child, now):
                    paused = True
                else:
                    ends.append(command.deadline + waited)
        return min(ends, default=None), paused

    async def _still(self, live: Conversation, now: float) -> float:
        """By how much the time spent waiting for people grows in the next second; 0 if no person is awaited here or
        below."""
        later = await self._conversations.waited(live, now + 1)
        return later - await self._conversations.waited(live, now)

    async def tell_if_resting(self, live: Conversation, patient: bool = False) -> None:
        """Tell callers what is pending in a conversation that other processes work on, if nothing else goes on in its
        tree. If the program decides about requests by `ask`, that is known only after a while: `patient` says that it
        has passed."""
        if not live.waiters or live.state.run is None:
            return
        if (self._dispatcher.directory.world.ask is None or patient) and (
            pending := await self._rests_on(live.state.id)
        ):
            live.pending = pending
            live.tell_pending()

    async def _rests_on(self, conversation: str) -> list[ApprovalRequest | Ticket]:
        """The requests and tickets that a tree waits for, from the log; empty if something goes on in it."""
        state = State(conversation).fold(await self._log.read(conversation))
        if state.run is None:
            return []
        directory, found = self._dispatcher.directory, list[ApprovalRequest | Ticket]()
        roster = (await directory.world_for(state, ())).roster
        batch, outstanding = settle(state, roster, state.at, ())
        if batch or not outstanding:
            return []
        for command in self.holdings.localized(state, outstanding):
            match command:
                case AwaitApproval(request=request):
                    found.append(request)
                case AwaitClaim(ticket=ticket):
                    found.append(ticket)
                case RunChild(child=child) if below := await self._rests_on(child):
                    found += below
                case CallBack():
                    pass
                case _:
                    return []
        return found

    def _is_paused(self, command: Command) -> bool:
        """True if a delegate's time stands still because a person is awaited there."""
        return isinstance(command, RunChild) and any(
            isinstance(each, ApprovalRequest) for each in self._pending(command)
        )

    def rouse(self, live: Conversation) -> None:
        """Wake a conversation in which something was recorded, and let all above it go on."""
        live.asleep = False
        above = live.state.parent
        while above:
            if (parent := self._conversations.cached(above)) is not None and parent.asleep:
                parent.asleep = False
                # Directly, not through the task that waits for the child: that task may be about to be cancelled.
                self._dispatcher.soon(self._dispatcher.go_on_with(above))
            above = parent_of(above)
        if live.state.root != live.state.id:
            self._dispatcher.soon(self._dispatcher.go_on_with(live.state.root))

    def reopen(self, child: str) -> None:
        """Count a delegate that is run again as awake until it is checked: another process may have continued it."""
        if (live := self._conversations.cached(child)) is not None:
            live.asleep = False

    def give_way(self, live: Conversation) -> None:
        """Drop the waits of a conversation that another process works on: that process has them now."""
        live.asleep = False
        live.drop(lambda command: isinstance(command, AwaitApproval | AwaitClaim | RunChild))

    def _pending(self, command: Command) -> Sequence[ApprovalRequest | Ticket]:
        if isinstance(command, AwaitApproval):
            return [command.request]
        if isinstance(command, AwaitClaim):
            return [command.ticket]
        child = self._conversations.cached(command.child) if isinstance(command, RunChild) else None
        return child.pending if child else []

    def _resumed_by_others(self, command: Command) -> bool:
        """True for waits for delegates and claims: the process that records the decision or the claim goes on with the
        whole tree. Without a watch, waits with a deadline stay, because no other process would keep the time."""
        timed = not self._dispatcher.watched and _deadline(command) is not None
        return isinstance(command, RunChild | AwaitClaim) and not timed


def _deadline(command: Command) -> float | None:
    """The deadline of a wait that passes although no process works on it."""
    match command:
        case AwaitApproval(request=request):
            return request.expires_at
        case AwaitClaim(ticket=ticket):
            return ticket.deadline
        case RunChild(queued=True, deadline=deadline):
            return deadline
        case _:
            return None
