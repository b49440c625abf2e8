"""Waits for people and workers: tickets held here, and conversations released until somebody decides or claims."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence, Set
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec.structs import replace

from changeover.engines.local.conversation import Live
from changeover.facts import ApprovalRequest, Ticket
from changeover.relay.commands import AskReceiver, AwaitApproval, AwaitClaim, Command, RunChild
from changeover.relay.ports import Head
from changeover.relay.queue import Claim
from changeover.relay.state import State
from changeover.relay.tickets import open_tickets, resting, ticket_of

if TYPE_CHECKING:
    from changeover.engines.local.engine import LocalEngine


class End(StrEnum):
    """How the work under a claim came to its end."""

    DONE = "done"
    RESTS = "rests"
    """It waits for a person or a delegate; whoever claims it then goes on with it."""
    LOST = "lost"
    """The lease ran out, and the ticket is somebody else's."""
    BACK = "given back"


class Held:
    """One ticket that is worked on here."""

    def __init__(self, ticket: Ticket, claim: Claim) -> None:
        self.ticket, self.claim = ticket, claim
        self.over: asyncio.Future[End] = asyncio.get_running_loop().create_future()


class Holdings:
    """Knows which commands may be carried out here."""

    def __init__(self) -> None:
        self._held: dict[str, Held] = {}

    def hold(self, held: Held) -> None:
        self.let_go([held.ticket.id], End.LOST)  # whoever claims again what it had does not know of that any more
        self._held[held.ticket.id] = held

    def claim_for(self, state: State) -> Claim | None:
        """The claim by which this engine writes to a conversation, if it works there under one."""
        held = self._held.get(state.run.ticket) if self._held and state.run else None
        return held.claim if held else None

    def let_go(self, tickets: Iterable[str], end: End) -> None:
        """Work on these no longer, and tell whoever wants to know why."""
        for ticket in tickets:
            if (held := self._held.pop(ticket, None)) and not held.over.done():
                held.over.set_result(end)

    def here(self, state: State, commands: Sequence[Command]) -> Sequence[Command]:
        """The commands as they are carried out here: those that take a ticket that is not held here, by waiting."""
        return [self._here(state, command) for command in commands]

    def _here(self, state: State, command: Command) -> Command:
        ticket = ticket_of(state, command)
        # Whether it takes what it claimed, a worker says before anything else, wherever the offer lies.
        held = ticket is not None and ticket.id in self._held and not isinstance(command, AskReceiver)
        return command if ticket is None or held else AwaitClaim(command.id, state.task, ticket)

    def with_tickets(self, head: Head, live: Live, commands: Sequence[Command], before: Set[str]) -> Head:
        """The head, with what is to be claimed from now on in the conversation, and what was before."""
        state, waits = live.state, [command for command in commands if isinstance(command, AwaitClaim)]
        rests = resting(state, [*commands, *(command for _, command in live.flight.values())])
        if head.working:
            rests -= self._held.keys()  # its delegates are at work, here, and it goes on at once when they are done
        wanted = tuple({wait.ticket.id: wait.ticket for wait in waits}.values())
        return replace(head, tickets=wanted, rests=tuple(rests), gone=tuple(before - open_tickets(state)))


def drop_waits(live: Live, ticket: str = "") -> None:
    """Forget what others were to claim, of this ticket or of any: whoever goes on folds anew and is given all."""
    for id, (future, command) in list(live.flight.items()):
        if isinstance(command, AwaitClaim) and ticket in ("", command.ticket.id):
            del live.flight[id]
            live.stale = True
            future.cancel()


async def stop_working(engine: LocalEngine, ticket: Ticket) -> None:
    """Stop all that is done here for a ticket, and own its conversation no longer."""
    if (live := engine.lives.here(ticket.place)) is None:
        return
    async with live.lock:
        for id, (future, command) in list(live.flight.items()):
            found = ticket_of(live.state, command)
            if found is not None and found.id == ticket.id:
                del live.flight[id]
                live.stale = True
                future.cancel()
        if not live.flight:
            live.owned = not await engine.log.release(live.state.id, live.known)


WAITS = frozenset({AwaitApproval, AwaitClaim})


class Resting:
    """Sees when all that is in flight for a conversation is a wait."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine

    def rests(self, live: Live) -> bool:
        """Whether nothing goes on in it, nor below it."""
        return bool(live.flight) and all(self._waits(live, command) for _, command in live.flight.values())

    def _waits(self, live: Live, command: Command) -> bool:
        if isinstance(command, RunChild):
            child = self._engine.lives.here(command.child)
            return child is not None and child.asleep
        if isinstance(command, AwaitClaim):
            return True
        left_to_people = self._engine.world.ask is None or command.id in live.declined
        return isinstance(command, AwaitApproval) and left_to_people

    async def fall_asleep(self, live: Live) -> None:
        """Tell callers what is awaited, let go of the conversation, and see whether its parent rests by that too."""
        async with live.lock:
            if not self.rests(live):
                return
            live.pending = [request for _, command in live.flight.values() for request in self._asked(command)]
            live.asleep = True
            rests, due = self._rests(live), self.due(live)
            self._let_go(live)
            await self._release(live, rests, due)
            self._engine.holdings.let_go([rests], End.RESTS)
            live.tell_to_wait()
        parent = self._engine.lives.here(live.state.parent) if live.state.parent else None
        if parent is not None:
            parent.may_rest = True
            # By a task of its own: whoever waits for the child, and came here, is let go when the parent rests.
            self._engine.soon(self._engine.tell(parent))

    async def _release(self, live: Live, rests: str, due: float | None) -> None:
        """Let go of it; whoever left word meanwhile counts on being heard."""
        if live.owned:
            live.owned = not await self._engine.log.release(live.state.id, live.known, rests, due)
            if live.owned:
                self._engine.soon(self._engine.take_up(live.state.id))

    def due(self, live: Live, commands: Sequence[Command] = ()) -> float | None:
        """When a conversation goes on in which nobody works; None if only others can say."""
        if live.state.run is None:
            return None
        waits = [*commands, *(command for _, command in live.flight.values())]
        ends = [_deadline(wait) for wait in waits if not self._stands_still(wait)]
        ends.append(self._engine.overtime.end_of(live.state))
        return min((end for end in ends if end is not None), default=None)

    def _stands_still(self, command: Command) -> bool:
        """Whether the time of a delegate does not pass, because a person is awaited there."""
        return isinstance(command, RunChild) and any(isinstance(each, ApprovalRequest) for each in self._asked(command))

    def _rests(self, live: Live) -> str:
        """The ticket of the active agent, if there is nothing left to do under it."""
        outstanding = [command for _, command in live.flight.values()]
        own = live.state.run.ticket if live.state.run else ""
        return own if own in resting(live.state, outstanding) else ""

    def rouse(self, live: Live) -> None:
        """Something was recorded in it: all above it may go on, and wait for it again."""
        live.asleep = False
        above = live.state.parent
        while above:
            if (parent := self._engine.lives.here(above)) is not None and parent.asleep:
                parent.asleep = False
                # Itself, and not only by whoever waits for it: that one may not have fallen asleep yet, and then still
                # waits for what nobody does any more.
                self._engine.soon(self._engine.take_up(above))
            above = above.rpartition("/")[0]
        if live.state.root != live.state.id:
            self._engine.soon(self._engine.take_up(live.state.root))

    def reopen(self, child: str) -> None:
        """Nobody says that a delegate still waits before it was looked at: it may have gone on elsewhere."""
        if (live := self._engine.lives.here(child)) is not None:
            live.asleep = False

    def give_way(self, live: Live) -> None:
        """Another process has it now: what is awaited here is awaited there, as far as it still is."""
        live.asleep = False
        for id, (task, command) in list(live.flight.items()):
            if isinstance(command, AwaitApproval | AwaitClaim | RunChild):
                del live.flight[id]
                live.stale = True
                task.cancel()

    def _asked(self, command: Command) -> list[ApprovalRequest | Ticket]:
        if isinstance(command, AwaitApproval):
            return [command.request]
        if isinstance(command, AwaitClaim):
            return [command.ticket]
        child = self._engine.lives.here(command.child) if isinstance(command, RunChild) else None
        return child.pending if child else []

    def _let_go(self, live: Live) -> None:
        """Stop waiting for children and claims: whoever decides or claims takes up the whole tree, perhaps in another
        process. What has a deadline is waited for where nobody else would keep the time."""
        for id, (task, command) in list(live.flight.items()):
            timed = not self._engine.watched and _deadline(command) is not None
            if isinstance(command, RunChild | AwaitClaim) and not timed:
                del live.flight[id]
                task.cancel()
                live.stale = True


def works(live: Live, commands: Sequence[Command]) -> bool:
    """Whether something other than a wait for people or claims goes on, or is about to."""
    for command in commands:  # a loop and no `any`: this is asked with every entry
        if type(command) not in WAITS:
            return True
    return any(type(command) not in WAITS for _, command in live.flight.values())


def _deadline(command: Command) -> float | None:
    """Until when it is waited for at most, though nobody may be at work on it."""
    match command:
        case AwaitApproval(request=request):
            return request.expires_at
        case AwaitClaim(ticket=ticket):
            return ticket.deadline
        case RunChild(queued=True, deadline=deadline):
            return deadline
        case _:
            return None
