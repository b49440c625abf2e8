"""The tickets that an engine works on itself; what belongs to the tickets of others, it leaves to them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence, Set
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec.structs import replace

from changeover.engines.local.conversation import Live
from changeover.relay.commands import AskReceiver, AwaitClaim, Command
from changeover.relay.ports import Head
from changeover.relay.queue import Claim
from changeover.relay.state import State
from changeover.relay.tickets import open_tickets, resting, ticket_of

if TYPE_CHECKING:
    from changeover.engines.local.engine import LocalEngine
    from changeover.facts import Ticket


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
